// Flight: tokens of one session on their way through the stages, chunk by chunk. Sessions and batches send
// them off; nobody else needs them.
//     Flight flight(session, ids, Session::Want::last_logits);
//     Session::advance({&flight, 1});
#pragma once

#include <memory>
#include <span>

#include "runtime/session.h"

namespace anemone {

struct Flight {
  using Want = Session::Want;

  Flight(Session& of, std::span<const int32_t> ids, Want wanted)
      : session(&of), left(ids), want(wanted), total(static_cast<int64_t>(ids.size())) {}

  // The head has something to compute of the chunk that went through the layers: of all chunks, or of the last.
  bool wants_head() const { return want == Want::logits || (want != Want::nothing && left.empty()); }
  bool last_only() const { return want != Want::logits; }

  Session* session;
  std::span<const int32_t> left;  // not sent off yet
  Want want;
  int64_t total;
  int64_t rows = 0;  // of logits that are there
  // Of the chunk that is on its way.
  Session::Chunk chunk;
  std::unique_ptr<StagePass> pass;
};

}  // namespace anemone
