#include "runtime/ngram.h"

#include <algorithm>

namespace anemone {
namespace {

// One token alone says too little: of such drafts one in ten is taken (the demo model).
constexpr size_t kShortestKey = 2, kLongestKey = 4;

// The latest start before the last n tokens where the same n stand; ids.size() when there is none.
size_t earlier(std::span<const int32_t> ids, size_t n) {
  const auto key = ids.last(n);
  for (size_t start = ids.size() - n; start-- > 0;)
    if (std::equal(key.begin(), key.end(), ids.begin() + static_cast<ptrdiff_t>(start))) return start;
  return ids.size();
}

}  // namespace

std::vector<int32_t> ngram_draft(std::span<const int32_t> ids, int64_t most) {
  if (most <= 0 || ids.size() < 2) return {};
  for (size_t n = std::min(kLongestKey, ids.size() - 1); n >= kShortestKey; --n) {
    const size_t start = earlier(ids, n);
    if (start == ids.size()) continue;
    std::vector<int32_t> draft;
    const size_t from = start + n;
    for (size_t i = 0; i < static_cast<size_t>(most); ++i)  // past the end the period goes on
      draft.push_back(from + i < ids.size() ? ids[from + i] : draft[from + i - ids.size()]);
    return draft;
  }
  return {};
}

bool ends_in_repeat(std::span<const int32_t> ids, int64_t n) {
  if (n <= 0 || static_cast<size_t>(n) >= ids.size()) return false;
  return earlier(ids, static_cast<size_t>(n)) != ids.size();
}

}  // namespace anemone
