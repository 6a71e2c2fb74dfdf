// Batch: sessions of one bundle that take their turns side by side: where the backend can, the tokens of all go through
// one pass over the weights. Each session gets what it would get alone, bit for bit.
//     std::vector<Batch::Turn> turns = {{&a, next_of_a}, {&b, next_of_b}};
//     Batch::forward(turns);                        // turns[0].logits: those of a's last token
// Who takes part may change from call to call, and so may what they bring: sessions at other positions, in other
// tiers, with other options, forks; one token here and a piece of a prompt there. Weights are shared by turns of one
// token; a longer turn goes along, chunk by chunk, and reads them on its own.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/session.h"

namespace anemone {

class Batch {
 public:
  struct Turn {
    Session* session = nullptr;
    std::span<const int32_t> ids;   // to append; at least one
    std::span<const float> logits;  // out, of forward(): in memory of the session until its next call
    int64_t best = -1;              // out, of forward_best()
  };

  // As Session::forward_view(ids, true) and Session::forward_best(ids) for each turn. Error, before anything is run,
  // for a turn without session or tokens, for a session that is there twice or of another bundle than the first, and
  // for what the session itself refuses: it names the turn. No session of the batch may be in use elsewhere
  // meanwhile. An error or Cancelled on the way leaves each session with the chunks that were done.
  static void forward(std::span<Turn> turns);
  static void forward_best(std::span<Turn> turns);

 private:
  static void run(std::span<Turn> turns, bool best);
};

}  // namespace anemone
