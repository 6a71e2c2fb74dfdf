#include "onnx/interpret/interpreter.h"

#include <algorithm>
#include <stdexcept>

#include "onnx/interpret/context.h"

namespace anemone {
namespace interpret {

// The values of a graph, inside those of the graphs around it.
struct Names {
  Names* outer = nullptr;
  std::unordered_map<std::string_view, OnnxArray> values;

  const OnnxArray* find(std::string_view name) const {
    for (const Names* n = this; n; n = n->outer)
      if (const auto it = n->values.find(name); it != n->values.end()) return &it->second;
    return nullptr;
  }
};

int64_t& most_elements() {
  static thread_local int64_t most = 0;
  return most;
}

namespace {

constexpr int64_t kMostRounds = 1 << 16;

const Table& table() {
  static const Table all = [] {
    Table t;
    add_elementwise(t);
    add_movement(t);
    add_reductions(t);
    add_windows(t);
    add_products(t);
    add_norms(t);
    add_recurrent(t);
    return t;
  }();
  return all;
}

void run_graph(const OnnxGraph& graph, Names& names, const OnnxObserver& observe);

Arrays outputs_of(const OnnxGraph& graph, Names& names) {
  Arrays out;
  for (const OnnxValueInfo& info : graph.outputs) {
    const OnnxArray* value = names.find(info.name);
    if (!value) throw errorf("'{}' has no value", onnx_printable(info.name));
    out.push_back(*value);
  }
  return out;
}

Arrays run_if(const Context& c) {
  const OnnxGraph* branch = c.node.graph(c[0].data.at(0) != 0 ? "then_branch" : "else_branch");
  if (!branch) throw errorf("If needs two branches");
  Names inner;
  inner.outer = c.names;
  run_graph(*branch, inner, nullptr);
  return outputs_of(*branch, inner);
}

OnnxArray stacked(const Arrays& slices) {
  OnnxArray y = slices.at(0);
  y.dims.insert(y.dims.begin(), static_cast<int64_t>(slices.size()));
  for (size_t k = 1; k < slices.size(); ++k)
    y.data.insert(y.data.end(), slices[k].data.begin(), slices[k].data.end());
  return y;
}

Arrays run_loop(const Context& c) {
  const OnnxGraph* body = c.node.graph("body");
  if (!body || body->inputs.size() < 2) throw errorf("Loop needs a body");
  const double most = c.has(0) ? c[0].data.at(0) : static_cast<double>(kMostRounds) + 1;
  bool go = !c.has(1) || c[1].data.at(0) != 0;
  Arrays state;
  for (size_t k = 2; k < body->inputs.size(); ++k) state.push_back(c[k]);
  std::vector<Arrays> scans(body->outputs.size() - 1 - state.size());
  for (int64_t i = 0; go && static_cast<double>(i) < most; ++i) {
    if (i == kMostRounds) throw errorf("the loop has more than {} rounds", kMostRounds);
    Names inner;
    inner.outer = c.names;
    OnnxArray round = made(OnnxType::int64, {}), condition = made(OnnxType::boolean, {});
    round.data[0] = static_cast<double>(i);
    condition.data[0] = 1;
    inner.values[body->inputs[0].name] = round;
    inner.values[body->inputs[1].name] = condition;
    for (size_t k = 0; k < state.size(); ++k) inner.values[body->inputs[k + 2].name] = state[k];
    run_graph(*body, inner, nullptr);
    Arrays outs = outputs_of(*body, inner);
    go = outs[0].data.at(0) != 0;
    for (size_t k = 0; k < state.size(); ++k) state[k] = outs[k + 1];
    for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(outs[k + 1 + state.size()]);
  }
  for (const Arrays& slices : scans) {
    if (slices.empty()) throw errorf("a loop without rounds has no scan outputs");
    state.push_back(stacked(slices));
  }
  return state;
}

Arrays run_node(const OnnxNode& node, Names& names) {
  Context c{node, {}, &names};
  for (const std::string_view name : node.inputs) {
    const OnnxArray* value = name.empty() ? nullptr : names.find(name);
    if (!name.empty() && !value) throw errorf("'{}' has no value", onnx_printable(name));
    c.in.push_back(value);
  }
  if (node.domain.empty() && node.op == "If") return run_if(c);
  if (node.domain.empty() && node.op == "Loop") return run_loop(c);
  const auto it = table().find(node.op);
  if (!node.domain.empty() || it == table().end())
    throw errorf("the interpreter does not know this operator")
        .hint("verify covers the operators of common networks");
  return it->second(c);
}

void run_graph(const OnnxGraph& graph, Names& names, const OnnxObserver& observe) {
  for (const OnnxTensor& t : graph.initializers) {
    if (names.values.contains(t.name()) || !onnx_type_decodes(t.type())) continue;
    OnnxArray a{t.type(), t.dims(), std::vector<double>(static_cast<size_t>(t.elements()))};
    t.read(0, t.elements(), std::span<double>(a.data));
    names.values.emplace(t.name(), std::move(a));
  }
  for (const OnnxNode& node : graph.nodes) {
    try {
      Arrays outs = run_node(node, names);
      for (size_t k = 0; k < node.outputs.size() && k < outs.size(); ++k) {
        if (node.outputs[k].empty()) continue;
        if (onnx_type_info(outs[k].type).floating)
          for (double& v : outs[k].data) v = static_cast<double>(static_cast<float>(v));
        const auto [at, fresh] = names.values.insert_or_assign(node.outputs[k], std::move(outs[k]));
        if (observe) observe(node, node.outputs[k], at->second);
      }
    } catch (Error& e) {
      e.within(node.place());
      throw;
    } catch (const std::out_of_range&) {  // of a list that an operator takes for longer
      throw Error("an input or an attribute has fewer dimensions than the operator takes").at(node.place());
    }
  }
}

}  // namespace
}  // namespace interpret

std::map<std::string, OnnxArray> OnnxInterpreter::compute(const std::map<std::string, OnnxArray>& inputs,
                                                          const OnnxObserver& observe) const {
  interpret::Names names;
  interpret::most_elements() = most_;
  for (const OnnxValueInfo* info : model_.graph().open_inputs()) {
    const auto it = inputs.find(std::string(info->name));
    if (it == inputs.end())
      throw errorf("the input '{}' is missing", onnx_printable(info->name)).at(model_.path());
    names.values.emplace(info->name, it->second);
  }
  interpret::run_graph(model_.graph(), names, observe);
  std::map<std::string, OnnxArray> out;
  for (const OnnxValueInfo& info : model_.graph().outputs)
    if (const OnnxArray* value = names.find(info.name)) out.emplace(std::string(info.name), *value);
  return out;
}

std::vector<std::string> interpreted_ops() {
  std::vector<std::string> out = {"If", "Loop"};
  for (const auto& [name, function] : interpret::table()) out.emplace_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace anemone
