// Conversions between element types.
#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

bool is_truth(OnnxType type) { return type == OnnxType::boolean; }

void cast_to(OnnxCall& n, OnnxType to) {
  const OnnxType from = n.type(0);
  if (from == to) return n.out_operand(0, n.operand(0));
  Value* x = n.in(0);
  const DType dtype = mil_dtype(to);
  if (to == OnnxType::bfloat16) throw n.refused("a cast to BFLOAT16");
  if (is_truth(to)) {
    n.out(0, n.op("not_equal", {{"x", x}, {"y", n.one(x->type.dtype, 0)}}), to);
    return;
  }
  Value* y = n.cast(x, dtype);
  if (to == OnnxType::float16 && from != OnnxType::float16 && !is_truth(from))
    y = n.cast(n.cast(y, DType::fp16), DType::fp32);  // rounds
  const OnnxTypeInfo &before = onnx_type_info(from), &after = onnx_type_info(to);
  const bool fits =
      before.integer &&
      (before.bits < after.bits || (before.bits == after.bits && before.is_signed == after.is_signed)) &&
      (after.is_signed || !before.is_signed);
  if (after.integer && !fits && !is_truth(from)) y = n.wrap(y, to);
  if (y == x) return n.out_operand(0, OnnxOperand{x, to, nullptr});
  n.out(0, y, to);
}

void cast(OnnxCall& n) { cast_to(n, onnx_type_from_code(n.node.integer("to", 0))); }

void cast_like(OnnxCall& n) { cast_to(n, n.type(1)); }

const OnnxOp kOps[] = {{"Cast", cast}, {"CastLike", cast_like}};

}  // namespace

std::span<const OnnxOp> onnx_cast() { return kOps; }

}  // namespace anemone::onnx_ops
