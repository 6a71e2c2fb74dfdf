#include "bundle/writer.h"

#include <algorithm>

#include "bundle/files.h"

namespace anemone {

WriteReport BundleWriter::add(const Package& package, const std::string& name) {
  return write_package(package, folder_ / name, {.pool = &pool_});
}

void BundleWriter::copy_rest(const std::filesystem::path& bundle, const BundleInfo& info) {
  const std::vector<std::string> packages = info.packages();
  for (const auto& entry : std::filesystem::directory_iterator(bundle)) {
    const std::string name = entry.path().filename().string();
    if (name == kBundleFile || std::find(packages.begin(), packages.end(), name) != packages.end()) continue;
    std::filesystem::copy(entry.path(), folder_ / name, std::filesystem::copy_options::recursive);
  }
}

void BundleWriter::finish(BundleInfo& info) {
  info.files = hash_files(folder_, pool_);
  write_text(folder_ / kBundleFile, info.json());
}

}  // namespace anemone
