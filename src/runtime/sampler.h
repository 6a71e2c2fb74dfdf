// Sampler: picks the next token from logits.
//     Sampler sampler({.temperature = 0.8, .top_p = 0.95, .seed = 1});
//     int32_t id = sampler.pick(logits, history);
// The same seed and logits give the same tokens on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anemone {

struct SamplerOptions {
  double temperature = 0;  // 0: the best token always
  int64_t top_k = 0;       // keep this many; 0: all
  double top_p = 1;        // keep the most likely that together reach this
  double min_p = 0;        // keep what is at least this times as likely as the best
  double repetition_penalty = 1;
  int64_t repetition_window = 64;  // how many of the last tokens the penalty looks at
  uint64_t seed = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}

  int32_t pick(std::span<const float> logits, std::span<const int32_t> history);

 private:
  double uniform();  // [0, 1)

  SamplerOptions options_;
  uint64_t random_;
};

}  // namespace anemone
