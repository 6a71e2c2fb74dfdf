#include "onnx/model.h"

#include <unordered_set>

#include "base/error.h"
#include "base/mapped_file.h"

namespace anemone {
namespace {

constexpr std::string_view kKindNames[] = {
    "nothing", "a float", "an int", "a string",        "a tensor",       "a graph", "floats", "ints",
    "strings", "tensors", "graphs", "a sparse tensor", "sparse tensors", "a type",  "types"};

const OnnxAttribute* of_kind(const OnnxNode& node, std::string_view name, OnnxAttribute::Kind kind) {
  const OnnxAttribute* a = node.attribute(name);
  if (!a || a->kind == kind) return a;
  throw errorf("the attribute '{}' has the wrong kind", name)
      .at(node.place())
      .found(std::string(kKindNames[static_cast<size_t>(a->kind)]))
      .expected(std::string(kKindNames[static_cast<size_t>(kind)]));
}

}  // namespace

std::string onnx_printable(std::string_view name) {
  std::string text(name.substr(0, 120));
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  return name.size() > 120 ? text + "…" : text;
}

std::string OnnxValueInfo::text() const {
  constexpr std::string_view kKinds[] = {"unknown", "",         "sparse tensor", "sequence",
                                         "map",     "optional", "opaque"};
  if (kind != Kind::tensor) return std::string(kKinds[static_cast<size_t>(kind)]);
  std::string out(onnx_type_info(type).name);
  if (!has_shape) return out;
  out += " [";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += dims[i].known()          ? fmt::format("{}", dims[i].size)
           : dims[i].symbol.empty() ? "?"
                                    : onnx_printable(dims[i].symbol);
  }
  return out + "]";
}

const OnnxAttribute* OnnxNode::attribute(std::string_view wanted) const {
  for (const OnnxAttribute& a : attributes)
    if (a.name == wanted) return &a;
  return nullptr;
}

int64_t OnnxNode::integer(std::string_view wanted, int64_t fallback) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::integer);
  return a ? a->integer : fallback;
}

float OnnxNode::number(std::string_view wanted, float fallback) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::number);
  return a ? a->number : fallback;
}

std::string_view OnnxNode::text(std::string_view wanted, std::string_view fallback) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::text);
  return a ? a->text : fallback;
}

std::vector<int64_t> OnnxNode::integers(std::string_view wanted, std::vector<int64_t> fallback) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::integers);
  return a ? a->integers : std::move(fallback);
}

std::vector<float> OnnxNode::numbers(std::string_view wanted, std::vector<float> fallback) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::numbers);
  return a ? a->numbers : std::move(fallback);
}

const OnnxTensor* OnnxNode::tensor(std::string_view wanted) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::tensor);
  return a ? &a->tensors.front() : nullptr;
}

const OnnxGraph* OnnxNode::graph(std::string_view wanted) const {
  const OnnxAttribute* a = of_kind(*this, wanted, OnnxAttribute::Kind::graph);
  return a ? a->graphs.front().get() : nullptr;
}

std::string OnnxNode::place() const {
  const std::string_view known = !name.empty() ? name : output(0);
  const std::string kind =
      onnx_printable(domain.empty() ? std::string(op) : fmt::format("{}.{}", domain, op));
  return fmt::format("node '{}' ({})", onnx_printable(known), kind);
}

const OnnxTensor* OnnxGraph::initializer(std::string_view wanted) const {
  const auto it = initializer_at_.find(wanted);
  return it == initializer_at_.end() ? nullptr : &initializers[it->second];
}

const OnnxNode* OnnxGraph::producer(std::string_view wanted) const {
  const auto it = producer_at_.find(wanted);
  return it == producer_at_.end() ? nullptr : &nodes[it->second];
}

const OnnxValueInfo* OnnxGraph::info(std::string_view wanted) const {
  const auto it = info_at_.find(wanted);
  if (it == info_at_.end()) return nullptr;
  size_t i = it->second;
  if (i < inputs.size()) return &inputs[i];
  i -= inputs.size();
  return i < outputs.size() ? &outputs[i] : &infos[i - outputs.size()];
}

std::vector<const OnnxNode*> OnnxGraph::consumers(std::string_view wanted) const {
  std::vector<const OnnxNode*> out;
  if (const auto it = consumers_at_.find(wanted); it != consumers_at_.end())
    for (const uint32_t i : it->second) out.push_back(&nodes[i]);
  return out;
}

std::vector<const OnnxValueInfo*> OnnxGraph::open_inputs() const {
  std::vector<const OnnxValueInfo*> out;
  for (const OnnxValueInfo& input : inputs)
    if (!initializer(input.name)) out.push_back(&input);
  return out;
}

void for_each_capture(const OnnxNode& node, const std::function<void(std::string_view)>& visit) {
  for (const OnnxAttribute& a : node.attributes)
    for (const auto& graph : a.graphs) {
      std::unordered_set<std::string_view> own;
      for (const OnnxValueInfo& input : graph->inputs) own.insert(input.name);
      for (const OnnxTensor& tensor : graph->initializers) own.insert(tensor.name());
      for (const OnnxNode& inner : graph->nodes) own.insert(inner.outputs.begin(), inner.outputs.end());
      const auto use = [&](std::string_view name) {
        if (!name.empty() && !own.contains(name)) visit(name);
      };
      for (const OnnxNode& inner : graph->nodes) {
        for (const std::string_view name : inner.inputs) use(name);
        for_each_capture(inner, use);
      }
      for (const OnnxValueInfo& output : graph->outputs) use(output.name);
    }
}

void OnnxGraph::build_index() {
  initializer_at_.clear();
  producer_at_.clear();
  info_at_.clear();
  consumers_at_.clear();
  for (size_t i = 0; i < initializers.size(); ++i)
    initializer_at_.emplace(initializers[i].name(), static_cast<uint32_t>(i));
  uint32_t place = 0;
  for (const auto* list : {&inputs, &outputs, &infos})
    for (const OnnxValueInfo& info : *list) info_at_.emplace(info.name, place++);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto at = static_cast<uint32_t>(i);
    for (const std::string_view out : nodes[i].outputs)
      if (!out.empty()) producer_at_.emplace(out, at);
    const auto use = [&](std::string_view used) {
      auto& list = consumers_at_[used];
      if (list.empty() || list.back() != at) list.push_back(at);
    };
    for (const std::string_view in : nodes[i].inputs)
      if (!in.empty()) use(in);
    for_each_capture(nodes[i], use);
  }
}

const std::string& OnnxModel::path() const { return file_->path(); }

}  // namespace anemone
