// Sampler: picks the next token from logits.
//     Sampler sampler({.temperature = 0.8, .top_p = 0.95, .seed = 1});
//     int32_t id = sampler.pick(logits, history);
// The steps are those of transformers, in its order: repetition penalty, temperature, top-k, top-p, min-p. Before them
// come OpenAI's: biases, presence and frequency penalty; then the grammar. The same seed and logits give the same
// tokens on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace anemone {

class GrammarMatcher;

struct SamplerOptions {
  double temperature = 0;          // 0: the best token always
  int64_t top_k = 0;               // keep this many; 0: all
  double top_p = 1;                // keep the most likely that together reach this
  double min_p = 0;                // keep what is at least this times as likely as the best
  double repetition_penalty = 1;   // divides the logits above zero of recent tokens, multiplies those below
  int64_t repetition_window = 64;  // how many of the last tokens the penalty looks at
  double presence_penalty = 0;     // taken off the logits of tokens that the answer has already
  double frequency_penalty = 0;    // the same for each time that it has them
  std::vector<std::pair<int32_t, float>> biases = {};  // added to the logits of these tokens
  bool temperature_last = false;                       // top-p and min-p look at the probabilities before it
  uint64_t seed = 1;

  bool greedy() const { return temperature <= 0; }
  // Something is done to the logits before the best of them is looked for.
  bool changes_logits() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 || !biases.empty();
  }
  void check() const;  // Error for a value that means nothing
};

class Sampler {
 public:
  // The best token and how far the second is behind it, both after the penalty.
  struct Best {
    int32_t id = 0;
    float margin = 0;
    float scale = 0;  // the largest magnitude of a logit
  };

  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
    options.check();
  }

  // `history`: all tokens so far, the prompt's too; `answer`: those of the answer alone; `grammar`: only what it
  // allows. Error where no logit is a number. Of equally good tokens the lower id is the better one.
  int32_t pick(std::span<const float> logits, std::span<const int32_t> history,
               std::span<const int32_t> answer = {}, GrammarMatcher* grammar = nullptr);
  Best best(std::span<const float> logits, std::span<const int32_t> history,
            std::span<const int32_t> answer = {}, GrammarMatcher* grammar = nullptr) const;

  const SamplerOptions& options() const { return options_; }

 private:
  struct Past {
    std::span<const int32_t> history, answer;
    GrammarMatcher* grammar = nullptr;
  };
  // The logits after biases and penalties: `own`, or as they are where nothing changes.
  std::span<const float> changed(std::span<const float> logits, const Past& past,
                                 std::vector<float>& own) const;
  double uniform();                              // [0, 1)
  size_t draw(std::span<const double> weights);  // one of them, as likely as it weighs

  SamplerOptions options_;
  uint64_t random_;
};

}  // namespace anemone
