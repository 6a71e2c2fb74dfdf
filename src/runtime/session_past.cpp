// What a session remembers: forked, rewound, made shorter, measured.
#include <algorithm>

#include "runtime/session.h"

namespace anemone {

int64_t Session::capacity() const { return options_.function.empty() ? bundle_->tiers().back() : tier_; }

// Everything that can be known before the first chunk, so that a call that cannot end well changes nothing.
void Session::check(std::span<const int32_t> ids) const {
  const auto count = static_cast<int64_t>(ids.size());
  if (count > capacity() - position_)
    throw errorf("the context of {} tokens is full", capacity())
        .found(position_ ? fmt::format("{} tokens and {} more", position_, count)
                         : fmt::format("{} tokens", count))
        .hint("convert with a larger --context");
  for (const int32_t id : ids)
    if (id < 0 || id >= bundle_->info().vocab)
      throw errorf("the token {} is not in the vocabulary", id)
          .expected(fmt::format("0 to {}", bundle_->info().vocab - 1));
}

Session Session::fork() const {
  Session out(bundle_, options_);
  out.tier_ = tier_;
  out.position_ = position_;
  out.ids_ = ids_;
  out.caches_ = caches_;
  out.fault_ = fault_;
  for (size_t s = 0; s < states_.size(); ++s)
    if (states_[s]) out.states_[s] = states_[s]->clone();
  return out;
}

void Session::rewind(int64_t position) {
  if (position < 0 || position > position_)
    throw errorf("cannot rewind to {}", position).expected(fmt::format("0 to {}", position_));
  // Rows behind the position are masked out, and written before they are seen again.
  position_ = position;
  ids_.resize(static_cast<size_t>(position));
  // Back to the tier where a session with this past would be: the same functions, the same sums.
  const auto& tiers = bundle_->tiers();
  const int64_t home = *std::lower_bound(tiers.begin(), tiers.end(), position);
  if (options_.function.empty() && home != tier_) move_to_tier(home);
}

int64_t Session::common_prefix(std::span<const int32_t> ids) const {
  const auto end = std::mismatch(ids_.begin(), ids_.end(), ids.begin(), ids.end()).first;
  return end - ids_.begin();
}

void Session::slide(int64_t first, int64_t recent) {
  if (first < 0 || recent < 0 || first + recent > position_)
    throw errorf("cannot keep {} and {} tokens of {}", first, recent, position_);
  const std::vector<int32_t> tail(ids_.end() - recent, ids_.end());
  rewind(first);
  advance(tail, [](const Array&, const Chunk&, bool) {});
}

MemoryUse Session::memory() const {
  MemoryUse use;
  use.weights = bundle_->weight_bytes();
  use.arena = bundle_->arena_bytes();
  for (size_t s = 0; s < states_.size(); ++s) {
    for (const auto& [name, cache] : caches_[s]) use.cache += cache.bytes().size();
    if (states_[s]) use.cache += states_[s]->bytes();
  }
  use.arena = bundle_->arena_bytes();
  return use;
}

}  // namespace anemone
