#include "families/recover/graph.h"

#include "base/error.h"
#include "checkpoint/byte_reader.h"

namespace anemone::recover {
namespace {

constexpr int64_t kMostOps = 2'000'000;

bool is_float_type(int64_t code) { return onnx_type_info(onnx_type_from_code(code)).floating; }

std::string type_of(const OnnxNode& node) {
  if (node.domain.empty()) return std::string(node.op);
  // An operator of onnxruntime that its exporters put into either domain.
  if (node.op == "SimplifiedLayerNormalization") return std::string(node.op);
  if (node.domain == "com.microsoft") return "ms." + std::string(node.op);
  return std::string(node.domain) + "." + std::string(node.op);
}

}  // namespace

Graph::Graph(const OnnxBundle& bundle) : bundle_(bundle) {
  add_graph(bundle.model.graph());
  producer_.assign(names_.size(), -1);
  for (size_t i = 0; i < ops_.size(); ++i)
    for (const ValueId out : ops_[i].outputs)
      if (out != kNone) producer_[static_cast<size_t>(out)] = static_cast<int32_t>(i);
  constants_.resize(names_.size(), nullptr);
  claimed_.assign(ops_.size(), false);
}

ValueId Graph::value(std::string_view name) {
  if (name.empty()) return kNone;
  if (const auto at = by_name_.find(name); at != by_name_.end()) return at->second;
  names_.emplace_back(name);
  const auto id = static_cast<ValueId>(names_.size() - 1);
  by_name_.emplace(names_.back(), id);
  return id;
}

ValueId Graph::fresh(std::string_view stem) {
  names_.push_back(fmt::format("{} (inside)", stem));
  return static_cast<ValueId>(names_.size() - 1);
}

void Graph::add_graph(const OnnxGraph& graph) {
  for (const OnnxTensor& t : graph.initializers) {
    const ValueId id = value(t.name());
    constants_.resize(names_.size(), nullptr);
    constants_[static_cast<size_t>(id)] = &t;
  }
  for (const OnnxValueInfo& input : graph.inputs) value(input.name);
  for (const OnnxNode& node : graph.nodes) add_node(node);
}

void Graph::add(std::string type, const OnnxNode& node, std::vector<ValueId> inputs,
                std::vector<ValueId> outputs) {
  if (static_cast<int64_t>(ops_.size()) >= kMostOps)
    throw Error("the graph has too many nodes")
        .at(model().path())
        .expected(fmt::format("at most {}", kMostOps));
  ops_.push_back({std::move(type), &node, std::move(inputs), std::move(outputs), {}});
}

// SkipSimplifiedLayerNormalization: input, skip, gamma, bias; SkipLayerNormalization: input, skip, gamma, beta, bias.
// Output 0 is the norm, output 3 the sum.
void Graph::add_skip_norm(const OnnxNode& node) {
  const bool simple = node.op == "SkipSimplifiedLayerNormalization";
  const ValueId bias = value(node.input(simple ? 3 : 4));
  ValueId sum = value(node.output(3));
  if (sum == kNone) sum = fresh(node.name);
  const ValueId stream = value(node.input(0)), branch = value(node.input(1));
  if (bias != kNone) {
    // It belongs to the projection before the sum, which onnxruntime's optimizer puts at either input.
    add("ms.SkipBias", node, {stream, branch, bias}, {sum});
  } else {
    add("Add", node, {stream, branch}, {sum});
  }
  std::vector<ValueId> in = {sum, value(node.input(2))};
  if (!simple && !node.input(3).empty()) in.push_back(value(node.input(3)));
  add(simple ? "SimplifiedLayerNormalization" : "LayerNormalization", node, std::move(in),
      {value(node.output(0))});
}

// input_ids, segment_ids, words, positions, segments, gamma, beta, mask, position_ids → norm, mask index, sum.
void Graph::add_embed_norm(const OnnxNode& node) {
  if (!node.input(1).empty() || !node.input(4).empty())
    return add("ms.EmbedLayerNormalization", node, {}, {value(node.output(0)), value(node.output(2))});
  const ValueId words = fresh(node.name), positions = fresh(node.name);
  const ValueId sum = node.output(2).empty() ? fresh(node.name) : value(node.output(2));
  add("Gather", node, {value(node.input(2)), value(node.input(0))}, {words});
  add("Gather", node, {value(node.input(3)), value(node.input(8))}, {positions});
  add("Add", node, {words, positions}, {sum});
  add("LayerNormalization", node, {sum, value(node.input(5)), value(node.input(6))}, {value(node.output(0))});
}

void Graph::add_node(const OnnxNode& node) {
  const std::string type = type_of(node);
  if (type == "ms.SkipSimplifiedLayerNormalization" || type == "ms.SkipLayerNormalization")
    return add_skip_norm(node);
  if (type == "ms.EmbedLayerNormalization") return add_embed_norm(node);
  std::vector<ValueId> in, out;
  for (const std::string_view name : node.inputs) in.push_back(value(name));
  for (const std::string_view name : node.outputs) out.push_back(value(name));
  if ((type == "ms.FastGelu" || type == "ms.BiasGelu") && in.size() > 1 && in[1] != kNone) {
    const ValueId biased = fresh(node.name);
    add("Add", node, {in[0], in[1]}, {biased});
    return add(type, node, {biased}, std::move(out));
  }
  if (type == "Constant" && !out.empty()) {
    if (const OnnxTensor* t = node.tensor("value")) {
      constants_.resize(names_.size(), nullptr);
      constants_[static_cast<size_t>(out[0])] = t;
      return;
    }
  }
  add(type, node, std::move(in), std::move(out));
  if (type != "If") return;
  const size_t at = ops_.size() - 1;
  for (const char* branch : {"then_branch", "else_branch"}) {
    const OnnxGraph* inner = node.graph(branch);
    if (!inner)
      throw errorf("If has no '{}'", branch).at(fmt::format("{}: {}", model().path(), node.place()));
    add_graph(*inner);
    std::vector<ValueId> results;
    for (const OnnxValueInfo& result : inner->outputs) results.push_back(value(result.name));
    ops_[at].branches.push_back(std::move(results));
  }
}

ValueId Graph::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? kNone : at->second;
}

