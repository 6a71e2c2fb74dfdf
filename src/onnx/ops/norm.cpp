// Normalizations and softmax.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

std::vector<int64_t> from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

// One number per channel, ready to be broadcast over [N, C, …].
Value* per_channel(OnnxCall& n, Value* v, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max(1, rank - 1)), 1);
  dims[0] = n.dims(v).at(0);
  return n.reshape(v, dims);
}

struct Moments {
  Value *mean, *variance, *centered;
};

Moments moments(OnnxCall& n, Value* x, const std::vector<int64_t>& axes) {
  Moments m{};
  m.mean = n.reduce("mean", x, axes, true);
  m.centered = n.sub(x, m.mean);
  m.variance = n.reduce("mean", n.unary("square", m.centered), axes, true);
  return m;
}

Value* over_deviation(OnnxCall& n, Value* centered, Value* variance, float epsilon) {
  return n.div(centered, n.unary("sqrt", n.add(variance, n.f(epsilon))));
}

void batch_norm_training(OnnxCall& n) {
  Value* x = n.in(0);
  std::vector<int64_t> axes = from(1, x->type.rank());
  axes[0] = 0;
  const Moments m = moments(n, x, axes);
  const float epsilon = n.node.number("epsilon", 1e-5f), keep = n.node.number("momentum", 0.9f);
  Value* y = over_deviation(n, m.centered, m.variance, epsilon);
  const int rank = x->type.rank();
  n.out(n.add(n.mul(y, per_channel(n, n.in(1), rank)), per_channel(n, n.in(2), rank)));
  const auto blend = [&](size_t old, Value* now) {
    Value* flat = n.reshape(now, n.dims(n.in(old)));
    return n.add(n.mul(n.in(old), n.f(keep)), n.mul(flat, n.f(1 - keep)));
  };
  if (n.wants(1)) n.out(1, blend(3, m.mean), n.type(0));
  if (n.wants(2)) n.out(2, blend(4, m.variance), n.type(0));
}

void batch_norm(OnnxCall& n) {
  if (n.node.integer("training_mode", 0) != 0) return batch_norm_training(n);
  Value* x = n.in(0);
  const float epsilon = n.node.number("epsilon", 1e-5f);
  const bool known = n.in(1)->constant() && n.in(2)->constant() && n.in(3)->constant() && n.in(4)->constant();
  const int rank = x->type.rank();
  if (known && rank >= 3 && rank <= 5)
    return n.out(n.op("batch_norm", {{"x", x},
                                     {"mean", n.in(3)},
                                     {"variance", n.in(4)},
                                     {"gamma", n.in(1)},
                                     {"beta", n.in(2)},
                                     {"epsilon", n.f(epsilon)}}));
  Value* centered = n.sub(x, per_channel(n, n.in(3), rank));
  Value* y = over_deviation(n, centered, per_channel(n, n.in(4), rank), epsilon);
  n.out(n.add(n.mul(y, per_channel(n, n.in(1), rank)), per_channel(n, n.in(2), rank)));
}

void instance_norm(OnnxCall& n) {
  Value* x = n.in(0);
  const float epsilon = n.node.number("epsilon", 1e-5f);
  const int rank = x->type.rank();
  if (n.in(1)->constant() && n.in(2)->constant() && (rank == 3 || rank == 4))
    return n.out(
        n.op("instance_norm", {{"x", x}, {"gamma", n.in(1)}, {"beta", n.in(2)}, {"epsilon", n.f(epsilon)}}));
  const Moments m = moments(n, x, from(2, rank));
  Value* y = over_deviation(n, m.centered, m.variance, epsilon);
  n.out(n.add(n.mul(y, per_channel(n, n.in(1), rank)), per_channel(n, n.in(2), rank)));
}

