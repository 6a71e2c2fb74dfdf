// What comes behind the layers: logits of a vocabulary, hidden states, classes.
#include <cmath>

#include "reference/head.h"

namespace anemone {
namespace {

using Rows = std::vector<float>;

double dense_activated(double z, ClassHead::Dense activation) {
  switch (activation) {
    case ClassHead::Dense::none: return z;
    case ClassHead::Dense::tanh: return std::tanh(z);
    case ClassHead::Dense::gelu: return activated(z, Activation::gelu);
  }
  return z;
}

struct HeadReference {
  const ReferenceScope& scope;
  std::span<const float> x;
  int64_t tokens;

  Rows operator()(const VocabularyHead& head) const {
    Rows logits(static_cast<size_t>(tokens * head.weight.rows()));
    scope.weights().multiply(head.weight, x.data(), tokens, logits.data());
    if (head.bias) {
      const Rows bias = scope.weights().vector(head.bias);
      for (size_t i = 0; i < logits.size(); ++i) logits[i] += bias[i % bias.size()];
    }
    if (head.softcap > 0 || head.scale != 1)
      for (float& v : logits)
        v = static_cast<float>(softcapped(head.scale * static_cast<double>(v), head.softcap));
    return logits;
  }

  Rows operator()(const PooledHead&) const { return {x.begin(), x.end()}; }

  Rows operator()(const ClassHead& head) const {
    Rows rows(x.begin(), x.end());
    if (head.pooling) rows = pooled(rows, scope.model().hidden, *head.pooling);
    if (head.dense) {
      rows = scope.project("dense", 0, head.dense, rows,
                           static_cast<int64_t>(rows.size()) / scope.model().hidden);
      for (float& v : rows) v = static_cast<float>(dense_activated(static_cast<double>(v), head.activation));
      if (head.norm) scope.normalise(*head.norm, rows, scope.model().hidden);
    }
    return scope.project("classifier", 0, head.classifier, rows,
                         static_cast<int64_t>(rows.size()) / scope.model().hidden);
  }
};

}  // namespace

Rows pooled(std::span<const float> rows, int64_t width, Pooling pooling) {
  const auto n = static_cast<size_t>(width);
  if (pooling == Pooling::first) return {rows.begin(), rows.begin() + static_cast<ptrdiff_t>(n)};
  std::vector<double> sums(n);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % n] += static_cast<double>(rows[i]);
  const double count = static_cast<double>(rows.size() / n);
  Rows out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(sums[i] / count);
  return out;
}

Rows compute_head(const ReferenceScope& scope, std::span<const float> x, int64_t tokens) {
  return std::visit(HeadReference{scope, x, tokens}, scope.model().head);
}

}  // namespace anemone
