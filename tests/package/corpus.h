// The given data, walked: tests see whatever packages lie there and skip where there are none.
//     for (const auto& path : corpus::packages()) …
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace anemone::corpus {

inline std::filesystem::path data_root() {
  const char* given = std::getenv("ANEMONE_DATA");
  return given ? std::filesystem::path(given)
               : std::filesystem::path(ANEMONE_SOURCE_DIR) / ".." / "shared" / "data";
}

// Every .mlpackage below the data folder, sorted.
inline std::vector<std::filesystem::path> packages() {
  std::vector<std::filesystem::path> out;
  std::error_code why;
  for (auto it = std::filesystem::recursive_directory_iterator(data_root(), why);
       !why && it != std::filesystem::recursive_directory_iterator(); it.increment(why))
    if (it->path().extension() == ".mlpackage") {
      out.push_back(it->path());
      it.disable_recursion_pending();
    }
  std::sort(out.begin(), out.end());
  if (out.empty()) MESSAGE("skipped: no packages below " << data_root().string());
  return out;
}

}  // namespace anemone::corpus
