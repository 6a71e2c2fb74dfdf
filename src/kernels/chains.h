// Short chains of element-wise operations that every decoder has, in one pass over memory each.
//     rms_norm(x, out, channels, tokens, 0, tokens, gain, {.floor = 0x1p-14f, .root_eps = 3e-3f});
// Each element is computed by the fp32 operations of the chain, in their order; a product may go into its sum
// unrounded.
#pragma once

#include <cstdint>

namespace anemone {

// out = s * (1 / sqrt(mean(s²) + eps + rsqrt_eps)) * gain. With `floor` above 0, s = x / a, a = max(floor,
// max |x|), and eps is (root_eps / a)²; else s = x.
struct RmsRule {
  float floor = 0, root_eps = 0, eps = 0, rsqrt_eps = 0;
};

// Columns [begin, end) of x [n, inner], each normalised along n. `gain`: n values, or empty.
void rms_norm(const float* x, float* out, int64_t n, int64_t inner, int64_t begin, int64_t end,
              const float* gain, const RmsRule& rule) noexcept;
// out[i] = x[i] * cos[i] - x[p + i] * sin[i]; out[p + i] = x[p + i] * cos[i] + x[i] * sin[i]; i < p = pairs.
void rotate(const float* x, const float* cos, const float* sin, int64_t pairs, float* out) noexcept;
// out = (x / (1 + e^-x)) * up; without `up`, x / (1 + e^-x).
void gate(const float* x, const float* up, int64_t n, float* out) noexcept;

// The plain twins.
void rms_norm_plain(const float* x, float* out, int64_t n, int64_t inner, int64_t begin, int64_t end,
                    const float* gain, const RmsRule& rule) noexcept;
void rotate_plain(const float* x, const float* cos, const float* sin, int64_t pairs, float* out) noexcept;
void gate_plain(const float* x, const float* up, int64_t n, float* out) noexcept;

}  // namespace anemone
