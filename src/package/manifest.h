// Manifest: Manifest.json, the table of contents of an .mlpackage.
//     Manifest m = parse_manifest(text);
//     path = package / "Data" / m.root().path;
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace anemone {

struct ManifestItem {
  std::string author, description, name;
  std::string path;  // below Data/
};

struct Manifest {
  std::string root_identifier;
  std::map<std::string, ManifestItem> items;  // by identifier

  const ManifestItem& root() const { return items.at(root_identifier); }
  // The folder of weights, by its name and author; empty when there is none.
  const ManifestItem* weights() const;
};

// Throws Error for what is not a manifest of version 1.0.0 or lower, with the four keys in every item.
Manifest parse_manifest(std::string_view text);
// Sorted keys, four spaces, a newline at the end.
std::string manifest_text(const Manifest& manifest);

inline constexpr std::string_view kManifestAuthor = "com.apple.CoreML";

}  // namespace anemone
