// What operations take: another value of the same type, two inputs the wrong way round, a value of the layer before.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// The computed values of a function, in order.
struct Values {
  std::vector<const Value*> all;
  std::unordered_map<const Value*, ptrdiff_t> place;
  std::unordered_map<const Operation*, size_t> before;  // how many of them stand before an operation

  explicit Values(const Function& f) {
    for (const auto& input : f.inputs)
      if (input->type.is_tensor()) all.push_back(input.get());
    for (const auto& op : f.body.ops) {
      before[op.get()] = all.size();
      if (op->type == "const" || op->type.starts_with("constexpr_")) continue;
      for (const auto& value : op->outputs)
        if (value->type.is_tensor()) all.push_back(value.get());
    }
    for (size_t i = 0; i < all.size(); ++i) place[all[i]] = static_cast<ptrdiff_t>(i);
  }
};

// The input takes the value of that name instead.
Change bound_to(const std::string& op_name, const std::string& input, size_t index,
                const std::string& value_name) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    Value* value = find_value(f, value_name);
    Input* in = op ? op->input(input) : nullptr;
    if (!in || !value || index >= in->bindings.size()) return false;
    Binding& b = in->bindings[index];
    if (!b.value || b.value == value || !(b.value->type == value->type)) return false;
    b.value = value;
    return true;
  };
}

Change inputs_swapped(const std::string& op_name, const std::string& a, const std::string& b) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    Input *x = op ? op->input(a) : nullptr, *y = op ? op->input(b) : nullptr;
    if (!x || !y || x->bindings.size() != 1 || y->bindings.size() != 1) return false;
    std::swap(x->bindings, y->bindings);
    if (types_hold(*op, f.opset)) return true;
    std::swap(x->bindings, y->bindings);
    return false;
  };
}

Change parts_swapped(const std::string& op_name, const std::string& input) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    Input* in = op ? op->input(input) : nullptr;
    if (!in || in->bindings.size() < 2 || !(in->bindings[0].type() == in->bindings[1].type())) return false;
    std::swap(in->bindings[0], in->bindings[1]);
    return true;
  };
}

// The same name with the layer before in it.
std::string one_layer_before(const std::string& name) {
  const int64_t layer = layer_of(name);
  if (layer < 1) return "";
  const std::string from = std::to_string(layer), to = std::to_string(layer - 1);
  const size_t at = name.starts_with("l" + from + "_") ? 1 : name.find("_" + from) + 1;
  return std::string(name).replace(at, from.size(), to);
}

bool commutes(const std::string& type) {
  return type == "add" || type == "mul" || type == "maximum" || type == "minimum";
}

class Sites {
 public:
  Sites(const Subject& subject, Rng& rng) : subject_(subject), rng_(rng) {}

  std::vector<GraphSite> find() {
    each_op(subject_, [&](const std::string& package, const Function& f, const Operation& op) {
      if (op.type == "const" || op.type.starts_with("constexpr_")) return;
      if (&f != function_) {
        function_ = &f;
        values_.emplace(f);
      }
      package_ = &package;
      for (const Input& in : op.inputs)
        for (size_t i = 0; i < in.bindings.size(); ++i) binding(op, in, i);
      swaps(op);
    });
    return std::move(out_);
  }

 private:
  void binding(const Operation& op, const Input& in, size_t index) {
    const Value* value = in.bindings[index].value;
    if (!value || !value->type.is_tensor() || value->constant() ||
        (value->producer && value->producer->type.starts_with("constexpr_")))
      return;
    std::vector<const Value*> others;
    const size_t before = values_->before.at(&op);
    for (size_t i = 0; i < before; ++i)
      if (values_->all[i] != value && values_->all[i]->type == value->type) others.push_back(values_->all[i]);
    if (others.empty()) return;
    add("input bound to another value", op, in, index, rng_.pick(others)->name);
    add("input bound to a neighbour", op, in, index, nearest(others, value)->name);
    const std::string earlier = one_layer_before(value->name);
    for (const Value* other : others)
      if (other->name == earlier) add("input of the layer before", op, in, index, earlier);
  }

  // The one that stands closest to the value that should be there.
  const Value* nearest(const std::vector<const Value*>& others, const Value* value) const {
    const auto distance = [&](const Value* v) {
      return std::abs(values_->place.at(v) - values_->place.at(value));
    };
    return *std::min_element(others.begin(), others.end(),
                             [&](const Value* a, const Value* b) { return distance(a) < distance(b); });
  }

  void add(const char* kind, const Operation& op, const Input& in, size_t index, const std::string& to) {
    out_.push_back({kind, *package_, op.name(), fmt::format("{} takes {}", in.name, to),
                    bound_to(op.name(), in.name, index, to)});
  }

  void swaps(const Operation& op) {
    for (const Input& in : op.inputs)
      if (in.bindings.size() > 1)
        out_.push_back({"parts swapped", *package_, op.name(), in.name, parts_swapped(op.name(), in.name)});
    const Input *x = op.input("x"), *y = op.input("y");
    if (x && y && !commutes(op.type))
      out_.push_back({"inputs swapped", *package_, op.name(), "", inputs_swapped(op.name(), "x", "y")});
  }

  const Subject& subject_;
  Rng& rng_;
  const Function* function_ = nullptr;
  const std::string* package_ = nullptr;
  std::optional<Values> values_;
  std::vector<GraphSite> out_;
};

}  // namespace

std::vector<GraphSite> wiring_graph_sites(const Subject& subject, Rng& rng) {
  return Sites(subject, rng).find();
}

std::vector<Mutation> wiring_sites(const Subject& subject, Rng& rng) {
  return mutations_of("wiring", subject, wiring_graph_sites(subject, rng));
}

}  // namespace anemone::mutation
