// How tokens go through the stages: chunk by chunk, and those of several sessions side by side, so that a backend that
// can reads the weights once for all of them.
#include <algorithm>

#include "base/error.h"
#include "predict/timeline.h"
#include "runtime/columns.h"
#include "runtime/flight.h"

namespace anemone {
// The function of this tier that is cheapest for each of the remaining tokens that it takes; it may be padded.
Session::Chunk Session::choose(int64_t left) const {
  const int64_t room = tier_ - position_;
  const int64_t most = std::min({left, room, options_.chunk > 0 ? options_.chunk : left});
  Chunk best;
  for (const StageFunction& f : bundle_->functions()) {
    if (f.context != tier_ || (!options_.function.empty() && f.name != options_.function)) continue;
    Chunk c;
    c.function = &f;
    c.tokens = std::min(most, f.most_tokens);
    c.width = f.least_tokens == f.most_tokens ? f.most_tokens : std::max(c.tokens, f.least_tokens);
    // A slice write puts the padding's rows into the cache too: they must fit.
    if (f.find_input(Role::Kind::position) && position_ + c.width > tier_) continue;
    if (!best.function || bundle_->cost(f, c.width) * static_cast<double>(best.tokens) <
                              bundle_->cost(*best.function, best.width) * static_cast<double>(c.tokens))
      best = c;
  }
  if (!best.function)
    throw errorf("no function of the bundle takes {} tokens at position {}", most, position_)
        .hint("convert with --tokens 1 as well, or with --kv-write mask");
  return best;
}

void Session::get_ready(int64_t tokens) {
  const Chunk chunk = choose(std::min(tokens, capacity()));
  const auto& stages = bundle_->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].kind == StageKind::experts) continue;  // which of them is not known
    const int64_t width = !stages[s].has_layers() && head_takes_one() ? 1 : chunk.width;
    calls_.get(*bundle_, s, bundle_->function(s, width, tier_), width).get_ready();
  }
}

void Session::advance(std::span<const int32_t> ids, Want want) {
  Flight flight(*this, ids, want);
  advance({&flight, 1});
}

void Session::advance(std::span<Flight> flights) {
  for (const Flight& flight : flights) flight.session->check(flight.left);
  std::vector<Flight*> going;
  for (;;) {
    going.clear();
    for (Flight& flight : flights)
      if (!flight.left.empty()) going.push_back(&flight);
    if (going.empty()) return;
    run_chunks(going);
  }
}

// "token 12", "tokens 0 to 43", "8 sessions", for timelines.
std::string Session::flights_text(std::span<Flight* const> flights) {
  if (flights.size() > 1) return fmt::format("{} sessions", flights.size());
  const int64_t first = flights[0]->session->position_;
  const int64_t left = static_cast<int64_t>(flights[0]->left.size());
  return left == 1 ? fmt::format("token {}", first) : fmt::format("tokens from {}, {} left", first, left);
}

// The next chunk of each.
void Session::run_chunks(std::span<Flight* const> flights) {
  for (const Flight* f : flights)
    if (const Progress& progress = f->session->progress_;
        progress && !progress(f->total - static_cast<int64_t>(f->left.size()), f->total))
      throw Cancelled();
  Timeline* const timeline = flights[0]->session->bundle_->backend().timeline();
  const std::string name = timeline ? flights_text(flights) : "";
  const TimedSlice slice(timeline, Timeline::Level::tokens, "tokens", name);
  for (Flight* f : flights) f->session->begin_chunk(*f);
  run_layers(flights);
  for (Flight* f : flights) f->session->end_chunk(*f);
  std::vector<Flight*> heads;
  for (Flight* f : flights)
    if (f->wants_head()) heads.push_back(f);
  if (!heads.empty()) run_heads(heads);
  finish(flights);
}

void Session::finish(std::span<Flight* const> flights) {
  for (Flight* f : flights) {
    Session& session = *f->session;
    if (f->pass->fault() && !session.fault_) session.fault_ = f->pass->fault();
    session.copied_bytes_ += f->pass->copied_bytes();
    f->pass.reset();
  }
}

