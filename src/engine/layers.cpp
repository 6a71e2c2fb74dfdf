#include "engine/layers.h"

#include <algorithm>
#include <functional>

namespace anemone {
namespace {

bool is_constant(const Operation& op) { return op.type == "const" || op.type.starts_with("constexpr_"); }

// What operations that repeat have in common, as a number.
size_t kind_of(const Operation& op) {
  size_t kind = std::hash<std::string_view>()(op.type) + op.inputs.size();
  for (const auto& output : op.outputs) {
    kind = kind * 31 + static_cast<size_t>(output->type.dtype);
    for (const Dim& dim : output->type.shape)
      kind = kind * 31 + static_cast<size_t>(dim.known() ? dim.size() : -1);
  }
  return kind;
}

bool same_outputs(const Operation& a, const Operation& b) {
  return std::ranges::equal(a.outputs, b.outputs,
                            [](const auto& x, const auto& y) { return x->type == y->type; });
}

// All but the names.
bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && (x.first == "name" || same_constant(x.second, y.second));
  });
}

const Param* find_param(const Operation& op, std::string_view name, Opset opset) {
  const Op* schema = find_op(op.type);
  const OpVersion* version = schema ? schema->version(opset) : nullptr;
  if (!version) return nullptr;
  for (const Param& param : version->params)
    if (param.name == name) return &param;
  return nullptr;
}

}  // namespace

std::shared_ptr<const Layers> Layers::find(const FunctionInfo& info, const Cells& cells) {
  std::shared_ptr<Layers> layers(new Layers(info));
  if (!layers->number_operations() || !layers->find_period(cells) || !layers->ends_well()) return nullptr;
  return layers;
}

const Operation& Layers::operation(int place) const {
  return *info_.function().body.ops[static_cast<size_t>(ops_[static_cast<size_t>(place)])];
}

bool Layers::number_operations() {
  const Block& body = info_.function().body;
  place_of_op_.assign(body.ops.size(), -1);
  maker_.assign(static_cast<size_t>(info_.values()), -1);
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const Operation& op = *body.ops[i];
    if (is_constant(op)) continue;
    if (is_dynamic(op)) return false;
    place_of_op_[i] = static_cast<int>(ops_.size());
    for (const auto& output : op.outputs)
      maker_[static_cast<size_t>(info_.id(output.get()))] = place_of_op_[i];
    if (op.outputs.empty()) silent_.emplace(&op, place_of_op_[i]);
    ops_.push_back(static_cast<int>(i));
  }
  return true;
}

// Starts in the middle and takes the least period that holds for most of the function.
bool Layers::find_period(const Cells& cells) {
  const int n = static_cast<int>(ops_.size()), middle = n / 2, fewest = kPattern + 1 + kFewest + kBehind;
  std::vector<size_t> kinds;
  for (int i = 0; i < n; ++i) kinds.push_back(kind_of(operation(i)));
  const auto same = [&](int i, int p) {
    return kinds[static_cast<size_t>(i)] == kinds[static_cast<size_t>(i + p)];
  };
  for (int p = 1; p <= n / fewest; ++p) {
    if (!same(middle, p)) continue;
    int begin = middle, end = middle;  // places that are repeated a period later
    while (begin > 0 && same(begin - 1, p)) --begin;
    while (end + p < n && same(end, p)) ++end;
    if (end + p - begin < std::max(fewest * p, n / 2)) continue;
    int from = middle, to = middle;
    while (from > begin && repeats(from - 1, p, cells)) --from;
    while (to < end && repeats(to, p, cells)) ++to;
    period_ = p;
    first_ = best_border(std::max(from, shared_ + 1));
    count_ = (to + p - first_) / p;
    if (count_ >= fewest) return note_differences(), true;
    differing_.clear();  // perhaps layers of two kinds take turns: a longer period holds
    shared_ = -1;
  }
  return false;
}

// Where the fewest values are handed on from one layer to the next, so that steps hardly ever reach over a border.
int Layers::best_border(int first) const {
  const NumberedBlock& body = info_.block(info_.function().body);
  std::vector<int> crossing(static_cast<size_t>(period_) + 1,
                            0);  // counted up at a value's maker, down at its last use
  for (int place = first; place < first + period_; ++place)
    for (const auto& output : operation(place).outputs) {
      const auto users = body.users(info_.id(output.get()));
      if (users.empty()) continue;
      const int last = std::min(place_of_op_[static_cast<size_t>(users.back().second)], place + period_);
      for (int border = place + 1; border <= last; ++border)
        ++crossing[static_cast<size_t>((border - first) % period_)];
    }
  return first + static_cast<int>(std::min_element(crossing.begin(), crossing.end() - 1) - crossing.begin());
}

