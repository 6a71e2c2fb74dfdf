// H: what the model's side can do.
#include <algorithm>

#include "base/error.h"
#include "check/rule.h"
#include "placement/product.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

constexpr double kOperandBytes = 2 << 20;
constexpr int64_t kHeadRows = 16384;

void linears(const FunctionSubject& s, Findings& out) {
  int count = 0;
  double ms = 0;
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op) || placement::is_convolution(*op.op)) continue;
    if (!placement::projection_of(OpView(*op.op))) continue;
    ++count;
    ms += op.cost[placement::Processor::ane].ms;
  }
  if (count > 0)
    out.add(Level::hint,
            fmt::format(
                "{} products with constant weights, {:.3f} ms by Core ML's count; it thinks better of 1x1 "
                "convolutions",
                count, ms));
}

void large_operands(const FunctionSubject& s, Findings& out) {
  int count = 0;
  double most = 0;
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op) || placement::is_convolution(*op.op) || op.op->type == "linear")
      continue;
    const OpView view(*op.op);
    for (const Tensor& t : view.operands()) {
      if (t.constant || t.bytes() <= kOperandBytes) continue;
      ++count;
      most = std::max(most, t.bytes());
    }
  }
  if (count > 0)
    out.add(Level::hint,
            fmt::format("{} operands of products are above 2 MiB, {:.1f} MB at most", count, most / 1e6));
}

// square(x), mul(x, x) or pow(x, 2).
bool is_square(const Operation& op) {
  if (op.type == "mul") return op.value("x") && op.value("x") == op.value("y");
  return op.type == "square" || (op.type == "pow" && scalar_constant(op, "y") == 2.0);
}

// mean(x · x) of an x that nothing has made small.
void plain_norms(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    const bool squared = is_square(*op.op);
    if (!squared && op.op->type != "reduce_sum_square") continue;
    const Value* x = computed_operand(*op.op, "x");
    if (!x || x->type.dtype != DType::fp16) continue;
    const Operation* made = x->producer;
    if (made && (made->type == "real_div" || made->type == "tanh" || made->type == "sigmoid")) continue;
    const Operation* sum = squared ? s.index.only_user(*op.op) : op.op;
    if (!sum || !sum->type.starts_with("reduce_")) continue;
    // A factor in front is how others keep the sum small: x · 1/√d.
    if (made && made->type == "mul" && (scalar_constant(*made, "x") || scalar_constant(*made, "y"))) continue;
    bool root = false;
    const Operation* next = sum;
    for (int steps = 0; steps < 4 && next && !root; ++steps) {
      next = s.index.only_user(*next);
      root = next && (next->type == "rsqrt" || next->type == "sqrt" || next->type == "pow");
    }
    if (root) out.add(Level::warning, *sum, "a norm whose sum of squares leaves fp16 when values pass 256");
  }
}

void rope_inside(const FunctionSubject& s, Findings& out) {
  int count = 0;
  for (const auto& op : s.placed.ops) count += op.op->type == "sin" || op.op->type == "cos";
  if (count > 0) out.add(Level::hint, fmt::format("{} sin and cos operations inside", count));
}

void wide_heads(const FunctionSubject& s, Findings& out) {
  if (s.package.bundle.target.chip->generation >= 16) return;
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op)) continue;
    const OpView view(*op.op);
    const auto projection = placement::projection_of(view);
    if (projection && projection->outputs > kHeadRows)
      out.add(Level::hint, *op.op, fmt::format("{} output channels in one product", projection->outputs));
  }
}

void no_prefill(const PackageSubject& s, Findings& out) {
  if (s.bundle.info) return;  // D11 says it for bundles
  int64_t most = 0;
  bool states = false;
  for (const FunctionSubject* f : s.functions) {
    most = std::max(most, f->tokens);
    for (const auto& input : f->function.inputs) states = states || input->type.kind == Type::Kind::state;
  }
  if (states && most == 1) out.add(Level::hint, "no function takes more than one token");
}

