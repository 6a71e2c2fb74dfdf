#include "support/data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

namespace anemone {

namespace fs = std::filesystem;

const fs::path& source_dir() {
  static const fs::path path = ANEMONE_SOURCE_DIR;
  return path;
}

fs::path data_root() {
  const char* given = std::getenv("ANEMONE_DATA");
  return given ? fs::path(given) : source_dir() / ".." / "shared" / "data";
}

std::optional<fs::path> data_folder(const std::string& name) {
  const fs::path path = data_root() / name;
  if (fs::exists(path)) return path;
  MESSAGE("skipped: no test data at " << path.string());
  return std::nullopt;
}

std::vector<fs::path> data_packages() {
  std::vector<fs::path> out;
  std::error_code why;
  for (auto it = fs::recursive_directory_iterator(data_root(), why);
       !why && it != fs::recursive_directory_iterator(); it.increment(why)) {
    if (it->path().extension() != ".mlpackage") continue;
    out.push_back(it->path());
    it.disable_recursion_pending();
  }
  std::sort(out.begin(), out.end());
  if (out.empty()) MESSAGE("skipped: no packages below " << data_root().string());
  return out;
}

std::optional<fs::path> smollm2_file() {
  const char* given = std::getenv("ANEMONE_SMOLLM2");
  if (given && fs::exists(given)) return given;
  const std::vector<fs::path> fetched = files_ending(source_dir() / ".cache" / "smollm2", ".gguf");
  if (!fetched.empty()) return fetched[0];
  MESSAGE("skipped: SmolLM2 is not here; tools/fetch_smollm2.sh fetches it, or name it in ANEMONE_SMOLLM2");
  return std::nullopt;
}

std::vector<fs::path> files_ending(const fs::path& folder, const std::string& end) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().ends_with(end)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace anemone
