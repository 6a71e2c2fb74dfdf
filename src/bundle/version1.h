// bundle.json as version 1 wrote it. There a function's inputs and states had no roles but fixed names; this is the one
// place that knows them.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "bundle/bundle_info.h"

namespace anemone {

// `folder`: the bundle; its packages define the inputs of each function.
BundleInfo read_version1(const nlohmann::ordered_json& json, const std::filesystem::path& folder);

// The keys that mean the same in all versions.
void read_common(const nlohmann::ordered_json& json, BundleInfo& info);

}  // namespace anemone
