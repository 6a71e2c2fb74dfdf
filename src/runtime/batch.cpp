#include "runtime/batch.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/flight.h"

namespace anemone {
namespace {

void check(std::span<const Batch::Turn> turns, size_t i) {
  const Batch::Turn& turn = turns[i];
  if (!turn.session) throw Error("there is no session");
  if (turn.ids.empty()) throw Error("there are no tokens");
  for (size_t j = 0; j < i; ++j)
    if (turns[j].session == turn.session) throw errorf("the session is that of turn {}, too", j);
  if (turn.session->bundle() != turns[0].session->bundle())
    throw errorf("the session is of another bundle")
        .found(turn.session->bundle()->path().string())
        .expected(turns[0].session->bundle()->path().string());
}

}  // namespace

void Batch::run(std::span<Turn> turns, bool best) {
  std::vector<Flight> flights;
  for (size_t i = 0; i < turns.size(); ++i) {
    try {
      check(turns, i);
      turns[i].session->check(turns[i].ids);
      if (!best) turns[i].session->make_room(1);
    } catch (Error& e) {
      e.within(fmt::format("turn {} of a batch", i));
      throw;
    }
    turns[i].session->best_ = -1;
    flights.emplace_back(*turns[i].session, turns[i].ids,
                         best ? Session::Want::best : Session::Want::last_logits);
  }
  Session::advance(flights);
}

void Batch::forward(std::span<Turn> turns) {
  run(turns, false);
  for (Turn& turn : turns) turn.logits = turn.session->logits_;
}

void Batch::forward_best(std::span<Turn> turns) {
  const bool argmax = !turns.empty() && turns[0].session && turns[0].session->bundle()->info().argmax;
  run(turns, argmax);
  for (Turn& turn : turns) {
    const std::vector<float>& logits = turn.session->logits_;
    turn.best =
        argmax ? turn.session->best_ : std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
}

}  // namespace anemone
