// Where the shared test data lies: ANEMONE_DATA, or ../shared/data beside the sources.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>

namespace anemone {

// The folder `name` of the data, or nothing (and a message that says "skipped") where it is absent.
inline std::optional<std::filesystem::path> data_folder(const std::string& name) {
  const char* root = std::getenv("ANEMONE_DATA");
  const std::filesystem::path path =
      (root ? std::filesystem::path(root)
            : std::filesystem::path(ANEMONE_SOURCE_DIR) / ".." / "shared" / "data") /
      name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("skipped: no test data at " << path.string());
  return std::nullopt;
}

}  // namespace anemone
