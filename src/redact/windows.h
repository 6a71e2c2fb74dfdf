// Windows: a long text as pieces that a model can take, so that each token is computed with all that it can see.
//     WindowCut cut(longest, sight);
//     while (auto w = cut.next(tokens_so_far, ended)) …       // w->first, w->count: what to compute; w->keep, w->kept
// A window computes its own tokens and `sight` tokens on each side, which the neighbors keep.
#pragma once

#include <cstdint>
#include <optional>

#include "anemone/error.h"

namespace anemone::redact {

// The text does not fit, and the model leaves no room to cut it.
struct TextTooLong : Error {
  explicit TextTooLong(const Error& error) : Error(error) {}
};

struct Window {
  int64_t first = 0, count = 0;  // tokens to compute
  int64_t keep = 0, kept = 0;    // tokens whose labels are taken from it
};

class WindowCut {
 public:
  WindowCut(int64_t longest, int64_t sight) : longest_(longest), sight_(sight) {}

  // The next window, where enough tokens are there for it; the last one when the text has ended. TextTooLong where a
  // window has no room for tokens of its own.
  std::optional<Window> next(int64_t tokens, bool ended);
  // Tokens before this one are needed no more.
  int64_t needed_from() const { return done_ < sight_ ? 0 : done_ - sight_; }

 private:
  void expect_room() const;

  int64_t longest_, sight_;
  int64_t done_ = 0;  // tokens whose labels a window keeps
};

}  // namespace anemone::redact