// Where the host remembers something from call to call, or chooses experts, a token waits for the one before it.
bool Session::goes_in_turn() const {
  const BundleInfo& info = bundle_->info();
  if (bundle_->backend().most_in_turn() < 2 || info.recurrent() || info.argmax || options_.chunk > 0 ||
      !options_.function.empty())
    return false;
  for (const Stage& stage : info.stages) {
    if (stage.kind != StageKind::run) return false;
    bool alone = false;  // a token can be
    for (const StageFunction& f : stage.functions) {
      alone |= f.least_tokens == 1;
      for (const Port& port : f.interface.inputs)
        if (is_cache(port.role.kind)) return false;
      for (const Port& port : f.interface.states)  // one for all layers is in use from the first to the last
        if (port.role.layers.size() > 1) return false;
    }
    if (!alone) return false;
  }
  return true;
}

std::vector<float> Session::forward_in_turn(std::span<const int32_t> ids) {
  make_room(ids.size());
  check(ids);
  const int64_t most = goes_in_turn() ? bundle_->backend().most_in_turn() : 1;
  for (size_t done = 0; done < ids.size();) {
    const int64_t room =
        std::max<int64_t>(1, tier_ - position_);  // the last token of a tier moves on to the next
    const size_t count = std::min(ids.size() - done, static_cast<size_t>(std::min(most, room)));
    const std::span<const int32_t> some = ids.subspan(done, count);
    if (count > 1) {
      run_in_turn(some, static_cast<int64_t>(done));
    } else {
      Flight flight(*this, some, Want::logits);
      flight.rows = static_cast<int64_t>(done);
      advance({&flight, 1});
    }
    done += count;
  }
  return std::move(logits_);
}

void Session::run_in_turn(std::span<const int32_t> ids, int64_t rows) {
  const auto count = static_cast<int64_t>(ids.size());
  if (progress_ && !progress_(0, count)) throw Cancelled();
  Timeline* const timeline = bundle_->backend().timeline();
  const TimedSlice slice(timeline, Timeline::Level::tokens, "tokens",
                         timeline ? fmt::format("tokens {} to {}", position_, position_ + count - 1) : "");
  while (turn_calls_.size() < ids.size()) turn_calls_.emplace_back();
  std::vector<Flight> flights;
  flights.reserve(ids.size());
  std::vector<Flight*> going;
  for (int64_t i = 0; i < count; ++i) {
    Flight& flight = flights.emplace_back(*this, ids.subspan(static_cast<size_t>(i), 1), Want::logits);
    flight.rows = rows + i;
    flight.chunk = choose(1);
    flight.pass = make_pass(flight, position_ + i, turn_calls_[static_cast<size_t>(i)]);
    going.push_back(&flight);
  }
  run_layers(going);
  for (Flight* flight : going) end_chunk(*flight);
  run_heads(going);
  finish(going);
}

void Session::begin_chunk(Flight& flight) {
  if (position_ == tier_)
    move_to_tier(*std::upper_bound(bundle_->tiers().begin(), bundle_->tiers().end(), tier_));
  flight.chunk = choose(static_cast<int64_t>(flight.left.size()));
  flight.pass = make_pass(flight, position_, calls_);
}

std::unique_ptr<StagePass> Session::make_pass(const Flight& flight, int64_t position,
                                              StageCalls& calls) const {
  const int64_t positions = options_.positions > 0 ? options_.positions : bundle_->tiers().back();
  const auto& ropes = bundle_->info().ropes;
  const bool far = std::any_of(ropes.begin(), ropes.end(), [&](const RopeTable& r) {
    return !r.long_frequencies.empty() && positions > r.original_context;
  });
  const Pass pass{.ids = flight.left.first(static_cast<size_t>(flight.chunk.tokens)),
                  .position = position,
                  .width = flight.chunk.width,
                  .long_rope = far};
  return std::make_unique<StagePass>(*bundle_, calls, pass);
}

// The layers have seen the chunk.
void Session::end_chunk(Flight& flight) {
  const auto taken = static_cast<size_t>(flight.chunk.tokens);
  ids_.insert(ids_.end(), flight.left.begin(), flight.left.begin() + flight.chunk.tokens);
  flight.left = flight.left.subspan(taken);
  position_ += flight.chunk.tokens;
  take_snapshot();
}

