// Checks everything in bundle.json that the runtime relies on. So a damaged or hostile file gives one Error that names
// the place, and no failure later.
//     check_info(info);                        // alone: sizes, layers, indexes, roles that belong together
// What the packages must be like for it is in check_ports.h.
#pragma once

#include "bundle/bundle_info.h"

namespace anemone {

void check_info(const BundleInfo& info);

}  // namespace anemone
