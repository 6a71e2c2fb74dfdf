// O: operators.
#include <algorithm>

#include "base/error.h"
#include "check/rule.h"
#include "placement/product.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

template <class Test>
void each(const FunctionSubject& s, Test test) {
  for (const auto& op : s.placed.ops) test(op);
}

void topk(const FunctionSubject& s, Findings& out) {
  each(s, [&](const placement::PlacedOp& op) {
    if (op.op->type == "topk") out.add(Level::error, *op.op, "topk inside the package");
  });
}

// Fewer than about 2 million elements a tensor: the fused form is not chosen.
void fused_attention(const FunctionSubject& s, Findings& out) {
  each(s, [&](const placement::PlacedOp& op) {
    if (op.op->type != "scaled_dot_product_attention") return;
    const OpView view(*op.op);
    const Tensor* key = view.find("key");
    out.add(Level::warning, *op.op,
            fmt::format("{:.3g} elements a key; estimated {:.4f} ms on the ANE, {:.4f} on the CPU",
                        key ? key->count : 0, op.cost[placement::Processor::ane].ms, op.cost.cpu_ms()));
  });
}

void computed_weights(const FunctionSubject& s, Findings& out) {
  each(s, [&](const placement::PlacedOp& op) {
    if (placement::is_convolution(*op.op) && computed_operand(*op.op, "weight"))
      out.add(Level::warning, *op.op, "the weight is computed");
  });
}

void many_inputs(const FunctionSubject& s, Findings& out) {
  int count = 0;
  size_t most = 0;
  each(s, [&](const placement::PlacedOp& op) {
    const bool joins = op.op->type == "concat" || op.op->type == "stack";
    const Input* values = joins ? op.op->input("values") : nullptr;
    if (!values || values->bindings.size() < 3 || !op.cost[placement::Processor::ane].supported) return;
    ++count;
    most = std::max(most, values->bindings.size());
  });
  if (count > 0)
    out.add(Level::hint,
            fmt::format("{} concats and stacks of more than two values, {} at most", count, most));
}

bool is_nonlinear(const std::string& type) {
  for (const char* name : {"relu", "sigmoid", "tanh", "silu", "gelu", "exp", "erf", "sqrt", "rsqrt", "log"})
    if (type == name) return true;
  return false;
}

void fused_square(const FunctionSubject& s, Findings& out) {
  each(s, [&](const placement::PlacedOp& op) {
    if (op.op->type != "square" || op.op->outputs.empty() || op.op->outputs[0]->type.shape.empty()) return;
    const Operation* next = s.index.only_user(*op.op);
    const Dim width = op.op->outputs[0]->type.shape.back();
    if (next && is_nonlinear(next->type) && width.known() && width.size() % 128 > 64)
      out.add(Level::warning, *op.op, fmt::format("square and {} at width {}", next->type, width.size()));
  });
}

bool to_int8(const Operation& op) {
  return op.type == "cast" && !op.outputs.empty() &&
         (op.outputs[0]->type.dtype == DType::int8 || op.outputs[0]->type.dtype == DType::uint8);
}

void quantised_activations(const FunctionSubject& s, Findings& out) {
  const bool phone = s.package.bundle.target.phone();
  each(s, [&](const placement::PlacedOp& op) {
    // What is dequantised from a constant is a weight.
    const bool back = op.op->type == "dequantize" && computed_operand(*op.op, "input");
    if (to_int8(*op.op) || op.op->type == "quantize" || back)
      out.add(phone ? Level::error : Level::hint, *op.op,
              phone ? "activations are quantised, and this is for an iPhone"
                    : "activations are quantised: not for iPhones");
  });
}

void quantised_products(const FunctionSubject& s, Findings& out) {
  each(s, [&](const placement::PlacedOp& op) {
    if (op.op->type != "mul") return;
    const Value *x = computed_operand(*op.op, "x"), *y = computed_operand(*op.op, "y");
    const auto dequantised = [](const Value* v) {
      return v && v->producer && v->producer->type == "dequantize";
    };
    if (dequantised(x) && dequantised(y))
      out.add(Level::warning, *op.op, "both factors come out of dequantize");
  });
}

