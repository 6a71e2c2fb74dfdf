// Holds what bundle.json says to what those who run a bundle rely on, so that a damaged or hostile file is one
// Error that names the place, and nothing that happens later.
//     check_info(info);                        // by itself: sizes, layers, indexes, roles that belong together
// What the packages must be like for it is in check_ports.h.
#pragma once

#include "bundle/bundle_info.h"

namespace anemone {

void check_info(const BundleInfo& info);

}  // namespace anemone
