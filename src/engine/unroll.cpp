#include "engine/unroll.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "engine/fused.h"
#include "engine/kernel_choice.h"

namespace anemone {
namespace {

using Aliases = std::vector<std::pair<size_t, Plan::Alias>>;

// Where the source of an operand stands in its operation.
std::pair<size_t, size_t> find_binding(const Operation& op, const Binding* binding) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    for (size_t k = 0; k < op.inputs[i].bindings.size(); ++k)
      if (&op.inputs[i].bindings[k] == binding) return {i, k};
  throw errorf("an operand of '{}' has no source", op.name());
}

// Steps as another layer has them.
class Mover {
 public:
  // `values`: where numbers for new values come from; empty: they stay what they are.
  Mover(std::shared_ptr<const LayerMap> map, int* values) : map_(std::move(map)), values_(values) {}

  int value(int id) const {
    if (id < 0) return id;
    if (id < info().values()) return map_->value(id);
    const auto it = fresh_.find(id);
    return it == fresh_.end() ? id : it->second;
  }

  // Empty: a kernel cannot be had for the layer.
  std::optional<Step> step(const Step& from) {
    Step to;
    to.operation = from.operation ? &map_->operation(*from.operation) : nullptr;
    to.types = from.types;
    for (const int id : from.out) to.out.push_back(made(id));
    for (const Source& source : from.in) to.in.push_back(this->source(source));
    if (std::holds_alternative<LoadWeight>(from.work)) to.operation = info().value(to.out[0])->producer;
    const auto work = std::visit([&](const auto& w) { return this->work(w, from, to); }, from.work);
    if (!work) return std::nullopt;
    to.work = std::move(*work);
    return to;
  }

  Plan::Alias alias(const Plan::Alias& from) const {
    return {value(from.id), value(from.of), from.type, from.offset};
  }

 private:
  using Work = std::optional<decltype(Step::work)>;
  const FunctionInfo& info() const { return map_->info(); }

  int made(int id) {
    if (values_ && id >= info().values()) fresh_.emplace(id, (*values_)++);
    return value(id);
  }

  Source source(const Source& from) const {
    if (!from.fixed) return {value(from.id), nullptr};
    if (from.constant < 0 || !map_->replaces(from.constant)) return from;
    const int other = map_->value(from.constant);
    return {-1, info().dense(other), other};
  }

  Work work(const RunOp& from, const Step&, const Step& to) const {
    RunOp out{moved(from.binding), from.run};
    if (std::ranges::any_of(out.binding.operands, [](const Operand& o) { return o.stored != nullptr; }))
      out.run = choose_kernel(out.binding, to.types);
    return out;
  }
  Work work(const LoadWeight& from, const Step& step, const Step& to) const {
    return LoadWeight{to.out == step.out ? from.weight : info().stored(to.out[0])};
  }
  Work work(const ReadState& from, const Step&, const Step&) const { return from; }
  Work work(const WriteState& from, const Step&, const Step&) const { return from; }
  Work work(const RunFused& from, const Step&, const Step&) const {
    RunFused out{from.kernel->for_layer(*map_), nullptr, value(from.writes)};
    if (!out.kernel) return std::nullopt;
    if (from.plain) out.plain = std::make_shared<PlainWay>(later(from.plain));
    return out;
  }

  // The plain way is hardly ever asked for.
  std::function<Plan()> later(std::shared_ptr<const PlainWay> plain) const {
    return [map = map_, plain] {
      Mover mover(map, nullptr);
      Plan out;
      for (const Step& step : plain->plan().steps) out.steps.push_back(mover.step(step).value());
      for (const auto& [before, alias] : plain->plan().aliases)
        out.aliases.emplace_back(before, mover.alias(alias));
      return out;
    };
  }

  OpBinding moved(const OpBinding& from) const {
    OpBinding to = from;
    to.operation = &map_->operation(*from.operation);
    if (to.operation == from.operation) return to;
    for (size_t i = 0; i < to.sources.size(); ++i) {
      if (!from.sources[i]) continue;
      const auto [input, at] = find_binding(*from.operation, from.sources[i]);
      const Binding& binding = to.operation->inputs[input].bindings[at];
      to.sources[i] = &binding;
      if (!binding.value || !info().is_constant(info().id(binding.value))) continue;
      to.operands[i].constant = binding.value->constant();
      if (to.operands[i].stored) to.operands[i].stored = info().stored(info().id(binding.value));
    }
    return to;
  }

