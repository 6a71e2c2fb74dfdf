#include "serve/prefix_cache.h"

#include <algorithm>

namespace anemone::serve {
namespace {

// Fewer tokens are computed faster than the memory of a session is copied.
constexpr int64_t kWorthACopy = 32;
// A first token alone is what most texts share.
constexpr int64_t kLeastPrefix = 2;
// What a file must know beyond memory to be read, and a text must have to become a file.
constexpr int64_t kWorthAFile = 64;

}  // namespace

std::unique_ptr<Session> PrefixCache::take(std::span<const int32_t> prompt,
                                           const std::vector<Running>& running, int64_t key) {
  // The last token of a prompt is always computed: its logits are what the answer starts from.
  const std::span<const int32_t> useful = prompt.first(prompt.size() - 1);
  int64_t best = 0;
  auto own = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it)
    if (const int64_t common = it->key == key ? it->session->common_prefix(useful) : 0; common > best) {
      best = common;
      own = it;
    }
  const Session* other = nullptr;
  for (const Running& r : running)
    if (const int64_t common = r.key == key ? r.session->common_prefix(useful) : 0; common > best) {
      best = common;
      other = r.session;
    }
  if (store_ && store_->known(useful, key) >= best + kWorthAFile)
    if (std::unique_ptr<Session> read = store_->load(useful, key)) {
      read->rewind(read->common_prefix(useful));
      return read;
    }
  if (best < kLeastPrefix) return nullptr;
  // A conversation that goes on takes its session along; one that only begins the same way leaves it to its own.
  const bool goes_on = !other && own->session->position() - best <= std::max<int64_t>(best / 4, 16);
  std::unique_ptr<Session> out;
  if (goes_on) {
    out = std::move(own->session);
    bytes_ -= own->bytes;
    kept_.erase(own);
  } else {
    if (best < kWorthACopy) return nullptr;
    out = std::make_unique<Session>((other ? *other : *own->session).fork());
  }
  out->rewind(best);
  return out;
}

void PrefixCache::keep(std::unique_ptr<Session> session, int64_t key) {
  const uint64_t bytes = session->memory().cache;
  if (session->position() == 0 || bytes > most_bytes_) return;
  // A shorter text that this one begins with is of no more use.
  for (auto it = kept_.begin(); it != kept_.end();) {
    const bool within =
        it->key == key && session->common_prefix(it->session->ids()) == it->session->position();
    if (within) bytes_ -= it->bytes;
    it = within ? kept_.erase(it) : std::next(it);
  }
  bytes_ += bytes;
  kept_.push_front({.session = std::move(session), .key = key, .bytes = bytes});
  while (bytes_ > most_bytes_) {
    Kept& last = kept_.back();
    bytes_ -= last.bytes;
    if (worth_a_file(last)) store_->put(std::move(last.session), last.key);
    kept_.pop_back();
  }
}

bool PrefixCache::worth_a_file(const Kept& kept) const {
  return store_ && !kept.saved && kept.session->position() >= kWorthAFile;
}

bool PrefixCache::unsaved() const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return worth_a_file(k); });
}

void PrefixCache::save_one() {
  for (Kept& kept : kept_) {
    if (!worth_a_file(kept)) continue;
    if (store_->busy()) return;
    kept.saved = store_->put(std::make_unique<Session>(kept.session->fork()), kept.key);
    return;
  }
}

void PrefixCache::save_all() {
  // The latest last: the first to go when the folder is full are the oldest.
  for (; !kept_.empty(); kept_.pop_back())
    if (worth_a_file(kept_.back())) store_->put(std::move(kept_.back().session), kept_.back().key, true);
  bytes_ = 0;
}

}  // namespace anemone::serve
