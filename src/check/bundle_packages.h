// The packages of a bundle, held to what bundle.json says of them.
//     for (const auto& package : open_packages(info, "bundle")) summarize(*package);
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "bundle/bundle_info.h"
#include "package/package.h"

namespace anemone {

// In the order of info.packages(). Error that names it where a package, a function or a port that bundle.json names is
// not there or has another shape.
std::vector<std::shared_ptr<const Package>> open_packages(const BundleInfo& info,
                                                          const std::filesystem::path& bundle);

}  // namespace anemone
