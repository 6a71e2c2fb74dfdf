// Holds what bundle.json says to what those who run a bundle rely on, so that a damaged or hostile file is one
// Error that names the place, and nothing that happens later.
//     check_info(info);                        // by itself: sizes, layers, indexes, roles that belong together
//     check_ports(info.stages[0], package);    // against a package: every port is there, and there are no others
#pragma once

#include "anemone/package.h"
#include "bundle/bundle_info.h"

namespace anemone {

void check_info(const BundleInfo& info);
void check_ports(const Stage& stage, const Package& package);
// Error unless an output of a call of `width` columns has the size that bundle.json says: nothing is read beside it. Of
// what the host keeps (new_keys …), whoever keeps it looks.
void check_output(const std::vector<int64_t>& shape, const Port& port, const BundleInfo& info, int64_t width);

}  // namespace anemone
