// RMS and layer norms: one operator, or the chain of operators that computes the same.
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

struct Gain {
  WeightRef weight;
  double offset = 0;
};

// A vector, or a vector plus a number (Gemma).
std::optional<Gain> match_gain(Context& c, ValueId value) {
  if (const std::optional<WeightRef> plain = match_vector(c, value)) return Gain{*plain, 0};
  const Op* add = c.graph.producer(c.graph.through(value));
  if (!add || add->type != "Add") return std::nullopt;
  for (const size_t side : {0, 1})
    if (const std::optional<WeightRef> vector = match_vector(c, add->input(side)))
      if (const std::optional<double> number = c.graph.scalar(add->input(1 - side))) {
        c.graph.claim(*add);
        return Gain{*vector, *number};
      }
  return std::nullopt;
}

std::optional<FoundNorm> of_operator(Context& c, const Op& op) {
  const bool layer = op.type == "LayerNormalization";
  if (!layer && op.type != "SimplifiedLayerNormalization" && op.type != "RMSNormalization")
    return std::nullopt;
  const int64_t axis = op.node->integer("axis", -1);
  FoundNorm out{.input = op.input(0)};
  const std::optional<Gain> gain = match_gain(c, op.input(1));
  if (!gain) throw c.graph.unexpected(op, "a norm with a constant gain");
  if (axis != -1) {
    Evaluator e = evaluator(c, {.tokens = 3, .past = 0});
    if (axis != static_cast<int64_t>(e.dims(op.input(0)).size()) - 1)
      throw c.graph.unexpected(op, "a norm of the last axis");
  }
  out.norm.kind = layer ? Norm::Kind::layer : Norm::Kind::rms;
  out.norm.gain = gain->weight;
  out.norm.offset = gain->offset;
  out.norm.eps = op.node->number("epsilon", op.node->op.starts_with("Skip") ? 1e-12f : 1e-5f);
  if (layer && op.input(2) != kNone) {
    const std::optional<WeightRef> bias = match_vector(c, op.input(2), gain->weight.rows());
    if (!bias) throw c.graph.unexpected(op, "a norm with a constant bias");
    out.norm.bias = *bias;
  }
  return out;
}

// Sets x, all of it at one token, and asks for y.
std::optional<std::vector<double>> response(Context& c, ValueId x, ValueId y,
                                            const std::vector<double>& probe) {
  try {
    Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
    std::vector<int64_t> dims = e.dims(x);
    if (dims.empty() || static_cast<int64_t>(probe.size()) != dims.back()) return std::nullopt;
    Array in = Array::filled(dims, 0);
    for (size_t i = 0; i < in.data.size(); ++i) in.data[i] = probe[i % probe.size()];
    e.set(x, std::move(in));
    std::vector<double> out = e.value(y).data;
    if (out.size() < probe.size()) return std::nullopt;
    out.resize(probe.size());
    e.claim(c.graph);
    return out;
  } catch (const Error&) {
    return std::nullopt;  // the part between them is something else
  }
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-4 * (1 + std::abs(b[i])))) return false;
  return true;
}

std::vector<double> normalized(const std::vector<double>& x, bool layer, double eps) {
  const double mean = layer ? mean_of(x) : 0;
  double sum = 0;
  for (const double v : x) sum += (v - mean) * (v - mean);
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> out;
  for (const double v : x) out.push_back((v - mean) * scale);
  return out;
}

// Whether y is the norm of x without gain: decided by what it computes.
std::optional<Norm> normalizes(Context& c, ValueId x, ValueId y, int64_t width) {
  if (width < 2 || width % 2 != 0) return std::nullopt;
  std::vector<double> small, large;
  constexpr double kSmall = 1e-3;
  for (int64_t i = 0; i < width; ++i) {
    small.push_back(i % 2 == 0 ? kSmall : -kSmall);
    large.push_back(std::sin(1.7 * static_cast<double>(i)) * 2 + 0.7);
  }
  const auto at_small = response(c, x, y, small);
  if (!at_small || !((*at_small)[0] > 0 && (*at_small)[0] <= 1)) return std::nullopt;
  const double ratio = kSmall / (*at_small)[0];
  Norm norm;
  norm.eps = static_cast<double>(static_cast<float>(std::max(0.0, ratio * ratio - kSmall * kSmall)));
  const auto at_large = response(c, x, y, large);
  if (!at_large) return std::nullopt;
  for (const bool layer : {false, true}) {
    norm.kind = layer ? Norm::Kind::layer : Norm::Kind::rms;
    if (close(*at_large, normalized(large, layer, norm.eps))) return norm;
  }
  return std::nullopt;
}

// Exporters write 1e-6, and its rounding shows.
double tidy(double eps) {
  for (const double known : {1e-5, 1e-6, 1e-12, 1e-8, 1e-7, 1e-3, 1e-4})
    if (std::abs(eps - known) <= 1e-3 * known) return static_cast<double>(static_cast<float>(known));
  return eps;
}

// The values before y from which the norm may be taken: one step back, through the factors of a product.
std::vector<ValueId> sources_of(Context& c, ValueId y) {
  std::vector<ValueId> out;
  const Op* op = c.graph.producer(y);
  if (!op || (op->type != "Div" && op->type != "Mul")) return out;
  for (const ValueId in : op->inputs) {
    if (in == kNone || c.graph.constant(in)) continue;
    const ValueId x = c.graph.through(in);
    out.push_back(x);
    if (const Op* sub = c.graph.producer(x); sub && sub->type == "Sub")
      out.push_back(c.graph.through(sub->input(0)));
  }
  return out;
}

std::optional<FoundNorm> of_chain(Context& c, ValueId value, const Op& op) {
  WeightRef bias;
  const Op* product = &op;
  if (op.type == "Add") {
    for (const size_t side : {0, 1})
      if (const std::optional<WeightRef> found = match_vector(c, op.input(side))) {
        product = c.graph.producer(c.graph.through(op.input(1 - side)));
        bias = *found;
        break;
      }
    if (!bias) return std::nullopt;
  }
  if (!product || product->type != "Mul") return std::nullopt;
  for (const size_t side : {0, 1}) {
    const std::optional<Gain> gain = match_gain(c, product->input(side));
    if (!gain) continue;
    const ValueId y = c.graph.through(product->input(1 - side));
    for (const ValueId x : sources_of(c, y)) {
      std::optional<Norm> norm = normalizes(c, x, y, gain->weight.rows());
      if (!norm || (bias && norm->kind != Norm::Kind::layer)) continue;
      norm->gain = gain->weight;
      norm->offset = gain->offset;
      norm->bias = bias;
      norm->eps = tidy(norm->eps);
      c.graph.claim(*product);
      return FoundNorm{x, value, *norm};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FoundNorm> match_norm(Context& c, ValueId value) {
  const Op* op = c.graph.producer(c.graph.through(value));
  if (!op) return std::nullopt;
  std::optional<FoundNorm> out = of_operator(c, *op);
  if (!out) out = of_chain(c, value, *op);
  if (!out) return std::nullopt;
  c.graph.claim(*op);
  out->input = c.graph.through(out->input);
  out->output = value;
  return out;
}

}  // namespace anemone::recover
