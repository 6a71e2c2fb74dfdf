// PACKAGE on the command line: one package, and a helpful word where a bundle was given instead.
//     const auto package = package_argument(args.package);
#pragma once

#include <memory>
#include <string>

#include "package/package.h"

namespace anemone::cli {

std::shared_ptr<const Package> package_argument(const std::string& path);

}  // namespace anemone::cli