constexpr Rule kRules[] = {
    {.id = "H01",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "Linear layers should be 1x1 convolutions",
     .why = "[O, I] becomes [O, I, 1, 1]; Core ML's cost model favours it by far.",
     .cost = "one token, 4096 by 4096: 0.31 ms as linear, 0.071 as convolution (extrapolated)",
     .fix = "Rewrite; fuse QKV and gate with up where limits allow.",
     .sources = "AP; AB; AN",
     .in_function = linears},
    {.id = "H02",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Attention should have operands that stay below 2 MiB",
     .why = "An operand of up to 2 MiB stays on the chip. Softmax over channels is faster.",
     .cost = "speed only",
     .fix = "Split heads, or compile a shorter length (K06).",
     .sources = "AP",
     .in_function = large_operands},
    {.id = "H03",
     .grade = Grade::A,
     .level = Level::warning,
     .title = "RMSNorm should have a form whose squares cannot overflow",
     .why = "The sum of squares leaves fp16 as soon as values pass 256.",
     .cost = "inf, then NaN",
     .fix =
         "Divide by the token's largest value first, or layer_norm of concat(x, -x), or divide by √d first.",
     .sources = "AN; AB e27; JR",
     .in_function = plain_norms},
    {.id = "H04",
     .grade = Grade::B,
     .level = Level::hint,
     .title =
         "Gemma: the gain is 1 + γ, the embedding is scaled by √d, soft-caps must be in the right places",
     .why =
         "A cosine of 0.92 to 0.97 per layer means that a convention is wrong; 0.999 or more is int8 noise.",
     .cost = "",
     .fix = "anemone verify.",
     .sources = "AB ch3"},
    {.id = "H05",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "cos and sin of RoPE should be inputs",
     .why = "The host computes them once per token. A model that rotates only a part of each head (96 of "
            "128) must keep that.",
     .cost = "",
     .fix = "4-D inputs.",
     .sources = "AP; AB j100",
     .in_function = rope_inside},
    {.id = "H06",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Norms of q and k per head: split the channels, mean over the head's, tokens untouched",
     .why = "",
     .cost = "",
     .fix = "",
     .sources = "AB e28"},
    {.id = "H07",
     .grade = Grade::X,
     .level = Level::hint,
     .title = "The LM head is cut at 16384 rows for old chips; new ones gain nothing from it",
     .why = "One project splits into 8 or 16. On M4 Max 3, 4 and 8 shards were equal. On A19 Pro one "
            "convolution of 262144 rows was 4.6% faster than 16.",
     .cost = "",
     .fix = "--head-rows.",
     .sources = "AN; AB j048, j073; JR",
     .targets = "a hint before M4 and A17",
     .in_function = wide_heads},
    {.id = "H08",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "The embedding on the host",
     .why = "A row of a mapped table costs nothing; a gather inside is a CPU operation (O03).",
     .cost = "",
     .fix = "What convert does.",
     .sources = "all"},
    {.id = "H09",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Experts: soft routing reads them all; packages per expert, called by the host, were 15 times "
              "the CPU",
     .why = "A static graph reads every expert's weights.",
     .cost = "2.75 ms a layer with 1,033 packages",
     .fix = "",
     .sources = "AB ch7"},
    {.id = "H10",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Windowed layers: a cache of W slots, a ring position, two masks a step",
     .why = "",
     .cost = "",
     .fix = "",
     .sources = "JR; AN"},
    {.id = "H11",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "There should be a prefill function of 64 to 128 tokens over the same weights",
     .why = "Prefill then processes many tokens per call.",
     .cost = "",
     .fix = "--tokens 1,64.",
     .sources = "AP; AN; M6 14.3",
     .in_package = no_prefill},
};

}  // namespace

std::span<const Rule> trick_rules() { return kRules; }

}  // namespace anemone
