// Where the given data and the fetched tokenizers lie; tests that need an absent one say "skipped".
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace anemone {

inline std::filesystem::path data_folder() {
  if (const char* given = std::getenv("ANEMONE_DATA")) return given;
  return std::filesystem::path(ANEMONE_SOURCE_DIR) / "../shared/data";
}

inline std::filesystem::path tokenizer_cache() {
  if (const char* given = std::getenv("ANEMONE_TOKENIZERS")) return given;
  return std::filesystem::path(ANEMONE_SOURCE_DIR) / ".cache/tokenizers";
}

// The files of a folder whose names end so, in order; none when there is no such folder.
inline std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder,
                                                       const std::string& end) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(folder)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(end)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace anemone
