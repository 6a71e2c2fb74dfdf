// Experts in one operator: MoE with plain weights, QMoE with codes. What an attribute means changed between releases
// and differs between processors, so only what the CPU kernels of onnxruntime 1.31 compute is taken, and the rest is
// refused by name:
//     weights [experts, rows, in]; the rows of gate and up in turns (swiglu_fusion 1)
//     G = min(g, limit), L = clip(l, -limit, limit), y = G * sigmoid(alpha * G) * (L + beta)
//     QMoE shares out among the chosen; MoE among all, or with normalize_routing_weights among the chosen
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/experts.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

// Where the inputs of an operator lie.
struct Places {
  size_t gate_up, gate_up_bias, down, down_bias;
};
constexpr Places kCodes{2, 4, 5, 7}, kPlain{2, 3, 4, 5};

// A stack of the checkpoint by its constant.
struct Stack {
  std::string tensor;
  std::vector<int64_t> shape;
};

Stack stack_of(Context& c, const Op& op, size_t input, size_t rank) {
  const std::optional<OnnxMatrix> found = c.graph.stack(op, input);
  if (!found || found->transposed) throw c.graph.unexpected(op, fmt::format("a constant as input {}", input));
  Stack out{found->tensor, c.checkpoint.tensor(found->tensor).shape()};
  if (out.shape.size() != rank)
    throw c.graph.unexpected(op, fmt::format("{} dimensions of input {}", rank, input));
  return out;
}

std::optional<Stack> bias_of(Context& c, const Op& op, size_t input, int64_t experts, int64_t rows) {
  if (op.input(input) == kNone) return std::nullopt;
  Stack out = stack_of(c, op, input, 2);
  if (out.shape != std::vector<int64_t>{experts, rows})
    throw c.graph.unexpected(op, fmt::format("biases [{}, {}] as input {}", experts, rows, input));
  return out;
}

// Whether genai_config.json says that the bundle is for this provider.
bool made_for(const Context& c, std::string_view provider) {
  const auto& genai = c.graph.bundle().genai;
  if (!genai) return false;
  const nlohmann::ordered_json* at = &*genai;
  for (const char* key : {"model", "decoder", "session_options", "provider_options"}) {
    if (!at->is_object() || !at->contains(key)) return false;
    at = &(*at)[key];
  }
  if (!at->is_array()) return false;
  for (const auto& entry : *at)
    if (entry.is_object())
      for (const auto& [name, options] : entry.items())
        if (name == provider) return true;
  return false;
}

// The activation: gate and up with gpt-oss' limit, or plain silu.
GatedMlp expert_form(Context& c, const Op& op) {
  const OnnxNode& node = *op.node;
  const auto refuse = [&](std::string what) {
    return c.graph.unexpected(op, fmt::format("experts of a form that was checked: {}", what));
  };
  const std::string_view activation = node.text("activation_type", "relu");
  if (activation != "swiglu")
    throw refuse(fmt::format("activation_type swiglu; experts with {} have no gate", printable(activation)));
  if (const int64_t fusion = node.integer("swiglu_fusion", 0); fusion != 1)
    throw refuse(fmt::format(
        "swiglu_fusion 1, gate and up in turns; onnxruntime's CPU kernel does not take {}", fusion));
  GatedMlp mlp;
  const float alpha = node.number("activation_alpha", 1), beta = node.number("activation_beta", 0),
              limit = node.number("swiglu_limit", INFINITY);
  if (beta == 1 && limit > 0 && limit <= 1000) {
    mlp.limit = limit;
    mlp.slope = alpha;
  } else if (beta != 0 || alpha != 1 || !std::isinf(limit) || limit < 0) {
    throw refuse(
        fmt::format("activation_beta 1 with a swiglu_limit of at most 1000 (gpt-oss), or activation_alpha 1, "
                    "activation_beta 0 and no swiglu_limit (silu); found alpha {:g}, beta {:g}, limit {:g}",
                    alpha, beta, limit));
  }
  return mlp;
}

void expect_layout(Context& c, const Op& op, bool codes) {
  const OnnxNode& node = *op.node;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) throw c.graph.unexpected(op, fmt::format("experts in a layout that was checked: {}", what));
  };
  expect(node.integer("use_sparse_mixer", 0) == 0, "use_sparse_mixer 0");
  const size_t third = codes ? 8 : 6;
  for (size_t i = third; i < op.inputs.size(); ++i) {
    if (op.input(i) == kNone || (codes && (i == 11 || i == 12))) continue;
    expect(!codes || i != 14, "no router_weights: the router's logits decide choice and shares");
    expect(!codes || i < 15, "no scales besides those of blocks or rows");
    expect(false, "no third weights, which onnxruntime's CPU kernel does not take");
  }
  if (!codes) return;
  expect(
      node.integer("weights_prepacked", -1) == 0 || !made_for(c, "cuda"),
      "weights as they are; those of a bundle for CUDA without weights_prepacked 0 are packed for one GPU");
}

// Of the router's logits each row is one token.
Linear match_router(Context& c, const Op& op) {
  const ValueId value = by_tokens(c, op.input(1));
  std::optional<Linear> router = match_linear(c, value);
  if (!router) throw c.graph.unexpected(value, "the projection of a router");
  router->input = by_tokens(c, router->input);
  return std::move(*router);
}

