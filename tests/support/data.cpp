#include "support/data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace anemone {

namespace fs = std::filesystem;

const fs::path& source_dir() {
  static const fs::path path = ANEMONE_SOURCE_DIR;
  return path;
}

namespace {

std::string roots_text() {
  std::string out;
  for (const fs::path& root : data_roots()) out += (out.empty() ? "" : ", ") + root.string();
  return out.empty() ? "no root, since ANEMONE_DATA is empty" : out;
}

}  // namespace

std::vector<fs::path> data_roots() {
  const char* given = std::getenv("ANEMONE_DATA");
  const fs::path shared = source_dir() / ".." / "shared";
  if (!given) return {shared / "data", shared / "data_next"};
  std::vector<fs::path> out;
  std::istringstream list(given);
  for (std::string root; std::getline(list, root, ':');)
    if (!root.empty()) out.emplace_back(root);
  return out;
}

std::vector<fs::path> data_folders(const std::string& name) {
  std::vector<fs::path> out;
  for (const fs::path& root : data_roots())
    if (fs::exists(root / name)) out.push_back(root / name);
  if (out.empty()) MESSAGE("skipped: no test data '" << name << "' below " << roots_text());
  return out;
}

std::optional<fs::path> data_folder(const std::string& name) {
  const std::vector<fs::path> all = data_folders(name);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::vector<fs::path> data_packages() {
  std::vector<fs::path> out;
  for (const fs::path& root : data_roots()) {
    std::error_code why;
    for (auto it = fs::recursive_directory_iterator(root, why);
         !why && it != fs::recursive_directory_iterator(); it.increment(why)) {
      if (it->path().extension() != ".mlpackage") continue;
      out.push_back(it->path());
      it.disable_recursion_pending();
    }
  }
  std::sort(out.begin(), out.end());
  if (out.empty()) MESSAGE("skipped: no packages below " << roots_text());
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
