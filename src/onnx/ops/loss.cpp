// Losses of classifiers.
#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

// scores [N, C, …] are logarithms of probabilities; target [N, …]; weight [C] or nothing.
Value* likelihood_loss(OnnxCall& n, Value* scores, Value* target, Value* weight) {
  const std::string_view reduction = n.node.text("reduction", "mean");
  const bool ignores = n.node.attribute("ignore_index") != nullptr;
  const int64_t ignored = n.node.integer("ignore_index", 0);
  Value* counted = nullptr;
  if (ignores) {
    counted = n.op("not_equal", {{"x", target}, {"y", n.i(ignored)}});
    target = n.select(counted, target, n.i(0));
  }
  const int64_t classes = n.dims(scores).at(1);
  target = n.select(n.op("less", {{"x", target}, {"y", n.i(0)}}), n.add(target, n.i(classes)), target);
  Value* chosen =
      n.op("gather_along_axis", {{"x", scores}, {"indices", n.expand(target, {1})}, {"axis", n.i(1)}});
  Value* loss = n.mul(n.squeeze(chosen, {1}), n.f(-1));
  Value* share = weight ? n.op("gather", {{"x", weight}, {"indices", target}, {"axis", n.i(0)}}) : nullptr;
  if (counted) {
    Value* one = n.cast(counted, DType::fp32);
    share = share ? n.mul(share, one) : one;
  }
  if (share) loss = n.mul(loss, share);
  if (reduction == "none") return loss;
  std::vector<int64_t> all;
  for (int64_t d = 0; d < loss->type.rank(); ++d) all.push_back(d);
  Value* sum = n.reduce("sum", loss, all, false);
  if (reduction == "sum") return sum;
  return n.div(sum, share ? n.reduce("sum", share, all, false)
                          : n.constant(n.f(static_cast<float>(element_count(n.dims(loss))))));
}

void negative_log_likelihood(OnnxCall& n) { n.out(likelihood_loss(n, n.in(0), n.in(1), n.maybe(2))); }

void softmax_cross_entropy(OnnxCall& n) {
  Value* x = n.in(0);
  Value* shifted = n.sub(x, n.reduce("max", x, {1}, true));
  Value* logs = n.sub(shifted, n.reduce("log_sum_exp", shifted, {1}, true));
  n.out(1, logs, n.type(0));
  n.out(0, likelihood_loss(n, logs, n.in(1), n.maybe(2)), n.type(0));
}

const OnnxOp kOps[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const OnnxOp> onnx_loss() { return kOps; }

}  // namespace anemone::onnx_ops
