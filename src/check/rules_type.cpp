// D: data types and numerics. D03 and D07 look at a golden run where there is one (numerics.h).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "check/numerics.h"
#include "check/rule.h"
#include "placement/product.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

constexpr int64_t kMostMask = int64_t{1} << 24;  // elements of a constant that is looked through
constexpr float kLowest = -6e4f;                 // of the range of fp16, -65504 is the end

// A cast to or from fp32 is fine where the model's edge is fp32, and breaks the graph elsewhere.
void fp32(const FunctionSubject& s, Findings& out) {
  int edges = 0;
  for (const auto& op : s.placed.ops) {
    if (op.op->type != "cast" || op.op->outputs.empty()) continue;
    const OpView view(*op.op);
    const Tensor* x = view.find("x");
    const DType from = x ? x->dtype : DType::none, to = op.op->outputs[0]->type.dtype;
    if (from != DType::fp32 && to != DType::fp32) continue;
    const Value* source = op.op->value("x");
    const bool at_edge = (from == DType::fp32 && source && !source->producer) ||
                         (to == DType::fp32 && s.index.is_output(op.op->outputs[0].get()));
    if (at_edge)
      ++edges;
    else
      out.add(Level::error, *op.op,
              fmt::format("casts {} to {} inside the graph", dtype_name(from), dtype_name(to)));
  }
  if (edges > 0)
    out.add(Level::hint,
            fmt::format("{} casts at the model's edge: inputs and outputs could be fp16", edges));
}

// The constants of these are never added to anything: weights, bounds, and what values are compared with.
bool masks_nothing(const Operation& op) {
  for (const char* type : {"linear", "clip", "maximum", "minimum", "clamped_relu", "threshold", "equal",
                           "not_equal", "greater", "greater_equal", "less", "less_equal"})
    if (op.type == type) return true;
  return placement::is_convolution(op);
}

void infinite_masks(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    if (masks_nothing(*op.op)) continue;
    for (const Input& input : op.op->inputs)
      for (const Binding& binding : input.bindings) {
        const Constant* constant = binding.constant();
        if (!constant || !constant->type.is_float()) continue;
        const float sign = op.op->type == "sub" && input.name == "y" ? -1.0f : 1.0f;  // what is taken away
        for (const float x : constant_values(constant, kMostMask)) {
          if (!(sign * x < kLowest)) continue;
          out.add(Level::error, *op.op,
                  fmt::format("'{}' holds {}", input.name,
                              std::isinf(x) ? (x < 0 ? "-inf" : "inf") : fmt::format("{:g}", x)));
          break;
        }
      }
  }
}

void softplus(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops)
    if (op.op->type == "softplus" || op.op->type == "softplus_parametric")
      out.add(Level::warning, *op.op, "gives 0 for inputs above about 10.4");
}

void silu(const FunctionSubject& s, Findings& out) {
  int count = 0;
  for (const auto& op : s.placed.ops) count += op.op->type == "silu";
  if (count > 0)
    out.add(Level::hint, fmt::format("{} silu operations; Core ML keeps them, Core AI may not", count));
}

// No function takes many tokens: a prompt goes through one by one.
void one_by_one(const BundleSubject& s, Findings& out) {
  if (!s.info) return;
  int64_t most = 0;
  for (const Stage& stage : s.info->stages)
    for (const StageFunction& f : stage.functions) most = std::max(most, f.most_tokens);
  if (most < 16)
    out.add(Level::hint, fmt::format("prompts go through {} token{} at a time", most, most == 1 ? "" : "s"));
}

// softmax(scale · (q · k)) instead of softmax((scale · q) · k).
void late_scale(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    if (op.op->type != "matmul" && op.op->type != "einsum") continue;
    const OpView view(*op.op);
    if (placement::projection_of(view)) continue;
    const Operation* next = s.index.only_user(*op.op);
    if (!next || (next->type != "mul" && next->type != "real_div")) continue;
    const auto factor = scalar_constant(*next, next->value("x") == op.op->outputs[0].get() ? "y" : "x");
    const std::vector<int64_t> inner = placement::inner_sizes(view);
    if (factor && !inner.empty() && inner[0] >= 96 && std::abs(*factor) != 1)
      out.add(Level::warning, *op.op,
              fmt::format("the product over {} values is scaled only afterwards", inner[0]));
  }
}

