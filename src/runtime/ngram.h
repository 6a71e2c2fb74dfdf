// Repeats in a text of tokens: drafts for speculation, and the sign that a model goes in circles.
//     std::vector<int32_t> draft = ngram_draft(ids, 4);   // what followed the last time this was said
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anemone {

// Looks for the latest earlier place where the last tokens (four of them, else three, else two) stand, and
// gives what followed there, `most` tokens; where that reaches the end, it goes round. Empty when nothing
// matches.
std::vector<int32_t> ngram_draft(std::span<const int32_t> ids, int64_t most);

// True when the last n tokens stand somewhere before, perhaps overlapping themselves.
bool ends_in_repeat(std::span<const int32_t> ids, int64_t n);

}  // namespace anemone
