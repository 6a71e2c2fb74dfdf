// Rope: how positions are rotated into the heads of q and k, pure data.
#pragma once

#include <cstdint>
#include <vector>

namespace anemone {

enum class RopeScaling {
  none,
  linear,     // f / factor
  divisors,   // f_i / divisors_i (llama3 as GGUF files keep it)
  llama3,     // by wave length: f, f / factor, and a blend of the two in between
  yarn,       // by index: f, f / factor, and a ramp in between; cos and sin times attention_factor
  longrope,   // f_i / short_factors_i or long_factors_i; cos and sin times attention_factor with both
  ntk_alpha,  // base * alpha^(dims / (dims - 2))
  dynamic,    // f up to original_context positions; longer sequences stretch the base by their own length
};

// Rotation of the first `dims` of each head, in halves: element i pairs with i + dims/2. The angle is
// position * f_i with f_i = base^(-2i/dims) before scaling, i < dims/2.
//     llama3:  w = 2π/f; w < original/high_freq → f; w > original/low_freq → f/factor; else with
//              s = (original/w - low_freq) / (high_freq - low_freq): f * ((1 - s)/factor + s)
//     yarn:    d(n) = dims * ln(original / (2π n)) / (2 ln base); low = d(beta_fast), high = d(beta_slow),
//              with `truncate` rounded down and up; then low >= 0, high <= dims - 1;
//              ramp_i = clamp((i - low) / (high - low), 0, 1); f/factor * ramp + f * (1 - ramp)
//     longrope: one choice for a whole sequence: long when it uses more than original_context positions
//     dynamic: one base for a whole sequence of n positions: with n > original_context it is
//              base * (factor * n / original_context - (factor - 1))^(dims / (dims - 2))
struct Rope {
  int64_t dims = 0;  // even, at most head_dim
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                 // linear, llama3, yarn, dynamic
  double attention_factor = 1;                       // multiplies cos and sin, whatever the scaling
  int64_t original_context = 0;                      // llama3, yarn, longrope, dynamic
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn
  double alpha = 1;                                  // ntk_alpha
  std::vector<double> divisors;                      // divisors: dims/2 of them
  std::vector<double> short_factors, long_factors;   // longrope: dims/2 of each
};

}  // namespace anemone
