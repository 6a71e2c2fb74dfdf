// Losses of classifiers.
#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

// logs [N, C, …], target [N, …], weight [C] or nothing: each target's logarithm, and then the reduction.
OnnxArray likelihood_loss(const Context& c, const OnnxArray& logs) {
  const OnnxArray& target = c[1];
  if (logs.rank() < 2 || logs.size() == 0) throw errorf("scores of shape {}", shape_text(logs.dims));
  const int64_t classes = logs.dims[1], inner = logs.size() / (logs.dims[0] * classes);
  if (target.size() != logs.dims[0] * inner) throw errorf("{} targets do not fit", target.size());
  const bool ignores = c.node.attribute("ignore_index") != nullptr;
  const auto ignored = static_cast<double>(c.node.integer("ignore_index", 0));
  OnnxArray loss = made(logs.type, target.dims);
  double sum = 0, share = 0;
  for (int64_t k = 0; k < target.size(); ++k) {
    const double given = target.data[static_cast<size_t>(k)];
    if (ignores && given == ignored) continue;
    const int64_t at = at_axis(whole(given), classes);
    const double weight = c.has(2) ? c[2].data.at(static_cast<size_t>(at)) : 1;
    const int64_t place = (k / inner * classes + at) * inner + k % inner;
    loss.data[static_cast<size_t>(k)] = -weight * logs.data[static_cast<size_t>(place)];
    sum += loss.data[static_cast<size_t>(k)];
    share += weight;
  }
  const std::string_view reduction = c.node.text("reduction", "mean");
  if (reduction == "none") return loss;
  OnnxArray y = made(logs.type, {});
  y.data[0] = reduction == "sum" ? sum : sum / share;
  return y;
}

Arrays negative_log_likelihood(const Context& c) { return {likelihood_loss(c, c[0])}; }

Arrays softmax_cross_entropy(const Context& c) {
  if (c[0].rank() < 2) throw errorf("the scores need a dimension of classes");
  const OnnxArray logs = softmax_of(c[0], 1, true);
  return {likelihood_loss(c, logs), logs};
}

}  // namespace

void add_losses(Table& t) {
  t["NegativeLogLikelihoodLoss"] = negative_log_likelihood;
  t["SoftmaxCrossEntropyLoss"] = softmax_cross_entropy;
}

}  // namespace anemone::interpret
