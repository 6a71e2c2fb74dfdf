// The operations that blocks are made of, in the form that suits the Neural Engine: 1x1 convolutions on [1, C, T, 1],
// everything in fp16, no intermediate value outside the range of fp16.
//     Value* h = rms_norm(b, x, {.axis = 1, .gain = gain, .eps = 1e-5}, "attn_norm");
//     Value* q = conv1x1(b, h, wq, nullptr, "q");                  // [1, heads * dim, T, 1]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mil/builder.h"

namespace anemone::lower {

inline constexpr DType kHalf = DType::fp16;

Constant half(float value);

// weight: [out, in, 1, 1]; bias: [out] or empty.
Value* conv1x1(Builder& b, Value* x, Value* weight, Value* bias, std::string_view name);

// RMSNorm with a scale per token: x / max|x| is squared, so nothing overflows; eps is divided by the square
// of that maximum. With a constant scale the first token's outlier (|x| near 25,000 in SmolLM2) drowns the
// others: logit cosine 0.82 instead of 0.99999.
struct NormSpec {
  int axis = 1;
  Value* gain = nullptr;  // broadcastable to x
  Value* bias = nullptr;
  double eps = 1e-5;
};
Value* rms_norm(Builder& b, Value* x, const NormSpec& spec, std::string_view name);
// The same of x less its mean, with a bias behind.
Value* layer_norm(Builder& b, Value* x, const NormSpec& spec, std::string_view name);

// x: [1, heads, T, dim]; cos, sin: [1, 1, T, rotated / 2]. Rotates the first `rotated` of the last axis,
// halves against each other; the rest passes.
Value* rotate(Builder& b, Value* x, Value* cos, Value* sin, int64_t rotated, std::string_view name);

// [1, heads * dim, T, 1] → [1, heads, T, dim], and back.
Value* split_heads(Builder& b, Value* x, int64_t heads, int64_t dim, std::string_view name);
Value* merge_heads(Builder& b, Value* x, int64_t heads, int64_t dim, std::string_view name);

Value* reshape(Builder& b, Value* x, std::initializer_list<int64_t> shape, std::string_view name);
// [1, C, T, 1] and [1, 1, T, C], one from the other.
Value* turned(Builder& b, Value* x, std::string_view name);
Value* join(Builder& b, std::vector<Value*> values, int axis, std::string_view name);
// A convolution over tokens, none added at the ends: [1, C, R + T, 1] with a weight [C, C / groups, R + 1, 1].
Value* conv_over_time(Builder& b, Value* x, Value* weight, Value* bias, int64_t groups,
                      std::string_view name);
// Elements [begin, end) of one axis.
Value* slice_axis(Builder& b, Value* x, int axis, int64_t begin, int64_t end, std::string_view name);
// The last axis filled up with zeros to `size`.
Value* pad_last(Builder& b, Value* x, int64_t size, std::string_view name);

// cap * tanh(x / cap).
Value* soft_cap(Builder& b, Value* x, double cap, std::string_view name);

Value* add(Builder& b, Value* x, Value* y, std::string_view name);
Value* mul(Builder& b, Value* x, Value* y, std::string_view name);
Value* scale(Builder& b, Value* x, double factor, std::string_view name);  // x itself for 1

}  // namespace anemone::lower
