// Spans: what was found in the view of a unit, and the rules by which labels of tokens become such.
//     SpanBuilder builder(scheme);
//     builder.add_token(bytes, kind_probabilities);           // tokens as they come, with their bytes in the view
//     builder.label(label, spans);                            // their labels, as they are decided
//     snap(unit, spans);
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "redact/labels.h"
#include "redact/unit.h"

namespace anemone::redact {

struct Span {
  uint64_t begin = 0, end = 0;  // bytes of the view
  int kind = 0;
  float score = 0;  // the mean, over its tokens, of the probability of its kind; 1 for a pattern
};

class SpanBuilder {
 public:
  explicit SpanBuilder(const LabelScheme& scheme) : scheme_(scheme), kinds_(scheme.kinds().size()) {}

  // `probabilities`: of each kind.
  void add_token(uint32_t bytes, std::span<const float> probabilities);
  // The label of the next token that has none. A span that it ends is appended.
  void label(int label, std::vector<Span>& out);
  // A span that is still open ends here.
  void finish(std::vector<Span>& out);
  // Every span that is still to come begins here or later.
  uint64_t settled() const { return open_ ? begin_ : at_; }
  bool open() const { return open_; }

 private:
  void close(std::vector<Span>& out);

  const LabelScheme& scheme_;
  size_t kinds_;
  std::deque<uint32_t> bytes_;
  std::deque<float> probabilities_;
  uint64_t at_ = 0, begin_ = 0;  // of the view
  bool open_ = false;
  int kind_ = -1;
  double sum_ = 0;
  int64_t tokens_ = 0;
};

// The end of the word or number before the place, where the view is cut without cutting one; `place` itself where none
// is cut. Looks at `most` bytes.
uint64_t word_start(const Unit& unit, uint64_t place, uint64_t most = 4096);

// Takes white space off the edges, and moves edges that cut a word or a number to its ends. Spans are in order and, in
// the end, apart: one that reaches into the span before it loses that part, or joins it where both are of one kind.
// None begins before `floor`.
std::vector<Span> tidy(const Unit& unit, const std::vector<Span>& spans, uint64_t floor = 0);

// Spans of the first list take the place of what they cover in the second one. Both are in order.
std::vector<Span> overlaid(const std::vector<Span>& over, const std::vector<Span>& under);

}  // namespace anemone::redact