constexpr Rule kRules[] = {
    {.id = "D01",
     .grade = Grade::A,
     .level = Level::error,
     .title = "The graph must compute in fp16",
     .why = "An fp32 operation or constant falls back to the CPU; Core ML may insert a cast.",
     .cost = "the segment is split: two switches",
     .fix = "Make every constant fp16, and the inputs and outputs as well.",
     .sources = "AP; AF; M6 5.2",
     .in_function = fp32,
     .by_placement = true},
    {.id = "D02",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No int32 tensors inside",
     .why = "add, mul, matmul, casts from and to int32, results of argmax and argsort: \"Unsupported tensor "
            "data "
            "type: int32\".",
     .cost = "the segment is split: two switches; only one at the very start or end",
     .fix = "Keep token ids and positions on the host, or at the very start or end of the program.",
     .sources = "M6 5.2",
     .by_placement = true},
    {.id = "D03",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "Sums of products, bias included, must stay inside ±32768",
     .why = "The accumulator is fixed point with 15 integer bits. A running sum that reaches the limit "
            "becomes inf, and NaN some layers later.",
     .cost = "wrong numbers",
     .fix = "Scale activations before the projection and fold the factor into the next weight; scale the "
            "whole residual stream with --residual-scale.",
     .sources = "M6 8.2",
     .targets = "M4 and M6 measured; seen with --golden",
     .in_function = find_overflow},
    {.id = "D04",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Products below 2^-16 are dropped",
     .why = "The accumulator resolves 2^-16. Products whose exponents sum to -17 or less are lost.",
     .cost = "about 3e-5 per term: models with small activations drift",
     .fix = "Compare with an emulation of the engine, not with IEEE fp16.",
     .sources = "M6 8.2.2"},
    {.id = "D05",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Rounding is to nearest, ties away from zero; -0 becomes +0; NaN does not propagate",
     .why = "inf and NaN inputs are read as ordinary numbers.",
     .cost = "one unit in the last place",
     .fix = "Allow one fp16 ulp per operation; never use NaN as a signal.",
     .sources = "M6 8.2.4, 8.4"},
    {.id = "D06",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "int8 by int8 accumulates in int32",
     .why = "Overflow starts only at 2^31, so the range is larger than that of fp16.",
     .cost = "",
     .fix = "W8A8 for layers with large activations, on Macs (O13, O14).",
     .sources = "M6 8.3"},
    {.id = "D07",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "Activation functions are tables of 33 points",
     .why =
         "sigmoid on [-8, 8], tanh on [0, 4], erf on [0, 2], exp by 2^x, each interpolated; silu is worst.",
     .cost = "errors of 1e-3 to 1e-2",
     .fix = "Allow for it in parity checks.",
     .sources = "M6 8.5",
     .targets = "M4 and M6; seen with --golden",
     .in_function = find_table_errors},
    {.id = "D08",
     .grade = Grade::A,
     .level = Level::error,
     .title = "A mask should be -10000 to -40000, never -inf",
     .why = "-inf breaks softmax on the engine, and a sum beyond -65504 is -inf in fp16.",
     .cost = "NaN",
     .fix = "A constant of -1e4 … -4e4 in fp16.",
     .sources = "AP (-40000); JR (-1e4)",
     .in_function = infinite_masks},
    {.id = "D09",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "No softplus",
     .why = "It collapses to 0 above x = 10.4.",
     .cost = "wrong numbers",
     .fix = "max(x, 0) + log(1 + exp(-|x|)).",
     .sources = "ct#2687",
     .in_function = softplus},
    {.id = "D10",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "silu should be x · sigmoid(x)",
     .why = "Core AI may lower silu through an fp32 cast; Core ML's own segmenter keeps it on the engine.",
     .cost = "three operations leave the engine",
     .fix = "Emit x · sigmoid(x).",
     .sources = "AP",
     .targets = "Core AI",
     .in_function = silu},
    {.id = "D11",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Prompts should be processed in chunks",
     .why = "With an fp16 cache, results drift after about 50 tokens if prefill takes one token at a time.",
     .cost = "accuracy; and time (H11)",
     .fix = "A second function of 64 tokens: --tokens 1,64.",
     .sources = "AP",
     .in_bundle = one_by_one},
    {.id = "D12",
     .grade = Grade::C,
     .level = Level::warning,
     .title = "The query should be scaled before the product with the keys",
     .why = "Scores can overflow in fp16 when head_dim grows (dh 128: NaN from the third step).",
     .cost = "NaN",
     .fix = "Scale Q first; use a safe RMSNorm (H03).",
     .sources = "AB scaling note",
     .in_function = late_scale},
};

}  // namespace

std::span<const Rule> type_rules() { return kRules; }

}  // namespace anemone
