// What comes behind the layers.
#pragma once

#include <span>
#include <vector>

#include "reference/scope.h"

namespace anemone {

// Of the stream behind the final norm, [tokens, hidden]: logits [tokens, vocab], hidden states as they are, or classes
// [tokens, classes], [classes] for a whole text.
std::vector<float> compute_head(const ReferenceScope& scope, std::span<const float> x, int64_t tokens);
// One vector for the rows of a text.
std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling);

}  // namespace anemone
