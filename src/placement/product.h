// Product: an operation that multiplies and adds up, whichever way it is written: conv, linear, matmul, einsum,
// attention. What is known of one way of writing a product holds for the others.
//     for (const int64_t size : inner_sizes(view)) …       // what is summed over; the engine has a limit (S07)
//     if (const auto p = projection_of(view)) p->outputs;  // a product with a constant weight
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/op_view.h"

namespace anemone::placement {

// conv, conv_transpose and conv_quantized, of one, two and three dimensions.
bool is_convolution(const Operation& op);
// Those, matmul, linear, einsum and attention.
bool is_product(const Operation& op);

// The sizes of the dimensions that a matmul, linear, einsum or attention sums over. Not of convolutions: those sum over
// channels, which have a limit of their own.
std::vector<int64_t> inner_sizes(const OpView& view);

// A product with a constant weight: a layer's projection.
struct Projection {
  const Tensor* x = nullptr;
  const Tensor* weight = nullptr;
  int64_t outputs = 1;  // channels or features that it gives
  double columns = 1;   // tokens or pixels that it works on
};
// The pointers go into `view`.
std::optional<Projection> projection_of(const OpView& view);

// The dimension of the weight, an operand of `op`, that makes the outputs: scales and palettes may differ along this
// one only. 0 where nothing else is known.
int output_axis(const Operation& op, const Value& weight);

}  // namespace anemone::placement
