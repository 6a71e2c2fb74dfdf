// Viterbi: the legal sequence of labels with the largest sum of scores, over a text of any length.
//     Transitions transitions(scheme, biases_of(Policy::balanced));
//     Viterbi viterbi(transitions);
//     viterbi.add(log_probabilities);                         // [tokens, labels], a window after the other
//     for (int label : viterbi.decided()) …                   // what no later token can change
//     for (int label : viterbi.finish()) …                    // the rest
// A label is decided where the best paths to all labels of the last token have met: windows give what one pass gives.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redact/labels.h"

namespace anemone::redact {

// Added to the score of a step from one label to the next.
struct TransitionBiases {
  double background_stay = 0;      // O → O
  double background_to_start = 0;  // O → B, S
  double end_to_background = 0;    // E, S → O
  double end_to_start = 0;         // E, S → B, S
  double inside_to_continue = 0;   // B, I → I
  double inside_to_end = 0;        // B, I → E
};

// How ready the model is to mark something.
enum class Policy { strict, balanced, quiet };
TransitionBiases biases_of(Policy policy);

// The steps that are legal, with their biases: one table for all texts.
class Transitions {
 public:
  struct From {
    uint8_t label;
    double bias;
  };

  // Error for more labels than 256.
  Transitions(const LabelScheme& scheme, const TransitionBiases& biases);

  const LabelScheme& scheme() const { return scheme_; }
  std::span<const From> into(size_t label) const { return from_[label]; }

 private:
  const LabelScheme& scheme_;
  std::vector<std::vector<From>> from_;  // by label
};

class Viterbi {
 public:
  explicit Viterbi(const Transitions& transitions);

  // Scores of tokens: logarithms of probabilities, a row of all labels for each.
  void add(std::span<const float> scores);
  // Labels of the tokens that follow those given out before.
  std::vector<int> decided();
  std::vector<int> finish();

 private:
  void add_token(const float* scores);
  // The labels of the first `count` tokens that are held, on the path that goes through `label` at the last of them.
  std::vector<int> take(size_t count, int label);

  const Transitions& transitions_;
  const LabelScheme& scheme_;
  std::vector<double> best_, next_;
  std::vector<uint8_t> came_;  // [tokens held, labels]
  size_t held_ = 0;            // tokens that were not given out
  bool started_ = false;
};

}  // namespace anemone::redact
