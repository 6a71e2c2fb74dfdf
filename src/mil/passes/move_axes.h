// Lets values lie in memory as suits the operations around them, and moves axes only where it must be.
//     move_axes(program, {});                              // transposes that cancel out further down go away
//     LayoutReport r = move_axes(program, {.convolve = true});   // linear layers over [B, S, C] → 1×1 convs
// A transpose moves nothing at first: its result is the same memory with another order of axes. Elementwise operations,
// reductions, softmax, layer norms, slices, joins and products of matrices work in any order. The first operation that
// wants the program's own order gets a transpose.
//
// With `convolve`, a linear layer over [B, S, C] becomes a 1×1 conv over [B, C, 1, S], the form that the Neural Engine
// likes best, and what lies between two of them stays in that order. Heads are then [B, H, D, S], so attention needs no
// transpose either. A region with more transposes at its border than layers inside stays as it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "mil/passes/layout.h"
#include "mil/program.h"

namespace anemone {

struct LayoutOptions {
  bool convolve = false;
};

struct LayoutReport {
  int64_t transposes_before = 0, transposes_after = 0;
  int64_t convolved = 0, left = 0;  // linear layers that became convs, and those that did not
  std::map<std::string, Layout>
      layouts;  // of values that have another order than in the program they came from
};

// Changes nothing where it would not help. Only values of fixed shape take part.
LayoutReport move_axes(Program& program, const LayoutOptions& options);

}  // namespace anemone
