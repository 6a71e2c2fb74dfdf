#include "onnx/lowering.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "mil/passes/fold_constants.h"

namespace anemone {
namespace {

// That the nodes become. Core ML compiles programs of some thousands.
constexpr int64_t kMostOperations = int64_t{1} << 18;

}  // namespace

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name) {
  const auto all = all_onnx_ops();
  const auto it =
      std::lower_bound(all.begin(), all.end(), std::pair(domain, name),
                       [](const OnnxOp* op, const auto& k) { return std::pair(op->domain, op->name) < k; });
  return it != all.end() && (*it)->domain == domain && (*it)->name == name ? *it : nullptr;
}

DType mil_dtype(OnnxType type) {
  switch (type) {
    case OnnxType::float32:
    case OnnxType::float16:
    case OnnxType::float64:
    case OnnxType::bfloat16: return DType::fp32;
    case OnnxType::boolean: return DType::boolean;
    default:
      if (onnx_type_info(type).integer) return DType::int32;
      throw errorf("Core ML has no values of type {}", onnx_type_info(type).name);
  }
}

void OnnxScope::drop_from(size_t index) {
  std::set<const Value*> gone;
  for (size_t k = index; k < block->ops.size(); ++k)
    for (const auto& output : block->ops[k]->outputs) gone.insert(output.get());
  OnnxScope& all = home();
  std::erase_if(all.constants, [&](const auto& entry) { return gone.contains(entry.second); });
  std::erase_if(all.transposed, [&](const auto& entry) {
    return gone.contains(entry.second) || gone.contains(entry.first.first);
  });
  block->ops.resize(index);
}

OnnxOperand OnnxLowering::find(OnnxScope& scope, std::string_view name) {
  for (OnnxScope* s = &scope; s; s = s->outer)
    if (const auto it = s->names.find(name); it != s->names.end()) return it->second;
  throw errorf("the value '{}' is not made by any supported node before this one", onnx_printable(name));
}

Value* OnnxLowering::value(OnnxScope& scope, OnnxOperand operand, std::string_view name) {
  if (operand.value) return operand.value;
  if (!operand.tensor) throw errorf("'{}' has no value", onnx_printable(name));
  for (OnnxScope* s = &scope; s; s = s->outer)
    if (const auto it = s->constants.find(operand.tensor); it != s->constants.end()) return it->second;
  Value* made = scope.builder->constant(onnx_constant(*operand.tensor), name);
  scope.home().constants.emplace(operand.tensor, made);
  return made;
}

// What is computed now takes memory and time, whatever the file says.
FoldLimits OnnxLowering::limits_for(std::string_view type) const {
  static const std::set<std::string_view> products = {"matmul", "linear", "conv", "conv_transpose",
                                                      "einsum", "lstm",   "gru",  "rnn"};
  FoldLimits limits;
  limits.most = std::max<int64_t>(0, std::min(limits.most, foldable_));
  if (products.contains(type)) limits.most = std::min<int64_t>(limits.most, 1 << 13);
  return limits;
}

std::vector<Value*> OnnxLowering::emit(OnnxScope& scope, std::string_view type, Args args,
                                       std::string_view name) {
  if (++written_ > kMostOperations)
    throw errorf("written out, the network has more than {} operations", kMostOperations)
        .hint("loops in loops that are written out become very long");
  misfit = true;
  std::vector<Value*> out = scope.builder->ops(type, args, name);
  misfit = false;
  if (fold_operation(*scope.block, scope.block->ops.size() - 1, function_.opset, limits_for(type)))
    for (const Value* value : out) foldable_ -= value->type.size();
  return out;
}

void OnnxLowering::lower_graph(const OnnxGraph& graph, OnnxScope& scope) {
  for (const OnnxTensor& tensor : graph.initializers)
    if (!scope.names.contains(tensor.name()))
      scope.names.emplace(tensor.name(), OnnxOperand{nullptr, tensor.type(), &tensor});
  for (const OnnxNode& node : graph.nodes) {
    try {
      const OnnxOp* op = find_onnx_op(node.domain, node.op);
      if (!op) throw errorf("the operator is not supported");
      OnnxCall call(*this, scope, node);
      op->lower(call);
    } catch (Error& e) {
      e.within(node.place());
      throw;
    } catch (const std::out_of_range&) {
      throw Error("an input or attribute of the node has too few entries").at(node.place());
    }
  }
}

}  // namespace anemone
