#include "redact/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace anemone::redact {

void WindowCut::expect_room() const {
  if (sight_ == 0)
    throw TextTooLong(
        errorf("the text is too long: in this model each token sees the whole text")
            .found(fmt::format("more than {} tokens", longest_))
            .expected(fmt::format("at most {} tokens", longest_))
            .hint("take a model whose tokens see a band of neighbors, or convert with a larger --tokens"));
  if (longest_ <= 2 * sight_)
    throw TextTooLong(
        errorf("the text is too long for the bundle")
            .found(fmt::format("more than {} tokens, and a token sees {} to each side", longest_, sight_))
            .expected(fmt::format("functions of more than {} tokens", 2 * sight_))
            .hint(fmt::format("convert with --tokens {}", 4 * sight_)));
}

std::optional<Window> WindowCut::next(int64_t tokens, bool ended) {
  if (done_ >= tokens) return std::nullopt;
  Window w;
  w.first = needed_from();
  w.keep = done_;
  if (ended && tokens - w.first <= longest_) {
    w.count = tokens - w.first;
    w.kept = tokens - done_;
  } else {
    if (tokens - w.first <= longest_) return std::nullopt;  // all of it may still fit
    expect_room();
    w.count = longest_;
    w.kept = w.first + longest_ - sight_ - done_;
  }
  done_ += w.kept;
  return w;
}

}  // namespace anemone::redact
