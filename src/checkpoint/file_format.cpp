#include "checkpoint/file_format.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/paths.h"

namespace anemone {

namespace fs = std::filesystem;

const FileFormat& choose_format(const fs::path& path, std::span<const FileFormat* const> formats) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw missing_path(path.string());
  Claim strongest = Claim::none;
  std::vector<const FileFormat*> claimants;
  for (const FileFormat* format : formats) {
    const Claim claim = format->claim(path);
    if (claim == Claim::none || claim < strongest) continue;
    if (claim > strongest) claimants.clear();
    strongest = claim;
    claimants.push_back(format);
  }
  if (claimants.size() == 1) return *claimants.front();

  std::string known;
  for (const FileFormat* format : formats)
    known += fmt::format("{}{}: {}", known.empty() ? "" : "; ", format->name, format->accepts);
  if (claimants.empty())
    throw Error("is not a checkpoint that can be read")
        .at(path.string())
        .found(fs::is_directory(path, ignored) ? "a folder without a checkpoint of a known format"
                                               : "a file of another format")
        .expected(known);
  std::string names;
  for (const FileFormat* format : claimants)
    names += (names.empty() ? "" : " and ") + std::string(format->name);
  throw Error("may be a checkpoint of more than one format")
      .at(path.string())
      .found(names)
      .expected("one of: " + known)
      .hint(fs::is_directory(path, ignored) ? "name one of the files in it"
                                            : "its first bytes and its name contradict each other");
}

std::vector<fs::path> files_with(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  std::error_code ignored;  // an unreadable folder has no files
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

fs::path folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace anemone