  std::shared_ptr<const LayerMap> map_;
  int* values_;
  std::unordered_map<int, int> fresh_;
};

// A part of a plan; what comes before which step is counted from its first.
struct Piece {
  std::vector<Step> steps;
  Aliases aliases;
  std::vector<Plan::Folded> folded;
};

class Unroller {
 public:
  Unroller(Plan& plan, std::span<const int> places, std::shared_ptr<const Layers> layers)
      : plan_(plan), layers_(std::move(layers)), info_(layers_->info()) {
    const auto first_step = [&](int layer) {
      return static_cast<size_t>(std::ranges::lower_bound(places, layers_->begin(layer)) - places.begin());
    };
    before_ = first_step(kPattern - 1);
    own_ = first_step(kPattern);
    behind_ = first_step(behind());
    next_ = first_step(behind() + 1);
  }

  bool run() {
    if (!stands_alone() || reaches_back() || !mend_behind()) return false;
    pattern_ = beside_steps(kPattern, own_);
    if (!gives(kPattern - 1, before_, own_) || !gives(behind(), behind_, next_)) return false;
    std::vector<Piece> pieces;
    for (int layer = kPattern + 1; layer < behind(); ++layer) {
      auto piece = stamp(layer, plan_.values);
      if (!piece) return false;
      pieces.push_back(std::move(*piece));
    }
    insert(std::move(pieces));
    return true;
  }

 private:
  static constexpr int kPattern = Layers::kPattern;
  int behind() const { return layers_->count() - Layers::kBehind; }  // the first layer behind those left out

  // No step joins operations that stand further apart than neighbouring layers, and none of the pattern reaches into
  // the layer behind it.
  bool stands_alone() const {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const auto* fused = std::get_if<RunFused>(&plan_.steps[s].work);
      if (!fused || !fused->plain) continue;
      int first = INT_MAX, last = -1;
      for (const Step& step : fused->plain->plan().steps) {
        const int place = planned_place(*step.operation);
        if (place < 0) continue;  // a weight
        first = std::min(first, place);
        last = std::max(last, place);
      }
      if (last - first >= layers_->period()) return false;
      if (s >= own_ && s < behind_ && last >= layers_->begin(kPattern + 1)) return false;
    }
    return true;
  }

  // As if the layers that are left out were not there.
  int planned_place(const Operation& op) const {
    const int place = layers_->place(op);
    return place < layers_->begin(kPattern + 1) ? place : place - layers_->skipped() * layers_->period();
  }

  // Where what stands behind the pattern in the plan looks at it, the last layer that is left out is meant.
  bool mend_behind() {
    const auto map = LayerMap::make(layers_, behind() - 1);
    if (!map) return false;
    Mover mover(map, nullptr);
    for (size_t s = behind_; s < plan_.steps.size(); ++s) {
      if (!looks_at_pattern(plan_.steps[s])) continue;
      auto moved = mover.step(plan_.steps[s]);
      if (!moved) return false;
      plan_.steps[s] = std::move(*moved);
    }
    for (auto& [before, alias] : plan_.aliases)
      if (layers_->maker(alias.id) >= layers_->begin(behind()) && of_pattern(alias.of))
        alias.of = map->value(alias.of);
    return true;
  }

  // Or has an operation of it inside.
  bool looks_at_pattern(const Step& step) const {
    const auto looks = [&](const Step& s) {
      return std::ranges::any_of(s.in, [&](const Source& in) { return of_pattern(in.id); }) ||
             std::ranges::any_of(s.out, [&](int id) { return of_pattern(id); });
    };
    const auto* fused = std::get_if<RunFused>(&step.work);
    return looks(step) || (fused && fused->plain && std::ranges::any_of(fused->plain->plan().steps, looks));
  }

  bool of_pattern(int id) const {
    if (id < 0 || id >= info_.values()) return false;
    const int place = layers_->maker(id);
    return place >= layers_->begin(kPattern) && place < layers_->begin(kPattern + 1);
  }

  // What a layer that was planned has beside its steps, of which `first` is the first.
  Piece beside_steps(int layer, size_t first) const {
    Piece out;
    const auto within = [&](int id) {
      const int place = id < info_.values() ? layers_->maker(id) : -1;
      return place >= layers_->begin(layer) && place < layers_->begin(layer + 1);
    };
    for (const auto& [before, alias] : plan_.aliases)
      if (within(alias.id)) out.aliases.emplace_back(before - first, alias);
    for (const Plan::Folded& folded : plan_.folded)
      if (within(folded.id)) out.folded.push_back(folded);
    return out;
  }

