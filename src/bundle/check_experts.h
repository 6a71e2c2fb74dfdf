// Checks what bundle.json says of experts that the host chooses.
//     check_experts(info);                       // Error that names the stage and the field
#pragma once

#include "bundle/bundle_info.h"

namespace anemone {

// A route is followed by stages that hold each of its experts once and in order, and then by a stage that begins with
// their sum. Rules are possible, and their sizes are those of the ports.
void check_experts(const BundleInfo& info);

}  // namespace anemone
