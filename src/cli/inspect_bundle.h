// `anemone inspect BUNDLE`: what a bundle is for, what it was made of, its stages.
#pragma once

#include <string>

#include "cli/command.h"

namespace anemone::cli {

int inspect_bundle(const std::string& path, const Common& common);

}  // namespace anemone::cli