  std::optional<Piece> stamp(int layer, int& values) const {
    const auto map = LayerMap::make(layers_, layer);
    if (!map) return std::nullopt;
    Mover mover(map, &values);
    Piece out;
    for (size_t s = own_; s < behind_; ++s) {
      auto step = mover.step(plan_.steps[s]);
      if (!step) return std::nullopt;
      out.steps.push_back(std::move(*step));
    }
    for (const auto& [before, alias] : pattern_.aliases) out.aliases.emplace_back(before, mover.alias(alias));
    for (const Plan::Folded& folded : pattern_.folded) {
      if (depends_on_layer(folded.id, *map)) return std::nullopt;
      out.folded.push_back({mover.value(folded.id), folded.type, folded.data});
    }
    return out;
  }

  // Steps of the pattern look at a number that the layer before it has made for itself: which is it elsewhere?
  bool reaches_back() const {
    std::unordered_set<int> made;
    for (size_t s = before_; s < own_; ++s)
      for (const int id : plan_.steps[s].out)
        if (id >= info_.values()) made.insert(id);
    for (size_t s = own_; s < behind_; ++s)
      if (std::ranges::any_of(plan_.steps[s].in, [&](const Source& in) { return made.contains(in.id); }))
        return true;
    return false;
  }

  // Folded from constants of which each layer has its own.
  bool depends_on_layer(int id, const LayerMap& map) const {
    for (const Input& input : info_.value(id)->producer->inputs)
      for (const Binding& binding : input.bindings)
        if (binding.value && map.replaces(info_.id(binding.value))) return true;
    return false;
  }

  // The pattern gives the steps that a layer was planned to have, and what lies beside them.
  bool gives(int layer, size_t first, size_t end) const {
    int values = plan_.values;
    const auto piece = stamp(layer, values);
    if (!piece) return false;
    const Piece own = beside_steps(layer, first);
    return piece->aliases == own.aliases && piece->folded == own.folded &&
           std::ranges::equal(piece->steps, std::span(plan_.steps).subspan(first, end - first),
                              [&](const Step& a, const Step& b) { return same(a, b); });
  }

  bool same_id(int a, int b) const { return a == b || (a >= info_.values() && b >= info_.values()); }
  bool same(const Step& a, const Step& b) const {
    const auto same_source = [&](const Source& x, const Source& y) {
      return same_id(x.id, y.id) && !x.fixed == !y.fixed &&
             (x.constant == y.constant || (x.constant >= 0 && layers_->same_content(x.constant, y.constant)));
    };
    if (a.work.index() != b.work.index() || a.operation != b.operation || a.types != b.types ||
        !std::ranges::equal(a.in, b.in, same_source) ||
        !std::ranges::equal(a.out, b.out, [&](int x, int y) { return same_id(x, y); }))
      return false;
    const auto *x = std::get_if<RunFused>(&a.work), *y = std::get_if<RunFused>(&b.work);
    return !x || (x->kernel->name() == y->kernel->name() && x->writes == y->writes && !x->plain == !y->plain);
  }

  void insert(std::vector<Piece> pieces) {
    const size_t length = behind_ - own_, added = length * pieces.size();
    Aliases aliases, rest;
    for (auto& [before, alias] : plan_.aliases) {
      const bool later = layers_->maker(alias.id) >= layers_->begin(kPattern + 1);
      (later ? rest : aliases).emplace_back(later ? before + added : before, std::move(alias));
    }
    std::vector<Step> steps;
    for (size_t l = 0; l < pieces.size(); ++l) {
      Piece& piece = pieces[l];
      std::ranges::move(piece.steps, std::back_inserter(steps));
      for (auto& [before, alias] : piece.aliases)
        aliases.emplace_back(before + behind_ + l * length, std::move(alias));
      std::ranges::move(piece.folded, std::back_inserter(plan_.folded));
    }
    std::ranges::move(rest, std::back_inserter(aliases));
    plan_.aliases = std::move(aliases);
    plan_.unrolled = added;
    plan_.steps.insert(plan_.steps.begin() + static_cast<int64_t>(behind_),
                       std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.end()));
  }

  Plan& plan_;
  std::shared_ptr<const Layers> layers_;
  const FunctionInfo& info_;
  size_t before_, own_, behind_, next_;  // where the steps of layers begin: the one before the pattern, …
  Piece pattern_;                        // without its steps
};

}  // namespace

bool unroll(Plan& plan, std::span<const int> places, const std::shared_ptr<const Layers>& layers) {
  return Unroller(plan, places, layers).run();
}

}  // namespace anemone
