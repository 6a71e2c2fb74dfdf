// Operations of another kind, left out, done twice, or with a factor behind them.
#include <map>
#include <set>

#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// Operations that can stand for each other: the same inputs, the same result type.
const std::vector<std::vector<std::string>>& alike() {
  static const std::vector<std::vector<std::string>> kSets = {
      {"add", "sub", "mul", "real_div", "maximum", "minimum"},
      {"silu", "relu", "tanh", "sigmoid", "gelu", "erf", "identity"},
      {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"},
      {"abs", "square", "sqrt", "identity"},
      {"rsqrt", "inverse"},
  };
  return kSets;
}

std::vector<std::string> others_like(const std::string& type) {
  for (const auto& set : alike()) {
    std::vector<std::string> out;
    bool found = false;
    for (const std::string& name : set) (name == type ? found = true : (out.push_back(name), false));
    if (found) return out;
  }
  return {};
}

Change kind_replaced(const std::string& op_name, const std::string& type) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    if (!op) return false;
    const std::string before = op->type;
    std::vector<Input> inputs = op->inputs;
    op->type = type;
    std::erase_if(op->inputs, [](const Input& in) { return in.name == "mode"; });
    if (type == "gelu") {
      Input mode{"mode", {}, ""};
      mode.bindings.push_back({nullptr, std::make_shared<Constant>(Constant::text("EXACT")), ""});
      op->inputs.push_back(std::move(mode));
    }
    if (types_hold(*op, f.opset)) return true;
    op->type = before;
    op->inputs = std::move(inputs);
    return false;
  };
}

Change dropped(const std::string& op_name, const std::string& input) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    return op && drop(*op, input);
  };
}

// The result once more with one of its inputs: a residual that is added twice, a factor that counts twice.
Change repeated(const std::string& op_name, const std::string& input) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    if (!op || op->outputs.size() != 1 || !op->input(input) || op->input(input)->bindings.size() != 1)
      return false;
    const Binding again = op->input(input)->bindings[0];
    const std::string type = op->type;
    return put_behind(f, op->outputs[0].get(), [&](Builder& b, Value* old) {
      if (again.value) return b.op(type, {{"x", old}, {"y", again.value}}, "repeated");
      return b.op(type, {{"x", old}, {"y", *again.literal}}, "repeated");
    });
  };
}

Change scaled(const std::string& op_name, float factor) {
  return [=](Function& f) {
    Operation* op = find_op(f, op_name);
    if (!op || op->outputs.size() != 1 || !op->outputs[0]->type.is_float()) return false;
    return put_behind(f, op->outputs[0].get(), [&](Builder& b, Value* old) {
      return b.op("mul", {{"x", old}, {"y", Constant::number(factor, old->type.dtype)}}, "scaled");
    });
  };
}

// Two projections with each other's weights: what makes the weights changes places, whatever form they have.
Change exchanged(const std::string& a_name, const std::string& b_name) {
  return [=](Function& f) {
    const Operation *a = find_op(f, a_name), *b = find_op(f, b_name);
    const Value *x = a ? a->value("weight") : nullptr, *y = b ? b->value("weight") : nullptr;
    if (!x || !y || x == y || !(x->type == y->type) || x->producer->type != y->producer->type) return false;
    Operation &p = *x->producer, &q = *y->producer;
    std::swap(p.inputs, q.inputs);
    std::swap(p.attributes, q.attributes);
    std::swap(p.attributes.at("name"), q.attributes.at("name"));
    return types_hold(p, f.opset) && types_hold(q, f.opset);
  };
}

void projections_exchanged(const Subject& subject, std::vector<GraphSite>& out) {
  for (const auto& [name, package] : subject.packages) {
    const Function& f = *package->program.functions.front();
    const Operation* last = nullptr;
    for (const auto& op : f.body.ops) {
      if (op->type != "conv") continue;
      if (last && last->value("weight") && op->value("weight") &&
          last->value("weight")->type == op->value("weight")->type)
        out.push_back({"weights of two projections exchanged",
                       name,
                       last->name(),
                       "with " + op->name(),
                       exchanged(last->name(), op->name()),
                       {op->name(), last->value("weight")->name, op->value("weight")->name}});
      last = op.get();
    }
  }
}

// The index of the best row stays below a number: wrong for a range of rows alone.
void indices_clipped(const Subject& subject, Rng& rng, std::vector<GraphSite>& out) {
  for (const Stage& stage : subject.info.stages)
    for (const Port& port : stage.functions.front().interface.outputs) {
      const bool high = port.role.kind == Role::Kind::best_high;
      if (!high && port.role.kind != Role::Kind::best_low) continue;
      const int64_t most = high ? (port.role.last - port.role.first - 1) / kIndexBase : kIndexBase - 1;
      if (most < 1) continue;
      const auto bound = static_cast<float>(rng.between(0, most - 1));
      out.push_back({"index clipped",
                     stage.package,
                     port.name,
                     fmt::format("at {}", bound),
                     [name = port.name, bound](Function& f) {
                       return put_behind(f, find_value(f, name), [&](Builder& b, Value* old) {
                         return b.op("minimum", {{"x", old}, {"y", Constant::number(bound, old->type.dtype)}},
                                     "clipped");
                       });
                     },
                     {"picks", "best"}});
    }
}

}  // namespace

std::vector<GraphSite> op_graph_sites(const Subject& subject, Rng& rng) {
  std::vector<GraphSite> out;
  const uint64_t seed = rng.next();
  each_op(subject, [&](const std::string& package, const Function&, const Operation& op) {
    if (op.type == "const" || op.type.starts_with("constexpr_") || op.outputs.size() != 1) return;
    const std::string name = op.name();
    const std::vector<std::string> others = others_like(op.type);
    if (!others.empty()) {
      // The same for all layers, so that they can be changed together.
      std::string pattern = name;
      std::erase_if(pattern, [](char c) { return c >= '0' && c <= '9'; });
      const std::string& other = Rng(seed, pattern).pick(others);
      out.push_back({"kind replaced", package, name, op.type + " by " + other, kind_replaced(name, other)});
    }
    for (const Input& in : op.inputs) {
      if (in.bindings.size() != 1 || !in.bindings[0].value || in.bindings[0].constant()) continue;
      if (in.bindings[0].type() == op.outputs[0]->type)
        out.push_back({"dropped", package, name, op.type + " gives its " + in.name, dropped(name, in.name)});
      if (op.type == "add" || op.type == "mul")
        out.push_back({"repeated", package, name, op.type + " of " + in.name, repeated(name, in.name)});
    }
    if (op.outputs[0]->type.is_float())
      for (const float factor : {1.05f, 0.9f, 10.0f})
        out.push_back({fmt::format("scaled by {}", factor), package, name, "", scaled(name, factor)});
  });
  projections_exchanged(subject, out);
  indices_clipped(subject, rng, out);
  return out;
}

std::vector<Mutation> op_sites(const Subject& subject, Rng& rng) {
  return mutations_of("ops", subject, op_graph_sites(subject, rng));
}

}  // namespace anemone::mutation
