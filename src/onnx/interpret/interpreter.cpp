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

const Table& table() {
  static const Table all = [] {
    Table t;
    add_attention(t);
    add_codes(t);
    add_control(t);
    add_elementwise(t);
    add_losses(t);
    add_movement(t);
    add_norms(t);
    add_products(t);
    add_recurrent(t);
    add_reductions(t);
    add_sampling(t);
    add_selection(t);
    add_signals(t);
    add_space(t);
    add_windows(t);
    return t;
  }();
  return all;
}

Arrays outputs_of(const OnnxGraph& graph, Names& names) {
  Arrays out;
  for (const OnnxValueInfo& info : graph.outputs) {
    const OnnxArray* value = names.find(info.name);
    if (!value) throw errorf("'{}' has no value", onnx_printable(info.name));
    out.push_back(*value);
  }
  return out;
}

Arrays run_node(const OnnxNode& node, Names& names) {
  Context c{node, {}, &names};
  for (const std::string_view name : node.inputs) {
    const OnnxArray* value = name.empty() ? nullptr : names.find(name);
    if (!name.empty() && !value) throw errorf("'{}' has no value", onnx_printable(name));
    c.in.push_back(value);
  }
  const auto it = table().all().find({node.domain, node.op});
  if (it == table().all().end())
    throw errorf("the interpreter does not know this operator").hint("docs/onnx.md lists what is supported");
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

Arrays run_inner(const OnnxGraph& graph, const Context& c, const Arrays& inputs) {
  if (inputs.size() > graph.inputs.size())
    throw errorf("a graph inside of the node has too few inputs")
        .found(std::to_string(graph.inputs.size()))
        .expected(std::to_string(inputs.size()));
  Names inner;
  inner.outer = c.names;
  for (size_t k = 0; k < inputs.size(); ++k) inner.values[graph.inputs[k].name] = inputs[k];
  run_graph(graph, inner, nullptr);
  return outputs_of(graph, inner);
}

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

std::vector<std::pair<std::string_view, std::string_view>> interpreted_ops() {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const auto& [name, function] : interpret::table().all()) out.push_back(name);
  return out;
}

}  // namespace anemone
