// What a session remembers: caches and recurrent states, forked, rewound, moved to a longer tier, measured.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/shape.h"
#include "runtime/columns.h"
#include "runtime/session.h"

namespace anemone {
namespace {

// Recurrent states are kept for the last so many calls, and before them once in so many positions: a rewind computes
// at most that many tokens again.
constexpr size_t kRecentSnapshots = 16;
constexpr int64_t kSnapshotDistance = 64;

// Copies the first rows of a cache [n, heads, S, width] into one of another length.
Array resized(const Array& from, int64_t context) {
  std::vector<int64_t> shape = from.shape();
  if (shape.size() != 4) throw errorf("a cache has the shape {}", shape_text(shape)).expected("four sizes");
  const int64_t outer = shape[0] * shape[1], old = shape[2], width = shape[3];
  shape[2] = context;
  Array to(DType::fp32, shape);
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(to.values<float>().data() + i * context * width,
                from.values<float>().data() + i * old * width,
                static_cast<size_t>(std::min(old, context) * width) * sizeof(float));
  return to;
}

// A cache has a row for each position; nothing that the host keeps has a size that is not known.
void check_kept(const std::vector<int64_t>& shape, const Port& port, int64_t context) {
  const bool sized =
      shape.size() == 4 && std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n > 0; });
  if (!sized || (is_cache(port.role.kind) && (shape[0] != 1 || shape[2] != context)))
    throw errorf("the package takes a shape for '{}' that the host cannot keep", port.name)
        .found(shape_text(shape))
        .expected(is_cache(port.role.kind) ? fmt::format("[1, heads, {}, width]", context) : "four sizes");
}

// What the host keeps of an output; `keys` for `new_keys`. Empty for one that is none of its memory.
std::optional<Role> kept_role(const Role& role) {
  switch (role.kind) {
    case Role::Kind::new_keys: return role.as(Role::Kind::keys);
    case Role::Kind::new_values: return role.as(Role::Kind::values);
    case Role::Kind::new_recurrent: return role.as(Role::Kind::recurrent);
    default: return std::nullopt;
  }
}

// Puts a state's next value, a view of the same shape, into the host's array.
void take_state(const TensorView& view, const Port& port, Array& array) {
  if (view.shape != array.shape())
    throw errorf("the output '{}' has another shape than what the host keeps", port.name)
        .found(shape_text(view.shape))
        .expected(shape_text(array.shape()));
  float* to = array.values<float>().data();
  const int64_t width = view.shape[3];
  for_each_offset(std::span(view.shape).first(3), std::span(view.strides).first(3), [&](int64_t row) {
    read_elements(view, row, view.strides[3], width, to);
    to += width;
  });
}

// Puts `tokens` new rows [1, heads, T, dim] into a cache [1, heads, S, width], from `position` on; how many bytes.
uint64_t take_rows(const TensorView& view, const Port& port, int64_t position, int64_t tokens, int64_t width,
                   Array& cache) {
  const std::vector<int64_t>&to = cache.shape(), &from = view.shape;
  if (from.size() != 4 || from[0] != 1 || from[1] != to[1] || from[2] != width || from[3] > to[3])
    throw errorf("the output '{}' does not fit the cache that the host keeps", port.name)
        .found(shape_text(from))
        .expected(shape_text(std::vector<int64_t>{1, to[1], width, to[3]}));
  float* rows = cache.values<float>().data();
  for (int64_t h = 0; h < to[1]; ++h)
    for (int64_t t = 0; t < tokens; ++t)
      read_elements(view, h * view.strides[1] + t * view.strides[2], view.strides[3], from[3],
                    rows + (h * to[2] + position + t) * to[3]);
  return static_cast<uint64_t>(to[1] * tokens * from[3]) * sizeof(float);
}

}  // namespace

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

const StageFunction& Session::layer_function(size_t stage) const {
  for (const StageFunction& f : bundle_->info().stages[stage].functions)
    if (f.context == tier_) return f;
  throw errorf("a stage has no function for the context {}", tier_).at(bundle_->path().string());
}

// Where the host keeps caches: zeros at first.
void Session::prepare_kept(size_t stage, const StageFunction& function) {
  if (!kept_[stage].empty()) return;
  for (const Port& port : function.interface.inputs) {
    if (!is_cache(port.role.kind) && port.role.kind != Role::Kind::recurrent) continue;
    for (const TensorInfo& input : bundle_->predictor(stage, function.name).signature().inputs) {
      if (input.name != port.name) continue;
      check_kept(input.shape, port, function.context);
      kept_[stage].push_back({port.role, Array(DType::fp32, input.shape)});
    }
  }
}

