// A folder for a test's files, gone when the test ends; and the folder of given data.
//     TempFolder folder;
//     folder.write("config.json", "{}");
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace anemone::test {

class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> number{0};
    path_ = std::filesystem::temp_directory_path() /
            ("anemone_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Where the given models lie: $ANEMONE_DATA, or ../shared/data beside the sources.
inline std::filesystem::path data_folder() {
  if (const char* given = std::getenv("ANEMONE_DATA")) return given;
  return std::filesystem::path(ANEMONE_SOURCE_DIR) / "../shared/data";
}

}  // namespace anemone::test
