// Functions of single elements and of rows, for networks that are no decoders: gelu, sigmoid, tanh, layer norm.
//     map_gelu(GeluMode::exact, x, n, out);
//     layer_norm(x, n, gamma, beta, 1e-5, out);
// Errors are a few units in the last place. `out` may be `x`.
#pragma once

#include <cstdint>

namespace anemone {

// x * Phi(x), Phi the normal distribution function; and two approximations of it, by tanh and by a sigmoid.
enum class GeluMode { exact, tanh, sigmoid };
void map_gelu(GeluMode mode, const float* x, int64_t n, float* out) noexcept;
void map_sigmoid(const float* x, int64_t n, float* out) noexcept;
void map_tanh(const float* x, int64_t n, float* out) noexcept;
// min(max(x, low), high); NaN stays.
void map_clamp(const float* x, int64_t n, float low, float high, float* out) noexcept;
// x * min(max(alpha * x + beta, 0), 1).
void map_hard_swish(const float* x, int64_t n, float alpha, float beta, float* out) noexcept;
// gamma * (x - mean) / sqrt(variance + eps) + beta of one row; gamma and beta may be empty.
void layer_norm(const float* x, int64_t n, const float* gamma, const float* beta, double eps,
                float* out) noexcept;

// The plain twins.
void map_gelu_plain(GeluMode mode, const float* x, int64_t n, float* out) noexcept;
void map_sigmoid_plain(const float* x, int64_t n, float* out) noexcept;
void map_tanh_plain(const float* x, int64_t n, float* out) noexcept;
void map_clamp_plain(const float* x, int64_t n, float low, float high, float* out) noexcept;
void map_hard_swish_plain(const float* x, int64_t n, float alpha, float beta, float* out) noexcept;
void layer_norm_plain(const float* x, int64_t n, const float* gamma, const float* beta, double eps,
                      float* out) noexcept;

}  // namespace anemone
