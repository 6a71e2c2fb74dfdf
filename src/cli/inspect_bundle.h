// `anemone inspect BUNDLE`: what a bundle is for, what it was made of, its stages, its weights.
#pragma once

#include <string>

#include "cli/command.h"

namespace anemone::cli {

// `each_weight`: a line for every weight, not one for all layers.
int inspect_bundle(const std::string& path, bool each_weight, const Common& common);

}  // namespace anemone::cli