const Op* Graph::producer(ValueId value) const {
  if (value == kNone) return nullptr;
  const int32_t at = producer_[static_cast<size_t>(value)];
  return at < 0 ? nullptr : &ops_[static_cast<size_t>(at)];
}

bool Graph::made_by(ValueId value, std::string_view type) const {
  const Op* op = producer(value);
  return op && op->type == type;
}

const OnnxTensor* Graph::constant(ValueId value) const {
  return value == kNone ? nullptr : constants_[static_cast<size_t>(value)];
}

ValueId Graph::through(ValueId value) {
  for (const Op* op = producer(value); op; op = producer(value)) {
    const bool cast = op->type == "Cast" && is_float_type(op->node->integer("to", 0));
    const bool nothing = op->type == "Identity" || (op->type == "Dropout" && op->output(0) == value);
    if (op->type == "DequantizeLinear") {
      const Op* before = producer(op->input(0));
      if (!before || before->type != "QuantizeLinear") break;
      claim(*before);
      claim(*op);
      value = before->input(0);
      continue;
    }
    if (!cast && !nothing) break;
    claim(*op);
    value = op->input(0);
  }
  return value;
}

std::optional<double> Graph::scalar(ValueId value) {
  value = through(value);
  const OnnxTensor* t = constant(value);
  if (t && t->elements() == 1 && onnx_type_decodes(t->type())) {
    double number = 0;
    t->read(0, 1, std::span<double>(&number, 1));
    return number;
  }
  const Op* op = producer(value);
  if (!op || op->type != "Constant") return std::nullopt;
  if (op->node->attribute("value_float")) return op->node->number("value_float", 0);
  if (op->node->attribute("value_int")) return static_cast<double>(op->node->integer("value_int", 0));
  return std::nullopt;
}

std::optional<OnnxMatrix> Graph::weight(ValueId value) {
  if (value == kNone) return std::nullopt;
  std::optional<OnnxMatrix> found = bundle_.weights.constant(name(value));
  if (found) claim_behind(value);
  return found;
}

std::optional<OnnxMatrix> Graph::stack(const Op& op, size_t input) {
  const std::string* codes = bundle_.weights.stack(*op.node, input);
  if (!codes) return weight(op.input(input));
  claim_behind(op.input(input));
  return OnnxMatrix{*codes, false};
}

// What stands between a constant and its user.
void Graph::claim_behind(ValueId value) {
  for (const Op* op = producer(value); op; op = producer(op->input(0))) claim(*op);
}

std::string Graph::place(const Op& op) const {
  return op.node->name.empty() && op.output() != kNone
             ? fmt::format("node {} that gives '{}'", op.node->op, printable(name(op.output())))
             : op.node->place();
}

Error Graph::unexpected(const Op& op, std::string_view expected) const {
  std::string inputs;
  for (const ValueId in : op.inputs)
    if (in != kNone) inputs += (inputs.empty() ? "'" : ", '") + printable(name(in)) + "'";
  return Error("a node of the graph has no place in a decoder")
      .at(fmt::format("{}: {}", model().path(), place(op)))
      .found(inputs.empty() ? fmt::format("{} without inputs", op.type)
                            : fmt::format("{} of {}", op.type, inputs))
      .expected(std::string(expected))
      .hint("-o NAME.mlpackage converts a network op by op, whatever it is");
}

Error Graph::unexpected(ValueId value, std::string_view expected) const {
  if (const Op* op = producer(value)) return unexpected(*op, expected);
  return Error("a value of the graph has no place in a decoder")
      .at(model().path())
      .found(value == kNone ? "an input that is left out"
                            : fmt::format("{} '{}'", constant(value) ? "the constant" : "the input",
                                          printable(name(value))))
      .expected(std::string(expected))
      .hint("-o NAME.mlpackage converts a network op by op, whatever it is");
}

}  // namespace anemone::recover
