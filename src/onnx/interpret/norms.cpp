// Normalizations.
#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

Arrays batch_norm(const Context& c) {
  if (c.node.integer("training_mode", 0))
    throw errorf("BatchNormalization in training mode is not supported here");
  const double epsilon = static_cast<double>(c.node.number("epsilon", 1e-5f));
  OnnxArray y = c[0];
  const int64_t channels = y.rank() > 1 ? y.dims[1] : 1, plane = y.size() / y.dims[0] / channels;
  for (int64_t k = 0; k < y.size(); ++k) {
    const auto ch = static_cast<size_t>(k / plane % channels);
    double& v = y.data[static_cast<size_t>(k)];
    v = (v - c[3].data[ch]) / std::sqrt(c[4].data[ch] + epsilon) * c[1].data[ch] + c[2].data[ch];
  }
  return {y};
}

// Rows of `count` elements: mean and variance of each taken away; then `scale(row, place)`.
template <class Scale>
OnnxArray normalized(const OnnxArray& x, int64_t count, double epsilon, bool center, Scale scale) {
  OnnxArray y = x;
  for (int64_t row = 0; row < x.size() / count; ++row) {
    const double* in = x.data.data() + row * count;
    double mean = 0, square = 0;
    for (int64_t k = 0; k < count && center; ++k) mean += in[k] / static_cast<double>(count);
    for (int64_t k = 0; k < count; ++k)
      square += (in[k] - mean) * (in[k] - mean) / static_cast<double>(count);
    for (int64_t k = 0; k < count; ++k)
      y.data[static_cast<size_t>(row * count + k)] =
          scale(row, k, (in[k] - mean) / std::sqrt(square + epsilon));
  }
  return y;
}

int64_t from_axis(const Context& c) {
  int64_t count = 1;
  for (int64_t d = at_axis(c.node.integer("axis", -1), c[0].rank()); d < c[0].rank(); ++d)
    count *= c[0].dims[static_cast<size_t>(d)];
  return count;
}

Arrays layer_norm(const Context& c) {
  if (c.node.outputs.size() > 1) throw errorf("mean and deviation as outputs are not supported here");
  const int64_t count = from_axis(c);
  const auto at = [&](size_t input, int64_t k) {
    return c[input].data[static_cast<size_t>(k % c[input].size())];
  };
  return {normalized(c[0], count, static_cast<double>(c.node.number("epsilon", 1e-5f)), true,
                     [&](int64_t, int64_t k, double v) { return v * at(1, k) + (c.has(2) ? at(2, k) : 0); })};
}

Arrays rms_norm(const Context& c) {
  return {normalized(
      c[0], from_axis(c), static_cast<double>(c.node.number("epsilon", 1e-5f)), false,
      [&](int64_t, int64_t k, double v) { return v * c[1].data[static_cast<size_t>(k % c[1].size())]; })};
}

Arrays instance_norm(const Context& c) {
  const int64_t channels = c[0].dims.at(1), count = c[0].size() / c[0].dims[0] / channels;
  return {normalized(c[0], count, static_cast<double>(c.node.number("epsilon", 1e-5f)), true,
                     [&](int64_t row, int64_t, double v) {
                       const auto ch = static_cast<size_t>(row % channels);
                       return v * c[1].data[ch] + c[2].data[ch];
                     })};
}

}  // namespace

void add_norms(Table& t) {
  t["BatchNormalization"] = batch_norm;
  t["LayerNormalization"] = layer_norm;
  t["RMSNormalization"] = rms_norm;
  t["SimplifiedLayerNormalization"] = rms_norm;
  t["InstanceNormalization"] = instance_norm;
}

}  // namespace anemone::interpret