// The new rows go into the host's cache.
void Session::keep_outputs(size_t stage, const StageFunction& function, const Call& call,
                           const Chunk& chunk) {
  for (const Port& port : function.interface.outputs) {
    const std::optional<Role> wanted = kept_role(port.role);
    if (!wanted) continue;
    const auto kept = std::find_if(kept_[stage].begin(), kept_[stage].end(),
                                   [&](const Kept& k) { return k.role == *wanted; });
    if (kept == kept_[stage].end()) throw errorf("the output '{}' belongs to no input", port.name);
    const TensorView view = call.output(port.name);
    if (is_cache(wanted->kind)) {
      copied_bytes_ += take_rows(view, port, position_, chunk.tokens, chunk.width, kept->array);
    } else {
      take_state(view, port, kept->array);
      copied_bytes_ += kept->array.bytes().size();
    }
  }
}

void Session::move_to_tier(int64_t context) {
  const auto& stages = bundle_->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (Kept& kept : kept_[s])
      if (is_cache(kept.role.kind)) kept.array = resized(kept.array, context);
    if (!states_[s]) continue;
    const StageFunction& old = layer_function(s);
    const auto next = std::find_if(stages[s].functions.begin(), stages[s].functions.end(),
                                   [&](const StageFunction& f) { return f.context == context; });
    if (next == stages[s].functions.end())
      throw errorf("'{}' has no function for the context {}", stages[s].package, context)
          .at(bundle_->path().string());
    std::unique_ptr<State> state = bundle_->predictor(s, next->name).make_state();
    for (const Port& port : next->interface.states)
      if (const Port* from = find_port(old.interface.states, port.role)) {
        const Array value = states_[s]->get(from->name);
        state->set(port.name, is_cache(port.role.kind) ? resized(value, context) : value);
      }
    states_[s] = std::move(state);
  }
  tier_ = context;
}

Session Session::fork() const {
  Session out(bundle_, options_);
  out.tier_ = tier_;
  out.position_ = position_;
  out.ids_ = ids_;
  out.kept_ = kept_;
  out.snapshots_ = snapshots_;
  out.pinned_ = pinned_;
  out.fault_ = fault_;
  for (size_t s = 0; s < states_.size(); ++s)
    if (states_[s]) out.states_[s] = states_[s]->clone();
  return out;
}

SessionPast Session::past() const {
  SessionPast out{.ids = ids_, .tier = tier_, .stages = {}, .points = snapshots_};
  out.stages.resize(states_.size());
  const auto add = [&](size_t s, const Role& role, const Array& value) {
    out.stages[s].push_back({role, is_cache(role.kind) ? resized(value, position_) : value});
  };
  for (size_t s = 0; s < states_.size(); ++s) {
    for (const Kept& kept : kept_[s]) add(s, kept.role, kept.array);
    if (!states_[s]) continue;
    for (const Port& port : layer_function(s).interface.states) add(s, port.role, states_[s]->get(port.name));
  }
  return out;
}

void Session::assume(SessionPast past) {
  const auto bad = [](const std::string& what) { return errorf("the saved text does not fit: {}", what); };
  const auto tokens = static_cast<int64_t>(past.ids.size());
  const auto& tiers = bundle_->tiers();
  if (position_ != 0 || !options_.function.empty()) throw bad("the session is not new");
  if (std::find(tiers.begin(), tiers.end(), past.tier) == tiers.end() || tokens == 0 || tokens > past.tier)
    throw bad(fmt::format("{} tokens in a context of {}", tokens, past.tier));
  if (past.stages.size() != states_.size()) throw bad(fmt::format("{} stages", past.stages.size()));
  check(past.ids);
  tier_ = past.tier;
  for (size_t s = 0; s < states_.size(); ++s) {
    if (past.stages[s].empty()) continue;
    const StageFunction& function = layer_function(s);
    if (!function.interface.states.empty()) states_[s] = bundle_->predictor(s, function.name).make_state();
    prepare_kept(s, function);
    if (past.stages[s].size() != kept_[s].size() + function.interface.states.size())
      throw bad(fmt::format("{} arrays of stage {}", past.stages[s].size(), s));
    for (Kept& saved : past.stages[s]) {
      Array whole = is_cache(saved.role.kind) ? resized(saved.array, tier_) : std::move(saved.array);
      const auto kept =
          std::find_if(kept_[s].begin(), kept_[s].end(), [&](const Kept& k) { return k.role == saved.role; });
      const Port* port = find_port(function.interface.states, saved.role);
      if (kept != kept_[s].end() && kept->array.shape() == whole.shape())
        kept->array = std::move(whole);
      else if (port && states_[s])
        states_[s]->set(port->name, whole);
      else
        throw bad(
            fmt::format("a '{}' of the shape {}", role_name(saved.role.kind), shape_text(whole.shape())));
    }
  }
  for (const Snapshot& point : past.points)
    if (point.stages.size() != states_.size() || point.position > tokens)
      throw bad(fmt::format("a state at {}", point.position));
  snapshots_ = std::move(past.points);
  ids_ = std::move(past.ids);
  position_ = tokens;
}

