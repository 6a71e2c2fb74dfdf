// Floating-point values of a function as fp16, with islands of fp32 where the range of fp16 would not do.
//     HalfReport r = to_half(function);          // inputs and outputs become fp16 too
// An operation stays in fp32 when it squares or sums up (square, pow, exp, sums of squares, cumsum …), when a constant
// that it takes leaves fp16's range, or when fp16 is no type of its parameters. The sums, roots and quotients that
// follow directly stay with it. Constants beyond 1e30 are masks and become fp16's largest number.
// So do whole numbers that fp16 does not have: what is cast to an integer, what is cast from integers that may be over
// 2048, and the sums and products of such numbers. Where they meet other numbers of the network, such as a mask that
// activations are multiplied with, they become fp16: `narrowed` names those that may be beyond its range.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "mil/program.h"

namespace anemone {

struct HalfOptions {
  std::set<std::string> keep;  // inputs that stay fp32: images
};

struct HalfReport {
  int64_t halves = 0;                 // operations in fp16
  int64_t islands = 0;                // operations that stayed in fp32
  std::vector<std::string> narrowed;  // whole numbers of unknown size that become fp16, by name, each once
};

HalfReport to_half(Function& function, const HalfOptions& options = {});

}  // namespace anemone
