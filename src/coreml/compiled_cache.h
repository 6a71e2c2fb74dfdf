// CompiledCache: what Core ML's compiler made of packages, kept on disk. A compiled package is found by the content of
// the package and by the build of the system: an update of the system makes old ones useless.
//     CompiledCache cache(CompiledCache::default_folder(), "24E248");
//     const std::string key = cache.key("layers_00.mlpackage");
//     if (!cache.find(key)) cache.put(compiled, key, "layers_00.mlpackage");
//
// | path in the folder | what it is |
// |---|---|
// | `<build>/<key>.mlmodelc/` | a compiled package, put there by rename |
// | `<build>/<key>.json` | for people: name and size of the package |
// | `<build>/<key>.findings.json` | what was found out about a bundle's packages: device_memory.h |
// | `keys/<hash of a path>` | the key of a package, and the sizes and times of its files when it was computed |
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anemone {

struct CompiledEntry {
  std::filesystem::path path;  // the .mlmodelc
  std::string build, package;  // the system's build, and the name of what was compiled
  uint64_t bytes = 0;
};

class CompiledCache {
 public:
  // Nothing is made before something is put.
  CompiledCache(std::filesystem::path folder, std::string build)
      : folder_(std::move(folder)), build_(std::move(build)) {}

  // $ANEMONE_COREML_CACHE; else ~/Library/Caches/anemone/coreml on a Mac, $XDG_CACHE_HOME/anemone/coreml elsewhere.
  static std::filesystem::path default_folder();

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& build() const { return build_; }
  // Of what the package's files hold; 16 hex digits. Their hashes are remembered as long as sizes and times stay.
  std::string key(const std::filesystem::path& package) const;
  std::optional<std::filesystem::path> find(const std::string& key) const;
  // Moves a compiled package in; somebody else may have been faster, then it is removed. Error when the folder cannot
  // be written; `compiled` is then still where it was.
  std::filesystem::path put(const std::filesystem::path& compiled, const std::string& key,
                            const std::string& package) const;

  // Everything that is there, of all builds.
  std::vector<CompiledEntry> entries() const;
  // Removes what other builds of the system made; with `all`, everything of this cache. Other files that are in the
  // folder stay. The bytes that it gave back.
  uint64_t clean(bool all) const;

 private:
  std::filesystem::path folder_;
  std::string build_;
};

// Moves a folder by rename; where the two are on different disks, by a copy beside the target and a rename. Where the
// target is there already, the folder is removed. Error, and the folder still where it was.
void move_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Puts a small file there by rename, with its folders. False where that cannot be.
bool write_beside(const std::filesystem::path& path, const std::string& text);

}  // namespace anemone
