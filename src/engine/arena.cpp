#include "engine/arena.h"

#include <algorithm>

#include "base/error.h"
#include "engine/buffer.h"

namespace anemone {
namespace {

int64_t padded(int64_t bytes) {
  constexpr auto a = static_cast<int64_t>(kBufferAlignment);
  if (bytes > INT64_MAX / 2) throw errorf("{} bytes for one value cannot be placed", bytes);
  return std::max<int64_t>(1, (bytes + a - 1) / a) * a;
}

}  // namespace

int64_t ArenaLayout::take(int64_t bytes) {
  const int64_t need = padded(bytes);
  // Best fit: the smallest hole that is large enough.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->second >= need && (best == free_.end() || it->second < best->second)) best = it;
  if (best == free_.end()) {
    // Grow, from a hole at the end where there is one.
    int64_t at = size_;
    if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == size_) {
      at = free_.rbegin()->first;
      free_.erase(std::prev(free_.end()));
    }
    if (at > INT64_MAX / 2 - need) throw errorf("the values of the program do not fit in memory");
    size_ = at + need;
    return at;
  }
  const auto [at, room] = *best;
  free_.erase(best);
  if (room > need) free_[at + need] = room - need;
  return at;
}

void ArenaLayout::give_back(int64_t offset, int64_t bytes) {
  auto it = free_.emplace(offset, padded(bytes)).first;
  if (const auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin())
    if (const auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
}

}  // namespace anemone
