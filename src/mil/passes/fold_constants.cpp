#include "mil/passes/fold_constants.h"

#include <algorithm>

#include "mil/fold.h"
#include "mil/op_call.h"
#include "mil/rules.h"

namespace anemone {
namespace {

bool foldable_type(const Type& type, const FoldLimits& limits) {
  return type.is_tensor() && type.fixed() && (type.dtype == DType::string || type.size() <= limits.most);
}

// Whether all operands are constants of a size that we read; or the result follows from the type alone.
bool known_operands(const OpBinding& binding, const FoldLimits& limits) {
  for (const Operand& operand : binding.operands) {
    if (!foldable_type(operand.type, limits)) return false;
    if (!operand.constant && !binding.op->value_from_type) return false;
  }
  return true;
}

void become_constant(Operation& op, Constant constant) {
  op.type = "const";
  op.inputs.clear();
  const std::string name = op.outputs[0]->name;
  op.attributes.clear();
  op.attributes.emplace("name", Constant::text(name));
  op.outputs[0]->type = constant.type;
  op.attributes.emplace("val", std::move(constant));
}

}  // namespace

bool fold_operation(Block& block, size_t index, Opset opset, const FoldLimits& limits) {
  Operation& op = *block.ops[index];
  if (op.type == "const" || op.type.starts_with("constexpr_") || !op.blocks.empty() || op.outputs.empty())
    return false;
  OpBinding binding = OpBinding::bind(op, opset);
  if (!known_operands(binding, limits)) return false;
  std::vector<const void*> data(binding.operands.size(), nullptr);
  std::vector<std::vector<uint32_t>> decoded(binding.operands.size());
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (size_t i = 0; i < data.size(); ++i) {
    Operand& operand = binding.operands[i];
    if (!operand.constant || operand.type.dtype == DType::string) continue;
    stored.push_back(stored_constant(*operand.constant));
    decoded[i].resize(static_cast<size_t>(operand.type.size()) + 1);
    stored.back()->read(0, operand.type.size(), decoded[i].data());
    data[i] = decoded[i].data();
  }
  auto results = fold_call(binding, data, infer_types(binding, data), limits.most);
  if (!results || results->size() != op.outputs.size()) return false;
  const auto constant = [&](size_t i) {
    return constant_of_elements((*results)[i].type, (*results)[i].data.data());
  };
  for (size_t i = 1; i < results->size(); ++i) {
    auto more = std::make_unique<Operation>();
    more->outputs.push_back(std::move(op.outputs[i]));
    more->outputs[0]->producer = more.get();
    become_constant(*more, constant(i));
    block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(index + i), std::move(more));
  }
  op.outputs.resize(1);
  become_constant(op, constant(0));
  return true;
}

}  // namespace anemone