// QMoE's CPU kernel shares out among the chosen whatever the attribute says, and those of GPUs do not.
Experts::Share share_of(Context& c, const Op& op, bool codes, int64_t used, int64_t count) {
  const bool chosen = op.node->integer("normalize_routing_weights", 0) == 1;
  if (codes && !chosen && used < count)
    throw c.graph.unexpected(
        op, "normalize_routing_weights 1; without it onnxruntime's kernels differ from each other");
  return chosen || used == count ? Experts::Share::of_chosen : Experts::Share::of_all;
}

// The weights of all experts, as the operator holds them.
struct Stacks {
  Stack gate_up, down;
  std::optional<Stack> bias, down_bias;
  int64_t count = 0, width = 0, hidden = 0;
};

Stacks stacks_of(Context& c, const Op& op, const Places& at, const Linear& router) {
  Stacks s{stack_of(c, op, at.gate_up, 3), stack_of(c, op, at.down, 3), {}, {}};
  s.count = s.gate_up.shape[0];
  s.width = s.gate_up.shape[1] / 2;
  s.hidden = s.gate_up.shape[2];
  if (s.count > kMostExperts)
    throw c.graph.unexpected(op, fmt::format("at most {} experts; there are {}", kMostExperts, s.count));
  if (s.gate_up.shape[1] != 2 * s.width || s.down.shape != std::vector<int64_t>{s.count, s.hidden, s.width} ||
      router.rows() != s.count || router.projection.weight.columns != s.hidden)
    throw c.graph.unexpected(
        op, "weights [experts, 2 * width, hidden] and [experts, hidden, width] that fit the router");
  s.bias = bias_of(c, op, at.gate_up_bias, s.count, 2 * s.width);
  s.down_bias = bias_of(c, op, at.down_bias, s.count, s.hidden);
  return s;
}

GatedMlp expert_of(const Stacks& s, size_t i, GatedMlp mlp) {
  const auto half = [&](int64_t begin) {
    const StackPart rows{.begin = begin, .end = begin + s.width, .columns = s.hidden, .paired = 2 * s.width};
    Projection p{of_stack(s.gate_up.tensor, i, rows), {}};
    if (s.bias)
      p.bias = of_stack(s.bias->tensor, i, {.begin = rows.begin, .end = rows.end, .paired = rows.paired});
    return p;
  };
  mlp.width = s.width;
  mlp.gate = half(0);
  mlp.up = half(s.width);
  mlp.down.weight = of_stack(s.down.tensor, i, {.end = s.hidden, .columns = s.width});
  if (s.down_bias) mlp.down.bias = of_stack(s.down_bias->tensor, i, {.end = s.hidden});
  return mlp;
}

// The operator whose output, perhaps with other leading dimensions, is this value.
const Op* experts_behind(Context& c, ValueId value) {
  const auto experts_at = [&](ValueId at) {
    const Op* op = c.graph.producer(c.graph.through(at));
    return op && (op->type == "ms.QMoE" || op->type == "ms.MoE") ? op : nullptr;
  };
  if (const Op* op = experts_at(value)) return op;
  const Op* reshape = c.graph.producer(c.graph.through(value));
  if (!reshape || reshape->type != "Reshape" || !experts_at(reshape->input(0))) return nullptr;
  const Op* op = experts_at(by_tokens(c, value));
  if (!op) throw c.graph.unexpected(*reshape, "the experts' output with a row for each token");
  return op;
}

}  // namespace

ValueId by_tokens(Context& c, ValueId value) {
  value = c.graph.through(value);
  const Op* op = c.graph.producer(value);
  if (!op || op->type != "Reshape") return value;
  Evaluator e = evaluator(c, {.tokens = 3, .past = 0});
  const std::vector<int64_t> from = e.dims(op->input(0)), to = e.dims(value);
  if (from.empty() || to.empty() || from.back() != to.back()) return value;
  e.claim(c.graph);
  c.graph.claim(*op);
  return c.graph.through(op->input(0));
}

std::optional<FoundBlock> match_experts(Context& c, ValueId value) {
  const Op* op = experts_behind(c, value);
  if (!op) return std::nullopt;
  const bool codes = op->type == "ms.QMoE";
  expect_layout(c, *op, codes);
  const GatedMlp form = expert_form(c, *op);
  const Linear router = match_router(c, *op);
  const ValueId input = by_tokens(c, op->input(0));
  if (router.input != input) throw c.graph.unexpected(*op, "a router of the value that the experts take");
  const Stacks stacks = stacks_of(c, *op, codes ? kCodes : kPlain, router);
  Experts e;
  e.width = stacks.width;
  e.used = op->node->integer("k", 1);
  if (e.used < 1 || e.used > stacks.count)
    throw c.graph.unexpected(*op,
                             fmt::format("between 1 and {} chosen experts; k is {}", stacks.count, e.used));
  e.share = share_of(c, *op, codes, e.used, stacks.count);
  e.router.logits = router.projection;
  for (size_t i = 0; i < static_cast<size_t>(stacks.count); ++i)
    e.experts.push_back(expert_of(stacks, i, form));
  c.graph.claim(*op);
  return FoundBlock{input, e};
}

}  // namespace anemone::recover
