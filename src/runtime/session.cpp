#include "runtime/session.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/columns.h"

namespace anemone {
namespace {

// What a call costs, in calls of a few tokens: reading the weights, and arithmetic that grows with the width.
double cost(int64_t width) { return 1 + static_cast<double>(width) / 8; }

}  // namespace

Session::Session(std::shared_ptr<const Bundle> bundle, SessionOptions options)
    : bundle_(std::move(bundle)), options_(std::move(options)), tier_(bundle_->tiers().front()) {
  expect_kind(bundle_->info(), bundle_->path(), {BundleKind::generate});
  states_.resize(bundle_->info().stages.size());
  kept_.resize(bundle_->info().stages.size());
  if (options_.function.empty()) return;
  std::string names;
  for (const StageFunction& f : bundle_->functions()) {
    names += (names.empty() ? "" : ", ") + f.name;
    if (f.name == options_.function) {
      tier_ = f.context;
      return;
    }
  }
  throw errorf("the bundle has no function '{}'", options_.function).expected(names);
}

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
    if (!best.function ||
        cost(c.width) * static_cast<double>(best.tokens) < cost(best.width) * static_cast<double>(c.tokens))
      best = c;
  }
  if (!best.function)
    throw errorf("no function of the bundle takes {} tokens at position {}", most, position_)
        .hint("convert with --tokens 1 as well, or with --kv-write mask");
  return best;
}

void Session::run_layers(StagePass& pass, const Chunk& chunk) {
  const auto& stages = bundle_->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].kind == StageKind::experts) pass.experts(s);
    if (!stages[s].has_layers()) continue;
    const StageFunction& f = bundle_->function(s, chunk.width, tier_);
    if (!states_[s] && !f.interface.states.empty()) states_[s] = bundle_->predictor(s, f.name).make_state();
    prepare_kept(s, f);
    keep_outputs(s, f, pass.stage(s, f, states_[s].get(), &kept_[s]), chunk);
  }
  if (pass.fault() && !fault_) fault_ = pass.fault();
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

int64_t Session::head_column(const Chunk& chunk) const {
  return chunk.width > 1 && head_takes_one() ? 0 : chunk.tokens - 1;
}

void Session::run_head(StagePass& pass, const Chunk& chunk, bool last_only, const TakeHead& take) {
  const auto& stages = bundle_->info().stages;
  int64_t width = chunk.width;
  if (last_only && width > 1 && head_takes_one()) {
    pass.take_column(chunk.tokens - 1);
    width = 1;
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!stages[s].has_head()) continue;
    const StageFunction& f = bundle_->function(s, width, tier_);
    take(f, stages[s].has_layers() ? *pass.ran(s) : pass.stage(s, f));
  }
  if (pass.fault() && !fault_) fault_ = pass.fault();
}

void Session::advance(std::span<const int32_t> ids, const Done& done) {
  check(ids);
  const auto total = static_cast<int64_t>(ids.size());
  while (!ids.empty()) {
    if (progress_ && !progress_(total - static_cast<int64_t>(ids.size()), total)) throw Cancelled();
    if (position_ == tier_)
      move_to_tier(*std::upper_bound(bundle_->tiers().begin(), bundle_->tiers().end(), tier_));
    const Chunk chunk = choose(static_cast<int64_t>(ids.size()));
    const int64_t positions = options_.positions > 0 ? options_.positions : bundle_->tiers().back();
    const auto& ropes = bundle_->info().ropes;
    const bool far = std::any_of(ropes.begin(), ropes.end(), [&](const RopeTable& r) {
      return !r.long_frequencies.empty() && positions > r.original_context;
    });
    const auto taken = static_cast<size_t>(chunk.tokens);
    StagePass pass(*bundle_, calls_,
                   {.ids = ids.first(taken), .position = position_, .width = chunk.width, .long_rope = far});
    run_layers(pass, chunk);
    ids_.insert(ids_.end(), ids.begin(), ids.begin() + chunk.tokens);
    ids = ids.subspan(taken);
    position_ += chunk.tokens;
    take_snapshot();
    done(pass, chunk, ids.empty());
    copied_bytes_ += pass.copied_bytes();
  }
}

std::vector<float> Session::forward(std::span<const int32_t> ids, bool last_only) {
  forward_view(ids, last_only);
  return std::move(logits_);
}

std::span<const float> Session::forward_view(std::span<const int32_t> ids, bool last_only) {
  const BundleInfo& info = bundle_->info();
  if (info.argmax)
    throw errorf("the bundle gives only the best token, not logits")
        .at(bundle_->path().string())
        .hint("convert without --argmax-output");
  logits_.resize(static_cast<size_t>(info.vocab) *
                 (last_only ? std::min<size_t>(ids.size(), 1) : ids.size()));
  float* to = logits_.data();
  advance(ids, [&](StagePass& pass, const Chunk& chunk, bool last) {
    if (last_only && !last) return;
    const int64_t rows = last_only ? 1 : chunk.tokens;
    const int64_t first = last_only ? head_column(chunk) : 0;
    run_head(pass, chunk, last_only, [&](const StageFunction& f, const Call& call) {
      for (const Port& port : f.interface.outputs)
        if (port.role.kind == Role::Kind::logits)
          read_columns(call.output(port.name), first, rows, to + port.role.first, info.vocab);
    });
    to += rows * info.vocab;
    copied_bytes_ += static_cast<uint64_t>(rows * info.vocab) * sizeof(float);
  });
  return logits_;
}

int64_t Session::forward_best(std::span<const int32_t> ids) {
  if (!bundle_->info().argmax) {
    const std::span<const float> logits = forward_view(ids, true);
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  int64_t best_row = -1;
  advance(ids, [&](StagePass& pass, const Chunk& chunk, bool last) {
    if (!last) return;
    const int64_t column = head_column(chunk);
    float best = -INFINITY;
    run_head(pass, chunk, true, [&](const StageFunction& f, const Call& call) {
      for (const Port& port : f.interface.outputs) {
        if (port.role.kind != Role::Kind::best) continue;
        const auto part = [&](Role::Kind kind) {
          const Port* other = find_port(f.interface.outputs, port.role.as(kind));
          if (!other) throw errorf("an output of the role '{}' is missing", role_name(kind));
          return static_cast<int64_t>(read_number(call.output(other->name), 0, column));
        };
        const float value = read_number(call.output(port.name), 0, column);
        if (best_row >= 0 && value <= best) continue;
        best = value;
        best_row = port.role.first + part(Role::Kind::best_high) * kIndexBase + part(Role::Kind::best_low);
      }
    });
  });
  return best_row;
}

}  // namespace anemone
