// Pooling of one plane (a channel): the largest value in each window.
//     DepthwiseRoom room;
//     max_pool({.height = 112, .width = 112, .out_height = 56, .out_width = 56, .stride = {2, 2}, .before = {1, 1}},
//              x, room, out);
// What is not a number stays; a window with no value has -infinity.
#pragma once

#include "kernels/depthwise.h"

namespace anemone {

void max_pool(const DepthwisePlane& plane, const float* x, DepthwiseRoom& room, float* out);

// The plain twin.
void max_pool_plain(const DepthwisePlane& plane, const float* x, float* out);

}  // namespace anemone