void layer_norm(OnnxCall& n) {
  Value* x = n.in(0);
  const int rank = x->type.rank();
  const float epsilon = n.node.number("epsilon", 1e-5f);
  const std::vector<int64_t> axes = from(n.axis(n.node.integer("axis", -1), rank), rank);
  Value *gamma = n.in(1), *beta = n.maybe(2);
  const auto fits = [&](Value* v) {
    if (!v) return true;
    if (!v->constant() || v->type.rank() != static_cast<int>(axes.size())) return false;
    for (size_t k = 0; k < axes.size(); ++k)
      if (v->type.dim(static_cast<int>(k)) != x->type.dim(static_cast<int>(axes[k]))) return false;
    return true;
  };
  if (!n.wants(1) && !n.wants(2) && fits(gamma) && fits(beta))
    return n.out(n.op("layer_norm", {{"x", x},
                                     {"axes", Constant::ints(axes)},
                                     {"gamma", gamma},
                                     {"beta", beta},
                                     {"epsilon", n.f(epsilon)}}));
  const Moments m = moments(n, x, axes);
  Value* deviation = n.unary("sqrt", n.add(m.variance, n.f(epsilon)));
  Value* y = n.mul(n.div(m.centered, deviation), gamma);
  n.out(beta ? n.add(y, beta) : y);
  if (n.wants(1)) n.out(1, m.mean, OnnxType::float32);
  if (n.wants(2)) n.out(2, n.div(n.f(1), deviation), OnnxType::float32);
}

Value* rms(OnnxCall& n, Value* x, const std::vector<int64_t>& axes, float epsilon) {
  Value* mean = n.reduce("mean", n.unary("square", x), axes, true);
  return n.mul(x, n.op("rsqrt", {{"x", n.add(mean, n.f(epsilon))}, {"epsilon", n.f(0)}}));
}

void rms_norm(OnnxCall& n) {
  Value* x = n.in(0);
  const int rank = x->type.rank();
  const std::vector<int64_t> axes = from(n.axis(n.node.integer("axis", -1), rank), rank);
  n.out(n.mul(rms(n, x, axes, n.node.number("epsilon", 1e-5f)), n.in(1)));
}

// com.microsoft: the sum of two streams, normalized; output 3 is the sum itself.
Value* skip_sum(OnnxCall& n, size_t bias) {
  Value* sum = n.add(n.in(0), n.in(1));
  return n.has(bias) ? n.add(sum, n.in(bias)) : sum;
}

void skip_layer_norm(OnnxCall& n) {
  if (n.wants(1) || n.wants(2)) throw n.refused("the mean and deviation of SkipLayerNormalization");
  Value* sum = skip_sum(n, 4);
  const int64_t last = sum->type.rank() - 1;
  const Moments m = moments(n, sum, {last});
  Value* y = n.mul(over_deviation(n, m.centered, m.variance, n.node.number("epsilon", 1e-12f)), n.in(2));
  n.out(n.has(3) ? n.add(y, n.in(3)) : y);
  if (n.wants(3)) n.out(3, sum, n.type(0));
}

void skip_rms_norm(OnnxCall& n) {
  if (n.wants(1) || n.wants(2)) throw n.refused("the mean and deviation of SkipSimplifiedLayerNormalization");
  Value* sum = skip_sum(n, 3);
  n.out(n.mul(rms(n, sum, {sum->type.rank() - 1}, n.node.number("epsilon", 1e-12f)), n.in(2)));
  if (n.wants(3)) n.out(3, sum, n.type(0));
}

void group_norm(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> dims = n.dims(x);
  const int64_t groups = n.node.integer("num_groups", 1);
  if (groups < 1 || dims.at(1) % groups)
    throw errorf("{} channels cannot be split in {} groups", dims[1], groups);
  const int64_t rest = element_count(dims) / dims[0] / groups;
  const Moments m = moments(n, n.reshape(x, {dims[0], groups, rest}), {2});
  Value* y = over_deviation(n, m.centered, m.variance, n.node.number("epsilon", 1e-5f));
  const auto scaled = [&](size_t input) {
    Value* given = n.in(input);
    if (n.dims(given).at(0) == groups && n.node.version < 21) given = n.reshape(given, {groups, 1});
    return std::pair(given, given->type.rank() == 2);
  };
  const auto [scale, by_group] = scaled(1);
  const auto [bias, unused] = scaled(2);
  const int rank = x->type.rank();
  if (by_group) return n.out(n.reshape(n.add(n.mul(y, scale), bias), dims));
  y = n.reshape(y, dims);
  n.out(n.add(n.mul(y, per_channel(n, scale, rank)), per_channel(n, bias, rank)));
}

