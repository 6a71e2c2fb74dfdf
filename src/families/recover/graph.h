// Graph: an ONNX graph made ready for matching: values are numbers, fused operators that mix two blocks (a residual
// sum with a norm, a bias with an activation) are split, branches of If lie beside the rest.
//     Graph g(bundle);
//     const Op* add = g.producer(g.find("logits"));
//     if (add && add->type == "Add") …
// Matchers claim the operators that they explain. What nobody claimed in the end has no place in the model.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "anemone/error.h"
#include "checkpoint/onnx_bundle.h"

namespace anemone::recover {

using ValueId = int32_t;
inline constexpr ValueId kNone = -1;

struct Op {
  std::string type;      // "Add"; those of com.microsoft are "ms.MatMulNBits"
  const OnnxNode* node;  // of the file: attributes, messages
  std::vector<ValueId> inputs, outputs;
  std::vector<std::vector<ValueId>> branches;  // of If: what then and else give

  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  ValueId output(size_t i = 0) const { return i < outputs.size() ? outputs[i] : kNone; }
};

class Graph {
 public:
  explicit Graph(const OnnxBundle& bundle);
  Graph(const Graph&) = delete;

  const OnnxBundle& bundle() const { return bundle_; }
  const OnnxModel& model() const { return bundle_.model; }
  const std::vector<Op>& ops() const { return ops_; }
  size_t values() const { return names_.size(); }
  ValueId find(std::string_view name) const;
  const std::string& name(ValueId value) const { return names_[static_cast<size_t>(value)]; }

  // The operator that makes a value; nullptr for inputs and constants.
  const Op* producer(ValueId value) const;
  bool made_by(ValueId value, std::string_view type) const;
  // A constant: an initializer or a Constant node. nullptr for others.
  const OnnxTensor* constant(ValueId value) const;
  // The value before operators that only change a type or nothing: Cast between floats, Identity, Dropout, and
  // QuantizeLinear with the DequantizeLinear behind it. Claims them.
  ValueId through(ValueId value);
  // The number in a constant of one element, also behind a Cast.
  std::optional<double> scalar(ValueId value);
  // A floating-point constant as a tensor of the checkpoint, also behind Transpose and Cast.
  std::optional<OnnxMatrix> weight(ValueId value);
  // The same for an input of an operator that may hold its weight in codes of its own.
  std::optional<OnnxMatrix> stack(const Op& op, size_t input);

  void claim(const Op& op) { claimed_[static_cast<size_t>(&op - ops_.data())] = true; }
  bool claimed(const Op& op) const { return claimed_[static_cast<size_t>(&op - ops_.data())]; }

  // "node 'x' (Add)"; what it reads; and what stands there instead.
  Error unexpected(ValueId value, std::string_view expected) const;
  Error unexpected(const Op& op, std::string_view expected) const;
  std::string place(const Op& op) const;  // "node '/model/layers.0/Add' (Add)"

 private:
  ValueId value(std::string_view name);
  void claim_behind(ValueId value);
  ValueId fresh(std::string_view stem);
  void add_graph(const OnnxGraph& graph);
  void add_node(const OnnxNode& node);
  void add_skip_norm(const OnnxNode& node);
  void add_embed_norm(const OnnxNode& node);
  void add(std::string type, const OnnxNode& node, std::vector<ValueId> inputs, std::vector<ValueId> outputs);

  const OnnxBundle& bundle_;
  std::vector<Op> ops_;
  std::vector<bool> claimed_;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, ValueId> by_name_;
  std::vector<int32_t> producer_;             // of each value; -1
  std::vector<const OnnxTensor*> constants_;  // of each value; nullptr
};

}  // namespace anemone::recover
