// Experts in one operator. The layouts of QMoE changed between releases, so only the one that was checked against
// onnxruntime is taken: weights [experts, rows, in], gate and up in turns, swiglu with a limit, shares of the chosen.
#include <cmath>

#include "base/error.h"
#include "families/experts.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

// A stack of the checkpoint by its constant.
struct Stack {
  std::string tensor;
  std::vector<int64_t> shape;
};

Stack stack_of(Context& c, const Op& op, size_t input, size_t rank) {
  const std::optional<OnnxMatrix> found = c.graph.weight(op.input(input));
  if (!found) throw c.graph.unexpected(op, fmt::format("a constant as input {}", input));
  Stack out{found->tensor, c.checkpoint.tensor(found->tensor).shape()};
  if (out.shape.size() != rank)
    throw c.graph.unexpected(op, fmt::format("{} dimensions of input {}", rank, input));
  return out;
}

void expect_layout(Context& c, const Op& op) {
  const OnnxNode& node = *op.node;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) throw c.graph.unexpected(op, fmt::format("experts in the layout that was checked: {}", what));
  };
  expect(node.text("activation_type", "relu") == "swiglu", "activation_type swiglu");
  expect(node.integer("swiglu_fusion", 0) == 1, "swiglu_fusion 1, gate and up in turns");
  expect(node.integer("normalize_routing_weights", 0) == 1, "normalize_routing_weights 1");
  expect(node.integer("use_sparse_mixer", 0) == 0, "use_sparse_mixer 0");
  expect(node.number("activation_beta", 0) == 1, "activation_beta 1");
  expect(node.number("swiglu_limit", 0) > 0, "a swiglu_limit above 0");
  for (size_t i = 8; i < op.inputs.size(); ++i)
    expect(op.input(i) == kNone, "no third weights and no zero points");
}

Linear match_router(Context& c, const Op& op) {
  ValueId value = c.graph.through(op.input(1));
  if (const Op* flat = c.graph.producer(value); flat && flat->type == "Reshape") {  // [tokens, experts]
    Evaluator e = evaluator(c, {.tokens = 3, .past = 0});
    if (e.dims(value).size() != 2)
      throw c.graph.unexpected(*flat, "logits of the router, one row for each token");
    e.claim(c.graph);
    c.graph.claim(*flat);
    value = flat->input(0);
  }
  std::optional<Linear> router = match_linear(c, value);
  if (!router) throw c.graph.unexpected(value, "the projection of a router");
  return std::move(*router);
}

}  // namespace

std::optional<FoundBlock> match_experts(Context& c, ValueId value) {
  const Op* op = c.graph.producer(c.graph.through(value));
  if (!op || (op->type != "ms.QMoE" && op->type != "ms.MoE")) return std::nullopt;
  if (op->type == "ms.MoE") throw c.graph.unexpected(*op, "QMoE; the layout of MoE was not checked");
  expect_layout(c, *op);
  const OnnxNode& node = *op->node;
  const Linear router = match_router(c, *op);
  const ValueId input = c.graph.through(op->input(0));
  if (router.input != input) throw c.graph.unexpected(*op, "a router of the value that the experts take");
  const Stack gate_up = stack_of(c, *op, 2, 3), down = stack_of(c, *op, 5, 3);
  const int64_t count = gate_up.shape[0], width = gate_up.shape[1] / 2, hidden = gate_up.shape[2];
  if (down.shape != std::vector<int64_t>{count, hidden, width} || router.rows() != count)
    throw c.graph.unexpected(*op, "weights of experts and a router that fit each other");
  std::optional<Stack> bias, down_bias;
  if (op->input(4) != kNone) bias = stack_of(c, *op, 4, 2);
  if (op->input(7) != kNone) down_bias = stack_of(c, *op, 7, 2);
  Experts e;
  e.width = width;
  e.used = node.integer("k", 1);
  e.share = Experts::Share::of_chosen;
  e.router.logits = router.projection;
  if (e.used < 1 || e.used > count)
    throw c.graph.unexpected(*op, "a number of chosen experts that there are");
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    GatedMlp mlp;
    mlp.width = width;
    mlp.limit = node.number("swiglu_limit", 0);
    mlp.slope = node.number("activation_alpha", 1);
    const auto half = [&](int64_t begin) {
      Projection p;
      p.weight = of_stack(gate_up.tensor, i,
                          {.begin = begin, .end = begin + width, .columns = hidden, .paired = 2 * width});
      if (bias)
        p.bias = of_stack(bias->tensor, i, {.begin = begin, .end = begin + width, .paired = 2 * width});
      return p;
    };
    mlp.gate = half(0);
    mlp.up = half(width);
    mlp.down.weight = of_stack(down.tensor, i, {.end = hidden, .columns = width});
    if (down_bias) mlp.down.bias = of_stack(down_bias->tensor, i, {.end = hidden});
    e.experts.push_back(std::move(mlp));
  }
  c.graph.claim(*op);
  return FoundBlock{input, e};
}

}  // namespace anemone::recover