void mean_variance_norm(OnnxCall& n) {
  const std::vector<int64_t> axes = n.node.integers("axes", {0, 2, 3});
  const Moments m = moments(n, n.in(0), axes);
  n.out(n.div(m.centered, n.add(n.unary("sqrt", m.variance), n.f(1e-9f))));
}

void lp_norm(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", -1), x->type.rank());
  Value* size = nullptr;
  if (n.node.integer("p", 2) == 1)
    size = n.reduce("sum", n.unary("abs", x), {along}, true);
  else
    size = n.unary("sqrt", n.reduce("sum", n.unary("square", x), {along}, true));
  // Nothing but zeros stays zero.
  Value* zero = n.op("equal", {{"x", size}, {"y", n.f(0)}});
  n.out(n.div(x, n.select(zero, n.f(1), size)));
}

void lrn(OnnxCall& n) {
  n.out(n.op("local_response_norm", {{"x", n.in(0)},
                                     {"size", n.i(n.node.integer("size", 1))},
                                     {"alpha", n.f(n.node.number("alpha", 1e-4f))},
                                     {"beta", n.f(n.node.number("beta", 0.75f))},
                                     {"k", n.f(n.node.number("bias", 1))}}));
}

// Before version 13 all dimensions from the axis on are one.
Value* flat_from(OnnxCall& n, Value* x, int64_t along) {
  const std::vector<int64_t> dims = n.dims(x);
  const int64_t rows = std::accumulate(dims.begin(), dims.begin() + along, int64_t{1}, std::multiplies<>());
  return n.reshape(x, {rows, rows ? element_count(dims) / rows : 0});
}

template <class Body>
void over_axis(OnnxCall& n, Body body) {
  Value* x = n.in(0);
  const bool old = n.node.version < 13;
  const int64_t along = n.axis(n.node.integer("axis", old ? 1 : -1), std::max(1, x->type.rank()));
  if (!old || along == x->type.rank() - 1) return n.out(body(x, along));
  n.out(n.reshape(body(flat_from(n, x, along), 1), n.dims(x)));
}

Value* softmax_of(OnnxCall& n, Value* x, int64_t along) {
  return n.op("softmax", {{"x", x}, {"axis", n.i(along)}});
}

void softmax(OnnxCall& n) {
  over_axis(n, [&](Value* x, int64_t along) { return softmax_of(n, x, along); });
}

void log_softmax(OnnxCall& n) {
  over_axis(n, [&](Value* x, int64_t along) {
    Value* shifted = n.sub(x, n.reduce("max", x, {along}, true));
    return n.sub(shifted, n.reduce("log_sum_exp", shifted, {along}, true));
  });
}

// 1 at the first of the largest elements.
void hardmax(OnnxCall& n) {
  over_axis(n, [&](Value* x, int64_t along) {
    Value* at = n.op("reduce_argmax", {{"x", x}, {"axis", n.i(along)}, {"keep_dims", n.flag(false)}});
    return n.op("one_hot", {{"indices", at},
                            {"one_hot_vector_size", n.i(n.dims(x)[static_cast<size_t>(along)])},
                            {"axis", n.i(along)},
                            {"on_value", n.f(1)},
                            {"off_value", n.f(0)}});
  });
}

const OnnxOp kOps[] = {
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization", instance_norm},
    {"LayerNormalization", layer_norm},
    {"RMSNormalization", rms_norm},
    {"SimplifiedLayerNormalization", rms_norm},
    {"SimplifiedLayerNormalization", rms_norm, "com.microsoft"},
    {"SkipLayerNormalization", skip_layer_norm, "com.microsoft"},
    {"SkipSimplifiedLayerNormalization", skip_rms_norm, "com.microsoft"},
    {"GroupNormalization", group_norm},
    {"MeanVarianceNormalization", mean_variance_norm},
    {"LpNormalization", lp_norm},
    {"LRN", lrn},
    {"Softmax", softmax},
    {"LogSoftmax", log_softmax},
    {"Hardmax", hardmax},
};

}  // namespace

std::span<const OnnxOp> onnx_norm() { return kOps; }

}  // namespace anemone::onnx_ops