// Operations of a layer whose weights, or inputs of the function, are not those of the other layers; and all others
// that look at these values in the pattern or in the layer before it.
void Layers::note_differences() {
  std::vector<char> differs(static_cast<size_t>(period_), 0);
  for (const int place : differing_)
    if (place >= begin(0) && place < begin(count_ - 1))
      differs[static_cast<size_t>((place - first_) % period_)] = 1;
  const NumberedBlock& body = info_.block(info_.function().body);
  const std::vector<char> own = differs;
  for (int place = begin(kPattern - 1); place < begin(kPattern + 1); ++place) {
    if (!own[static_cast<size_t>((place - first_) % period_)]) continue;
    const int layer = (place - first_) / period_;
    for (const int id : body.uses[static_cast<size_t>(ops_[static_cast<size_t>(place)])]) {
      if (maker(id) >= 0) continue;
      for (const auto& [used, op] : body.users(id))
        if (const int at = place_of_op_[static_cast<size_t>(op)]; at >= begin(layer) && at < begin(layer + 1))
          differs[static_cast<size_t>(at - begin(layer))] = 1;
    }
  }
  differing_.clear();
  for (int i = 0; i < period_; ++i)
    if (differs[static_cast<size_t>(i)]) differing_.push_back(i);
}

// The operation at `place` comes again a period later.
bool Layers::repeats(int place, int period, const Cells& cells) {
  const Operation &a = operation(place), &b = operation(place + period);
  period_ = period;
  if (a.type != b.type || a.inputs.size() != b.inputs.size() || !same_outputs(a, b) ||
      !same_attributes(a.attributes, b.attributes))
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const Input &x = a.inputs[i], &y = b.inputs[i];
    if (x.name != y.name || x.bindings.size() != y.bindings.size()) return false;
    for (size_t k = 0; k < x.bindings.size(); ++k) {
      const Binding &p = x.bindings[k], &q = y.bindings[k];
      if (!p.value != !q.value) return false;
      if (!p.value) {
        if (!same_constant(*p.literal, *q.literal)) return false;
        continue;
      }
      const int u = info_.id(p.value), v = info_.id(q.value);
      if (!same_use(a, x, u, v, place + period, cells)) return false;
      if (maker(u) < 0 && !interchangeable(u, v)) differing_.push_back(place);
    }
  }
  return true;
}

// The operation at `place` reads `b` as that a period before it reads `a`.
bool Layers::same_use(const Operation& op, const Input& input, int a, int b, int place, const Cells& cells) {
  const int from = maker(a), to = maker(b);
  if (a == b) {
    shared_ = std::max(shared_, from);
    return from >= 0 || info_.is_constant(a) || info_.value(a)->type.kind != Type::Kind::state;
  }
  if (from >= 0 || to >= 0)
    return from >= 0 && to - from == period_ && place - to <= period_ && output_of(a) == output_of(b);
  if (info_.is_constant(a) != info_.is_constant(b)) return false;
  if (info_.is_constant(a)) return same_constants(op, input, a, b);
  const Cell &x = cells[static_cast<size_t>(a)], &y = cells[static_cast<size_t>(b)];
  return x.type && y.type && *x.type == *y.type && x.halves == y.halves && !x.known && !y.known &&
         info_.value(a)->type == info_.value(b)->type;
}

// Which output of the operation that makes it a value is.
size_t Layers::output_of(int id) const {
  const auto& outputs = operation(maker(id)).outputs;
  return static_cast<size_t>(
      std::ranges::find(outputs, id, [&](const auto& output) { return info_.id(output.get()); }) -
      outputs.begin());
}

// Weights differ; what a plan goes by does not. The size of what `non_zero` gives depends on what it looks at.
bool Layers::same_constants(const Operation& op, const Input& input, int a, int b) const {
  const Value &x = *info_.value(a), &y = *info_.value(b);
  if (x.type != y.type || x.producer->type != y.producer->type) return false;
  if (same_content(a, b)) return true;
  if (op.type == "non_zero") return false;
  const Param* param = find_param(op, input.name, info_.function().opset);
  return param && !(param->flags & kConst) && x.type.is_tensor() && x.type.is_float() && x.type.fixed() &&
         x.type.size() > 1;
}