constexpr Rule kRules[] = {
    {.id = "O01",
     .grade = Grade::A,
     .level = Level::error,
     .title = "asin, acos, tan, sinh, cosh, atanh, mod, reduce_prod and cumsum never run on the engine",
     .why = "\"Unsupported MIL operation\".",
     .cost = "two switches; a small shard runs completely on the CPU",
     .fix = "Rewrite: cumsum as a product with a triangular matrix, prod as exp of a sum of logs.",
     .sources = "M6 5.2; AF",
     .by_placement = true},
    {.id = "O02",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Recurrent layers, band_part, one_hot, non_zero, range_1d, random_*, sliding_windows, "
              "crop_resize and while_loop never run on the engine",
     .why = "\"Unsupported MIL operation\".",
     .cost = "two switches; a small shard runs completely on the CPU",
     .fix = "Unroll, compute it at build time, or on the host.",
     .sources = "M6 5.2; ct#2208",
     .by_placement = true},
    {.id = "O03",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No gather with indices known only at run time, no scatter",
     .why = "\"Unsupported gather index type\": it runs on the CPU, with the preparation of its indices. "
            "Constant indices are fine; gather_nd and gather_along_axis accept int16 indices, not int32.",
     .cost = "two switches and about five small CPU operations",
     .fix = "Embedding on the host (a mapped table, H08); RoPE tables as inputs (H05); the cache by "
            "slice_update or mask.",
     .sources = "M6 5.2; AF; AP",
     .by_placement = true},
    {.id = "O04",
     .grade = Grade::A,
     .level = Level::error,
     .title = "A slice must begin at a constant",
     .why = "Core ML refuses a begin that is known only at run time (\"invalid live-in\"). slice_update on a "
            "state is the exception.",
     .cost = "two switches",
     .fix = "Pass a one-hot mask or the slice itself as an input; slice_update on a state.",
     .sources = "M6 5.2",
     .by_placement = true},
    {.id = "O05",
     .grade = Grade::A,
     .level = Level::warning,
     .title = "No argmax or argsort inside",
     .why = "\"Output type int32 is not supported.\": a tail of about eight small operations on the CPU.",
     .cost = "0.5 to 2 ms per token",
     .fix = "Return logits and take the best on the host, or return the largest value of each slice "
            "(--argmax-output does it in fp16).",
     .sources = "M6; JR EXPERIMENTS",
     .by_placement = true},
    {.id = "O06",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No topk inside",
     .why = "The compiler rejects topk alone. In context the segmenter keeps it, but it is about 200 times "
            "slower than estimated. Other builds put it on the CPU. k of 3 and 4 fail on M5.",
     .cost = "6 to 10 ms",
     .fix = "Choose on the host.",
     .sources = "M6 5.2; AB j079; AF",
     .in_function = topk},
    {.id = "O07",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Convolution kernels may be up to 15 wide and 31 high, or 16 by 16",
     .why = "\"conv with large kernel does not meet decomposition preconditions\" (17 by 17, 1 by 16, 32 by "
            "1). A kernel of one dimension is a row, 1 by K; of three dimensions the depth counts as a "
            "height. Transposed convolutions are judged alike.",
     .cost = "two switches, and the convolution at CPU speed",
     .fix = "Decompose it; up to 8 wide is best.",
     .sources = "M6 5.2; AF",
     .targets = "M1: 13 wide",
     .by_placement = true},
    {.id = "O08",
     .grade = Grade::B,
     .level = Level::error,
     .title = "max_pool kernels may be up to 8 wide (or 32)",
     .why = "\"Invalid Pool kernel width\"; avg_pool takes 14.",
     .cost = "two switches",
     .fix = "Pool in steps.",
     .sources = "M6 arch data",
     .by_placement = true},
    {.id = "O09",
     .grade = Grade::A,
     .level = Level::warning,
     .title = "Attention should be matmul, softmax, matmul, not scaled_dot_product_attention",
     .why = "The engine accepts the fused form, but Core ML chooses it only when it is large (about 2 "
            "million elements per tensor). Where it fell back, it crashed BNNS on iOS and gave wrong tokens.",
     .cost = "CPU, or a crash",
     .fix = "Emit matmul, softmax, matmul.",
     .sources = "vx-lang/Vx#437; FluidInference/FluidAudio#272; AF; JR",
     .in_function = fused_attention},
    {.id = "O10",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "Convolution weights should be constants",
     .why = "A computed weight was ignored (private API, M3), or worked only at batch 1. Core ML's segmenter "
            "accepts it.",
     .cost = "wrong numbers",
     .fix = "Constant weights, or a matmul.",
     .sources = "SK; AF",
     .in_function = computed_weights},
    {.id = "O11",
     .grade = Grade::C,
     .level = Level::hint,
     .title = "concat should take two values at a time",
     .why = "More inputs mean more passes.",
     .cost = "not measured",
     .fix = "Chain concats of two values where speed matters.",
     .sources = "M6 15.2; AF",
     .in_function = many_inputs},
    {.id = "O12",
     .grade = Grade::C,
     .level = Level::warning,
     .title = "square before a nonlinearity should be mul(x, x)",
     .why = "The fused pair fails to compile when the width modulo 128 is above 64.",
     .cost = "compile failure",
     .fix = "Emit mul(x, x).",
     .sources = "AF",
     .in_function = fused_square},
    {.id = "O13",
     .grade = Grade::B,
     .level = Level::error,
     .title = "No activation quantisation for iPhones",
     .why = "Macs accept cast to int8, quantize and dequantize. On iPhones ANECCompile fails (iOS 26).",
     .cost = "the package does not load",
     .fix = "Quantise weights only.",
     .sources = "JR EXPERIMENTS",
     .targets = "iPhone, iPad",
     .in_function = quantised_activations},
    {.id = "O14",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "No products of two quantised activations",
     .why = "A multiply between quantize-dequantize pairs can use the scale of another pair.",
     .cost = "up to 339% error, silently",
     .fix = "Clamp between them, or keep one factor in fp16.",
     .sources = "CAD",
     .in_function = quantised_products},
    {.id = "O15",
     .grade = Grade::B,
     .level = Level::error,
     .title = "sin and cos run on the engine from A15 and M2 on",
     .why = "The engines of A14 and M1 have neither.",
     .cost = "two switches; a small shard goes to the CPU whole",
     .fix = "Compute them on the host and pass them as inputs (H05).",
     .sources = "AF; M6 5.2",
     .targets = "A14, M1",
     .by_placement = true},
};

}  // namespace

std::span<const Rule> op_rules() { return kRules; }

}  // namespace anemone
