// A function of the model is a list of nodes over formal names. A call becomes these nodes: formal inputs and outputs
// get the names of the call, names inside get the call's name in front, and attributes that refer to the caller's are
// copied.
#include <unordered_map>

#include "base/error.h"
#include "onnx/reader.h"
#include "package/wire.h"

namespace anemone {
namespace {

using Names = std::unordered_map<std::string_view, std::string_view>;

// What one body is put in place with. The model's own graph has neither prefix nor attributes.
struct Scope {
  Names names;
  std::string prefix;
  bool rename = false;
  const OnnxNode* call = nullptr;  // its attributes, already in place
  const OnnxFunction* function = nullptr;
};

class Inliner {
 public:
  Inliner(const std::vector<OnnxFunction>& functions, OnnxBudget& budget, std::deque<std::string>& texts)
      : budget_(budget), texts_(texts) {
    for (const OnnxFunction& f : functions) functions_.emplace(key(f.domain, f.name, f.overload), &f);
  }

  void graph(OnnxGraph& graph, Scope& scope, int depth) {
    std::vector<OnnxNode> nodes;
    nodes.reserve(graph.nodes.size());
    for (OnnxNode& node : graph.nodes) place(node, scope, depth, nodes);
    graph.nodes = std::move(nodes);
  }

 private:
  static std::string key(std::string_view domain, std::string_view name, std::string_view overload) {
    return fmt::format("{}\n{}\n{}", domain, name, overload);
  }

  const OnnxFunction* find(const OnnxNode& node) const {
    const auto it = functions_.find(key(node.domain, node.op, node.overload));
    return it == functions_.end() ? nullptr : it->second;
  }

  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  std::string_view renamed(std::string_view name, Scope& scope) {
    if (name.empty()) return name;
    const auto it = scope.names.find(name);
    if (it != scope.names.end()) return it->second;
    if (!scope.rename) return name;
    const std::string_view made = keep(fmt::format("{}/{}", scope.prefix, name));
    scope.names.emplace(name, made);
    return made;
  }

  // A subgraph of a body: its own names are renamed like the body's.
  std::shared_ptr<const OnnxGraph> subgraph(const OnnxGraph& old, Scope& scope, int depth) {
    auto out = std::make_shared<OnnxGraph>(old);
    for (OnnxTensor& tensor : out->initializers) tensor = tensor.with_name(renamed(tensor.name(), scope));
    for (auto* list : {&out->inputs, &out->outputs, &out->infos})
      for (OnnxValueInfo& info : *list) info.name = renamed(info.name, scope);
    graph(*out, scope, depth);
    return out;
  }

  // The attributes of a node with references resolved.
  std::vector<OnnxAttribute> attributes(const OnnxNode& node, Scope& scope, int depth) {
    std::vector<OnnxAttribute> out;
    for (const OnnxAttribute& a : node.attributes) {
      if (!a.reference.empty()) {
        if (!scope.call)
          throw Error("an attribute refers to a function's, outside of a function").at(node.place());
        const OnnxAttribute* given = scope.call->attribute(a.reference);
        for (const OnnxAttribute& fallback : scope.function->defaults)
          if (!given && fallback.name == a.reference) given = &fallback;
        if (!given) continue;  // left out by the caller: the operator's own default holds
        out.push_back(*given);
        out.back().name = a.name;
        continue;
      }
      out.push_back(a);
      for (auto& inner : out.back().graphs) inner = subgraph(*inner, scope, depth + 1);
    }
    return out;
  }

  void place(const OnnxNode& old, Scope& scope, int depth, std::vector<OnnxNode>& out) {
    if (depth > wire::kMaxDepth)
      throw errorf("functions and graphs are nested more than {} deep", wire::kMaxDepth)
          .at(old.place())
          .hint("does a function call itself?");
    OnnxNode node = old;
    for (std::string_view& name : node.inputs) name = renamed(name, scope);
    for (std::string_view& name : node.outputs) name = renamed(name, scope);
    node.attributes = attributes(old, scope, depth);
    if (const OnnxFunction* function = find(node)) return call(node, *function, depth, out);
    if (scope.rename) {
      budget_.node();
      if (!node.name.empty()) node.name = keep(fmt::format("{}/{}", scope.prefix, node.name));
    }
    out.push_back(std::move(node));
  }

  void call(const OnnxNode& node, const OnnxFunction& function, int depth, std::vector<OnnxNode>& out) {
    budget_.node();
    if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
      throw errorf("the call has more inputs or outputs than the function '{}'",
                   onnx_printable(function.name))
          .at(node.place());
    Scope scope;
    scope.rename = true;
    const std::string_view name = !node.name.empty() ? node.name : node.output(0);
    scope.prefix = fmt::format("{}#{}", name, ++calls_);
    scope.call = &node;
    scope.function = &function;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      scope.names.emplace(function.inputs[i], node.input(i));
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string_view formal = function.outputs[i], actual = node.output(i);
      if (actual.empty()) continue;
      // An input that is also an output is copied to the output's name.
      if (const auto it = scope.names.find(formal); it != scope.names.end()) {
        OnnxNode copy;
        copy.op = "Identity";
        copy.version = 1;
        copy.inputs = {it->second};
        copy.outputs = {actual};
        out.push_back(std::move(copy));
        continue;
      }
      scope.names.emplace(formal, actual);
    }
    for (const OnnxNode& inner : function.nodes) place(inner, scope, depth + 1, out);
  }

  std::unordered_map<std::string, const OnnxFunction*> functions_;
  OnnxBudget& budget_;
  std::deque<std::string>& texts_;
  int64_t calls_ = 0;
};

}  // namespace

void inline_functions(OnnxGraph& graph, const std::vector<OnnxFunction>& functions, OnnxBudget& budget,
                      std::deque<std::string>& texts) {
  Scope scope;
  Inliner(functions, budget, texts).graph(graph, scope, 0);
}

void set_versions(std::vector<OnnxNode>& nodes, const std::map<std::string_view, int64_t>& opsets) {
  for (OnnxNode& node : nodes) {
    const auto it = opsets.find(node.domain);
    node.version = it == opsets.end() ? 0 : it->second;
    for (OnnxAttribute& a : node.attributes)
      for (auto& graph : a.graphs) set_versions(const_cast<OnnxGraph&>(*graph).nodes, opsets);
  }
}

}  // namespace anemone
