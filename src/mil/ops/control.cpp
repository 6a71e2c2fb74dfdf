// cond and while_loop. Their blocks are run by the engine; here are their parameters and types.
#include "base/error.h"
#include "mil/op.h"

namespace anemone::ops {
namespace {

Dim merged(Dim a, Dim b) { return a == b ? a : Dim::unknown(); }

// The type of a value that comes from either of two places: dimensions that differ become unknown.
Type merged(const Type& a, const Type& b, const char* where) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.rank() != b.rank() || a.items.size() != b.items.size())
    throw errorf("{} do not agree", where).found(a.text() + " and " + b.text());
  Type out = a;
  out.extra.clear();
  for (size_t i = 0; i < a.shape.size(); ++i) out.shape[i] = merged(a.shape[i], b.shape[i]);
  out.length = merged(a.length, b.length);
  for (size_t i = 0; i < a.items.size(); ++i) out.items[i] = merged(a.items[i], b.items[i], where);
  return out;
}

const Block& block(const OpCall& c, size_t index) {
  const auto& blocks = c.operation().blocks;
  if (blocks.size() != 2)
    throw errorf("the operation needs two blocks").found(fmt::format("{}", blocks.size()));
  return *blocks[index];
}

Types infer_cond(const OpCall& c) {
  const Type& pred = c.type("pred");
  if (pred.fixed() && pred.size() != 1) throw errorf("'pred' must be one truth value").found(pred.text());
  const auto &yes = block(c, 0).outputs, &no = block(c, 1).outputs;
  if (yes.size() != no.size())
    throw errorf("the two blocks must have the same number of outputs")
        .found(fmt::format("{} and {}", yes.size(), no.size()));
  Types out;
  for (size_t i = 0; i < yes.size(); ++i)
    out.push_back(merged(yes[i]->type, no[i]->type, "the outputs of the two blocks"));
  return out;
}

Types infer_while(const OpCall& c) {
  const auto& condition = block(c, 0).outputs;
  if (condition.size() != 1 || !condition[0]->type.is_tensor() || condition[0]->type.dtype != DType::boolean)
    throw errorf("the first block must give one truth value");
  const auto count = static_cast<size_t>(c.count("loop_vars"));
  const Block& body = block(c, 1);
  if (body.outputs.size() != count || body.inputs.size() != count || block(c, 0).inputs.size() != count)
    throw errorf("the blocks must have as many inputs and outputs as there are loop variables")
        .found(fmt::format("{} taken, {} given", body.inputs.size(), body.outputs.size()))
        .expected(fmt::format("{}", count));
  Types out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(merged(c.type("loop_vars", static_cast<int>(i)), body.outputs[i]->type,
                         "a loop variable and what the body makes of it"));
  return out;
}

const Op kOps[] = {
    {"cond",
     {{Opset::ios15, {{"pred", kBool}}}},
     "the outputs of the first block where `pred` is true, else of the second",
     infer_cond},
    {"while_loop",
     {{Opset::ios15, {{"loop_vars", kAnyDType, 0, kMany | kAnyKind}}}},
     "repeats the second block on the loop variables while the first one gives true",
     infer_while},
};

}  // namespace

std::span<const Op> ops_control() { return kOps; }

}  // namespace anemone::ops
