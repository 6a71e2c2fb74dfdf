// PrefixCache: sessions that nobody uses now, kept because the next prompt may begin as they do.
//     auto session = cache.take(prompt, running, key);      // rewound to what it shares with the prompt
//     cache.keep(std::move(session), key);
//     cache.save_one();                                     // when there is nothing else to do
// With a store, sessions are also files: what memory has no room for, and what was there before a restart. Belongs to
// one thread. Sessions of one key only stand in for each other: models with two sets of rotations choose by
// the length of the text.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/session.h"
#include "serve/session_store.h"

namespace anemone::serve {

class PrefixCache {
 public:
  struct Running {
    const Session* session = nullptr;
    int64_t key = 0;
  };

  // `store` may be null.
  explicit PrefixCache(uint64_t most_bytes, SessionStore* store = nullptr)
      : store_(store), most_bytes_(most_bytes) {}

  // The session that shares most with the prompt: one of the cache, or a copy of it or of a running one where the rest
  // is worth keeping. Null when nothing useful is there. It has seen less than the whole prompt.
  std::unique_ptr<Session> take(std::span<const int32_t> prompt, const std::vector<Running>& running,
                                int64_t key);
  void keep(std::unique_ptr<Session> session, int64_t key);
  // Whether something is worth a file and has none yet.
  bool unsaved() const;
  // Hands a copy of one of them to the store, unless that is busy.
  void save_one();
  // Hands all of them over, and forgets them.
  void save_all();

  uint64_t bytes() const { return bytes_; }
  size_t sessions() const { return kept_.size(); }

 private:
  struct Kept {
    std::unique_ptr<Session> session;
    int64_t key = 0;
    uint64_t bytes = 0;
    bool saved = false;
  };

  bool worth_a_file(const Kept& kept) const;

  SessionStore* store_;
  std::list<Kept> kept_;  // the latest first
  uint64_t most_bytes_, bytes_ = 0;
};

}  // namespace anemone::serve
