// Order and names of a graph: each name is defined once, before it is used, and there is no cycle.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "onnx/reader.h"

namespace anemone {
namespace {

// The names that a graph defines, inside those of the graphs around it.
struct Defined {
  const Defined* outer = nullptr;
  std::unordered_set<std::string_view> names;

  bool has(std::string_view name) const {
    for (const Defined* d = this; d; d = d->outer)
      if (d->names.contains(name)) return true;
    return false;
  }
};

class Sorter {
 public:
  explicit Sorter(OnnxGraph& graph) : graph_(graph), waits_(graph.nodes.size()), users_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const std::string_view name : graph.nodes[i].outputs)
        if (!name.empty()) maker_.emplace(name, i);
  }

  // The first order in which each node stands behind what it reads: nodes keep their places where they can.
  void sort() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto depend = [&](std::string_view name) {
        const auto it = maker_.find(name);
        if (it == maker_.end()) return;
        users_[it->second].push_back(i);
        ++waits_[i];
      };
      for (const std::string_view name : graph_.nodes[i].inputs) depend(name);
      for_each_capture(graph_.nodes[i], depend);
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < waits_.size(); ++i)
      if (waits_[i] == 0) ready.push(i);
    std::vector<OnnxNode> sorted;
    sorted.reserve(graph_.nodes.size());
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      for (const size_t user : users_[i])
        if (--waits_[user] == 0) ready.push(user);
      sorted.push_back(std::move(graph_.nodes[i]));
    }
    if (sorted.size() < graph_.nodes.size())
      for (size_t i = 0; i < waits_.size(); ++i)
        if (waits_[i] > 0)
          throw Error("the node is part of a cycle, or reads from one").at(graph_.nodes[i].place());
    graph_.nodes = std::move(sorted);
  }

 private:
  OnnxGraph& graph_;
  std::unordered_map<std::string_view, size_t> maker_;
  std::vector<size_t> waits_;
  std::vector<std::vector<size_t>> users_;
};

class Finisher {
 public:
  void finish(OnnxGraph& graph, const Defined* outer) {
    Defined defined{outer, {}};
    for (const OnnxValueInfo& input : graph.inputs) {
      if (input.name.empty()) throw Error("an input of the graph has no name");
      define(defined, input.name, "input");
    }
    std::unordered_set<std::string_view> initializers;
    for (const OnnxTensor& tensor : graph.initializers) {
      if (!initializers.insert(tensor.name()).second)
        throw errorf("two initializers are called '{}'", onnx_printable(tensor.name()));
      defined.names.insert(tensor.name());  // it may be an input too: then it is its default
    }
    if (!in_order(graph, defined)) Sorter(graph).sort();
    for (OnnxNode& node : graph.nodes) check(node, defined);
    for (const OnnxValueInfo& output : graph.outputs)
      if (!defined.has(output.name))
        throw errorf("nothing makes the output '{}' of the graph", onnx_printable(output.name));
    graph.build_index();
  }

 private:
  static void define(Defined& defined, std::string_view name, std::string_view what) {
    if (!defined.names.insert(name).second)
      throw errorf("the {} '{}' is defined twice", what, onnx_printable(name));
  }

  static bool in_order(const OnnxGraph& graph, const Defined& before) {
    std::unordered_set<std::string_view> later;
    for (const OnnxNode& node : graph.nodes)
      for (const std::string_view name : node.outputs)
        if (!name.empty()) later.insert(name);
    bool sound = true;
    for (const OnnxNode& node : graph.nodes) {
      const auto use = [&](std::string_view name) {
        if (later.contains(name) && !before.has(name)) sound = false;
      };
      for (const std::string_view name : node.inputs) use(name);
      for_each_capture(node, use);
      if (!sound) return false;
      for (const std::string_view name : node.outputs) later.erase(name);
    }
    return true;
  }

  void check(OnnxNode& node, Defined& defined) {
    for (const std::string_view name : node.inputs)
      if (!name.empty() && !defined.has(name))
        throw errorf("nothing makes the input '{}'", onnx_printable(name)).at(node.place());
    for (OnnxAttribute& a : node.attributes)
      for (const auto& graph : a.graphs) {
        try {
          finish(const_cast<OnnxGraph&>(*graph), &defined);
        } catch (Error& e) {
          e.within(node.place());
          throw;
        }
      }
    for (const std::string_view name : node.outputs) {
      if (name.empty()) continue;
      if (!defined.names.insert(name).second)
        throw errorf("the value '{}' is defined twice", onnx_printable(name)).at(node.place());
    }
  }
};

}  // namespace

void finish_graph(OnnxGraph& graph) { Finisher().finish(graph, nullptr); }

}  // namespace anemone