void Session::take_snapshot() {
  if (!bundle_->info().recurrent()) return;
  Snapshot snapshot{position_, std::vector<std::vector<Kept>>(states_.size())};
  for (size_t s = 0; s < states_.size(); ++s) {
    for (const Kept& kept : kept_[s])
      if (kept.role.kind == Role::Kind::recurrent) snapshot.stages[s].push_back(kept);
    if (!states_[s]) continue;
    for (const Port& port : layer_function(s).interface.states)
      if (port.role.kind == Role::Kind::recurrent)
        snapshot.stages[s].push_back({port.role, states_[s]->get(port.name)});
  }
  for (const auto& stage : snapshot.stages)
    for (const Kept& kept : stage) copied_bytes_ += kept.array.bytes().size();
  snapshots_.push_back(std::move(snapshot));
  thin_snapshots();
}

// Of the older ones, the first of each stretch stays, and the pinned one.
void Session::thin_snapshots() {
  if (snapshots_.size() <= kRecentSnapshots) return;
  const auto recent = snapshots_.end() - static_cast<ptrdiff_t>(kRecentSnapshots);
  auto kept = snapshots_.begin();
  int64_t stretch = -1;
  for (auto old = snapshots_.begin(); old != recent; ++old) {
    const bool first = old->position / kSnapshotDistance != stretch;
    stretch = old->position / kSnapshotDistance;
    if (!first && old->position != pinned_) continue;
    if (kept != old) *kept = std::move(*old);
    ++kept;
  }
  snapshots_.erase(kept, recent);
}

void Session::restore(const Snapshot& snapshot) {
  for (size_t s = 0; s < states_.size(); ++s)
    for (const Kept& saved : snapshot.stages[s]) {
      for (Kept& kept : kept_[s])
        if (kept.role == saved.role) kept.array = saved.array;
      if (!states_[s]) continue;
      if (const Port* port = find_port(layer_function(s).interface.states, saved.role))
        states_[s]->set(port->name, saved.array);
    }
}

// Back to the start: zeros.
void Session::forget_recurrent() {
  for (size_t s = 0; s < states_.size(); ++s) {
    for (Kept& kept : kept_[s])
      if (kept.role.kind == Role::Kind::recurrent) kept.array = Array(DType::fp32, kept.array.shape());
    if (!states_[s]) continue;
    for (const Port& port : layer_function(s).interface.states)
      if (port.role.kind == Role::Kind::recurrent)
        states_[s]->set(port.name, Array(DType::fp32, states_[s]->get(port.name).shape()));
  }
}

void Session::rewind(int64_t position) {
  if (position < 0 || position > position_)
    throw errorf("cannot rewind to {}", position).expected(fmt::format("0 to {}", position_));
  if (position == position_) return;
  if (position < pinned_) pinned_ = -1;
  std::vector<int32_t> again;  // tokens to compute once more, for what recurrent layers remember of them
  int64_t from = position;
  const bool recurrent = bundle_->info().recurrent();
  if (recurrent) {
    while (!snapshots_.empty() && snapshots_.back().position > position) snapshots_.pop_back();
    from = snapshots_.empty() ? 0 : snapshots_.back().position;
    again.assign(ids_.begin() + from, ids_.begin() + position);
  }
  // Rows behind the position are masked out, and written before they are seen again.
  position_ = from;
  ids_.resize(static_cast<size_t>(from));
  // Back to the tier where a session with this past would be: the same functions, the same sums.
  const auto& tiers = bundle_->tiers();
  const int64_t home = *std::lower_bound(tiers.begin(), tiers.end(), from);
  if (options_.function.empty() && home != tier_) move_to_tier(home);
  if (!recurrent) return;
  if (snapshots_.empty())
    forget_recurrent();
  else
    restore(snapshots_.back());
  if (!again.empty()) advance(again, Want::nothing);
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
  advance(tail, Want::nothing);
}

MemoryUse Session::memory() const {
  MemoryUse use;
  use.weights = bundle_->weight_bytes();
  use.arena = bundle_->working_bytes();
  const auto add = [&](const std::vector<Kept>& kept) {
    for (const Kept& k : kept) use.cache += k.array.bytes().size();
  };
  for (const auto& kept : kept_) add(kept);
  for (const auto& state : states_) use.cache += state ? state->bytes() : 0;
  for (const Snapshot& snapshot : snapshots_)
    for (const auto& kept : snapshot.stages) add(kept);
  return use;
}

}  // namespace anemone
