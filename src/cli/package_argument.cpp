#include "cli/package_argument.h"

#include <filesystem>
#include <set>

#include "anemone/package.h"
#include "base/error.h"
#include "bundle/bundle_info.h"

namespace anemone::cli {

namespace fs = std::filesystem;

std::shared_ptr<const Package> package_argument(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::path(path) / kBundleFile, error)) return open_package(path);
  std::string names;
  std::set<std::string> seen;
  for (const Stage& stage : BundleInfo::read(path).stages)
    if (seen.insert(stage.package).second) names += (names.empty() ? "" : ", ") + stage.package;
  throw errorf("this is a bundle of several packages").at(path).hint("name one of them: " + names);
}

}  // namespace anemone::cli