bool Layers::same_content(int a, int b) const {
  if (a == b) return true;
  if (!info_.is_constant(a) || !info_.is_constant(b)) return false;
  const Constant *x = info_.value(a)->constant(), *y = info_.value(b)->constant();
  return x && y && same_constant(*x, *y);
}

// Large ones may be expanded by a step of their own: then it matters which it is.
bool Layers::interchangeable(int a, int b) const {
  if (a == b) return true;
  const Type& type = info_.value(a)->type;
  return same_content(a, b) && (!type.is_tensor() || type.size() <= kSmallElements);
}

// Behind the layers, nobody looks at one that is left out, or at one that others are made from.
bool Layers::ends_well() const {
  const Block& body = info_.function().body;
  const auto allowed = [&](int id) { return maker(id) < begin(1) || maker(id) >= begin(count_ - kBehind); };
  for (size_t place = static_cast<size_t>(begin(count_)); place < ops_.size(); ++place)
    for (const int id : info_.block(body).uses[static_cast<size_t>(ops_[place])])
      if (!allowed(id)) return false;
  return std::ranges::all_of(info_.block(body).outputs, allowed);
}

bool Layers::left_out(size_t op) const {
  const int place = place_of_op_[op];
  return place >= begin(kPattern + 1) && place < begin(count_ - kBehind);
}

int Layers::shifted(int id, int places) const {
  const int from = maker(id);
  const Operation &a = operation(from), &b = operation(from + places);
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (info_.id(a.outputs[i].get()) == id) return info_.id(b.outputs[i].get());
  return id;
}

int Layers::planned(int id) const {
  const int from = maker(id);
  if (from < begin(kPattern + 1) || from >= begin(count_ - kBehind)) return id;
  return shifted(id, -skipped() * period_);
}

bool Layers::only_in(int layer, int id) const {
  const NumberedBlock& body = info_.block(info_.function().body);
  for (const auto& [used, op] : body.users(id))
    if (const int at = place_of_op_[static_cast<size_t>(op)]; at < begin(layer) || at >= begin(layer + 1))
      return false;
  return std::ranges::find(body.outputs, id) == body.outputs.end();
}

int Layers::place(const Operation& op) const {
  return op.outputs.empty() ? silent_.at(&op) : maker(info_.id(op.outputs[0].get()));
}

std::shared_ptr<const LayerMap> LayerMap::make(std::shared_ptr<const Layers> layers, int layer) {
  std::shared_ptr<LayerMap> map(new LayerMap(std::move(layers), layer));
  for (int back = 1; back >= 0; --back)
    for (const int i : map->layers_->differing())
      if (!map->pair_operands(map->layers_->begin(Layers::kPattern - back) + i, back)) return nullptr;
  return map;
}

bool LayerMap::pair_operands(int place, int back) {
  const Operation &mine = layers_->operation(place), &other = layers_->operation(place + distance());
  for (size_t k = 0; k < mine.inputs.size(); ++k)
    for (size_t b = 0; b < mine.inputs[k].bindings.size(); ++b) {
      const Value *x = mine.inputs[k].bindings[b].value, *y = other.inputs[k].bindings[b].value;
      if (x && !pair(info().id(x), info().id(y), back)) return false;
    }
  return true;
}

bool LayerMap::pair(int mine, int other, int back) {
  if (layers_->maker(mine) >= 0) return true;
  const auto [it, is_new] = others_.emplace(mine, other);
  if (!is_new) return it->second == other || layers_->interchangeable(it->second, other);
  // What the layer has once, where the pattern has two, is read and written in another order there.
  if (const auto [first, is_first] = mine_.emplace(other, mine);
      !is_first && !layers_->interchangeable(first->second, mine))
    return false;
  if (layers_->interchangeable(mine, other)) return true;
  // Each layer loads a weight for itself, into a place of its own.
  return layers_->only_in(Layers::kPattern - back, mine) && layers_->only_in(layer_ - back, other) &&
         (!info().is_constant(mine) || lies_alike(mine, other));
}

// A plan reads both where they lie, or neither.
bool LayerMap::lies_alike(int mine, int other) const {
  const Type& type = info().value(mine)->type;
  return type.size() <= kSmallElements || type.dtype != DType::fp32 ||
         !info().dense(mine) == !info().dense(other);
}

int LayerMap::value(int id) const {
  if (const auto it = others_.find(id); it != others_.end()) return it->second;
  return moves(layers_->maker(id)) ? layers_->shifted(id, distance()) : id;
}

const Operation& LayerMap::operation(const Operation& op) const {
  const int place = layers_->place(op);
  return moves(place) ? layers_->operation(place + distance()) : op;
}

}  // namespace anemone
