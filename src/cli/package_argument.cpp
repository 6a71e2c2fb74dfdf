#include "cli/package_argument.h"

#include "anemone/package.h"
#include "base/error.h"
#include "bundle/bundle_info.h"

namespace anemone::cli {

std::shared_ptr<const Package> package_argument(const std::string& path) {
  if (!is_bundle(path)) return open_package(path);
  std::string names;
  for (const std::string& name : BundleInfo::read(path).packages())
    names += (names.empty() ? "" : ", ") + name;
  throw errorf("this is a bundle of several packages").at(path).hint("name one of them: " + names);
}

}  // namespace anemone::cli