void Session::run_layers(std::span<Flight* const> flights) {
  const Bundle& bundle = *flights[0]->session->bundle_;
  const auto& stages = bundle.info().stages;
  std::vector<const StageFunction*> functions;
  std::vector<CallTurn> turns;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].kind == StageKind::experts)  // each session has its own
      for (Flight* flight : flights) flight->pass->experts(s);
    if (!stages[s].has_layers()) continue;
    functions.clear();
    turns.clear();
    for (Flight* flight : flights) {
      Session& session = *flight->session;
      const StageFunction& f = bundle.function(s, flight->chunk.width, session.tier_);
      std::unique_ptr<State>& state = session.states_[s];
      if (!state && !f.interface.states.empty()) state = bundle.predictor(s, f.name).make_state();
      session.prepare_kept(s, f);
      functions.push_back(&f);
      turns.push_back({&flight->pass->begin(s, f, &session.kept_[s]), state.get()});
    }
    const bool in_turn = flights.size() > 1 && flights[0]->session == flights[1]->session;
    in_turn ? bundle.backend().run_in_turn(turns) : bundle.backend().run_together(turns);
    for (size_t i = 0; i < flights.size(); ++i) {
      const Call& call = flights[i]->pass->end(s, *functions[i]);
      flights[i]->session->keep_outputs(s, *functions[i], call, flights[i]->chunk);
    }
  }
}

// Whether the heads can be asked for one column alone. They are a large part of a small model.
bool Session::head_takes_one() const {
  const auto& stages = bundle_->info().stages;
  return std::all_of(stages.begin(), stages.end(), [](const Stage& stage) {
    if (!stage.has_head()) return true;
    return !stage.has_layers() && std::any_of(stage.functions.begin(), stage.functions.end(),
                                              [](const StageFunction& f) { return f.least_tokens == 1; });
  });
}

// Where the last token is in what the heads give.
int64_t Session::head_column(const Chunk& chunk) const {
  return chunk.width > 1 && head_takes_one() ? 0 : chunk.tokens - 1;
}

// Where one column is wanted, heads that can are given that one alone.
void Session::run_heads(std::span<Flight* const> flights) {
  const Bundle& bundle = *flights[0]->session->bundle_;
  const auto& stages = bundle.info().stages;
  const bool takes_one = flights[0]->session->head_takes_one();
  std::vector<int64_t> widths;
  for (Flight* flight : flights) {
    widths.push_back(flight->chunk.width);
    if (!flight->last_only() || widths.back() == 1 || !takes_one) continue;
    flight->pass->take_column(flight->chunk.tokens - 1);
    widths.back() = 1;
  }
  std::vector<CallTurn> turns;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!stages[s].has_head()) continue;
    const auto function = [&](size_t i) -> const StageFunction& {
      return bundle.function(s, widths[i], flights[i]->session->tier_);
    };
    turns.clear();
    for (size_t i = 0; i < flights.size() && !stages[s].has_layers(); ++i)
      turns.push_back({&flights[i]->pass->begin(s, function(i)), nullptr});
    bundle.backend().run_together(turns);
    for (size_t i = 0; i < flights.size(); ++i) {
      StagePass& pass = *flights[i]->pass;
      const Call& call = stages[s].has_layers() ? *pass.ran(s) : pass.end(s, function(i));
      flights[i]->session->take_head(*flights[i], function(i), call);
    }
  }
  for (Flight* flight : flights) {
    const int64_t rows = flight->last_only() ? 1 : flight->chunk.tokens;
    flight->rows += rows;
    if (flight->want != Want::best)
      flight->session->copied_bytes_ += static_cast<uint64_t>(rows * bundle.info().vocab) * sizeof(float);
  }
}

// What a head gave becomes the session's: logits, or the best token of its part of the vocabulary.
void Session::take_head(Flight& flight, const StageFunction& f, const Call& call) {
  const BundleInfo& info = bundle_->info();
  const int64_t column = head_column(flight.chunk);
  for (const Port& port : f.interface.outputs) {
    if (port.role.kind == Role::Kind::logits && flight.want != Want::best) {
      const int64_t rows = flight.last_only() ? 1 : flight.chunk.tokens;
      read_columns(call.output(port.name), flight.last_only() ? column : 0, rows,
                   logits_.data() + flight.rows * info.vocab + port.role.first, info.vocab);
    }
    if (port.role.kind != Role::Kind::best || flight.want != Want::best) continue;
    const auto part = [&](Role::Kind kind) {
      const Port* other = find_port(f.interface.outputs, port.role.as(kind));
      if (!other) throw errorf("an output of the role '{}' is missing", role_name(kind));
      return static_cast<int64_t>(read_number(call.output(other->name), 0, column));
    };
    const float value = read_number(call.output(port.name), 0, column);
    if (best_ >= 0 && value <= best_score_) continue;
    best_score_ = value;
    best_ = port.role.first + part(Role::Kind::best_high) * kIndexBase + part(Role::Kind::best_low);
  }
}

}  // namespace anemone
