// Normalizations.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

double epsilon_of(const Context& c, float fallback = 1e-5f) {
  return static_cast<double>(c.node.number("epsilon", fallback));
}

// In training mode mean and variance are those of the batch, and the running ones follow them.
Arrays batch_norm(const Context& c) {
  const OnnxArray& x = c[0];
  const int64_t channels = x.rank() > 1 ? x.dims[1] : 1,
                plane = x.size() / std::max<int64_t>(1, x.dims.at(0) * channels);
  const auto channel = [&](int64_t k) { return static_cast<size_t>(k / plane % channels); };
  OnnxArray mean = c[3], variance = c[4], next_mean = mean, next_variance = variance;
  if (c.node.integer("training_mode", 0) && x.size() > 0) {
    const auto count = static_cast<double>(x.size() / channels);
    std::fill(mean.data.begin(), mean.data.end(), 0.0);
    std::fill(variance.data.begin(), variance.data.end(), 0.0);
    for (int64_t k = 0; k < x.size(); ++k) mean.data.at(channel(k)) += x.data[static_cast<size_t>(k)] / count;
    for (int64_t k = 0; k < x.size(); ++k)
      variance.data.at(channel(k)) +=
          std::pow(x.data[static_cast<size_t>(k)] - mean.data[channel(k)], 2) / count;
    const auto keep = static_cast<double>(c.node.number("momentum", 0.9f));
    for (size_t k = 0; k < mean.data.size(); ++k) {
      next_mean.data[k] = next_mean.data[k] * keep + mean.data[k] * (1 - keep);
      next_variance.data[k] = next_variance.data[k] * keep + variance.data[k] * (1 - keep);
    }
  }
  OnnxArray y = x;
  for (int64_t k = 0; k < y.size(); ++k) {
    const size_t ch = channel(k);
    double& v = y.data[static_cast<size_t>(k)];
    v = (v - mean.data.at(ch)) / std::sqrt(variance.data.at(ch) + epsilon_of(c)) * c[1].data.at(ch) +
        c[2].data.at(ch);
  }
  return {y, next_mean, next_variance};
}

struct Moments {
  double mean = 0, square = 0;  // the mean of the squares of what is left without the mean
};

Moments moments_of(const double* x, int64_t count, bool center) {
  Moments m;
  for (int64_t k = 0; k < count && center; ++k) m.mean += x[k] / static_cast<double>(count);
  for (int64_t k = 0; k < count; ++k)
    m.square += (x[k] - m.mean) * (x[k] - m.mean) / static_cast<double>(count);
  return m;
}

// Rows of `count` elements: mean and variance of each taken away; then `scale(row, place)`.
template <class Scale>
OnnxArray normalized(const OnnxArray& x, int64_t count, double epsilon, bool center, Scale scale) {
  OnnxArray y = x;
  for (int64_t row = 0; count > 0 && row < x.size() / count; ++row) {
    const double* in = x.data.data() + row * count;
    const Moments m = moments_of(in, count, center);
    for (int64_t k = 0; k < count; ++k)
      y.data[static_cast<size_t>(row * count + k)] =
          scale(row, k, (in[k] - m.mean) / std::sqrt(m.square + epsilon));
  }
  return y;
}

int64_t from_axis(const Context& c, const OnnxArray& x) {
  int64_t count = 1;
  for (int64_t d = at_axis(c.node.integer("axis", -1), x.rank()); d < x.rank(); ++d)
    count *= x.dims[static_cast<size_t>(d)];
  return count;
}

// A scale or bias broadcast to x's shape.
OnnxArray spread(const Context& c, size_t input, const OnnxArray& x, double fallback) {
  OnnxArray y = made(x.type, x.dims);
  if (c.has(input) && broadcast_dims(x.dims, c[input].dims) != x.dims)
    throw errorf("{} does not fit {}", shape_text(c[input].dims), shape_text(x.dims));
  size_t k = 0;
  each_place(x.dims, [&](const std::vector<int64_t>& at) {
    y.data[k++] =
        c.has(input) ? c[input].data[static_cast<size_t>(broadcast_at(at, c[input].dims))] : fallback;
  });
  return y;
}

Arrays layer_norm(const Context& c) {
  const OnnxArray& x = c[0];
  const int64_t count = from_axis(c, x);
  const OnnxArray scale = spread(c, 1, x, 1), bias = spread(c, 2, x, 0);
  const auto at = [&](int64_t row, int64_t k) { return static_cast<size_t>(row * count + k); };
  OnnxArray y = normalized(x, count, epsilon_of(c), true, [&](int64_t row, int64_t k, double v) {
    return v * scale.data[at(row, k)] + bias.data[at(row, k)];
  });
  std::vector<int64_t> dims = x.dims;
  for (auto d = static_cast<size_t>(at_axis(c.node.integer("axis", -1), x.rank())); d < dims.size(); ++d)
    dims[d] = 1;
  OnnxArray mean = made(OnnxType::float32, dims), deviation = mean;
  for (int64_t row = 0; row < mean.size(); ++row) {
    const Moments m = moments_of(x.data.data() + row * count, count, true);
    mean.data[static_cast<size_t>(row)] = m.mean;
    deviation.data[static_cast<size_t>(row)] = 1 / std::sqrt(m.square + epsilon_of(c));
  }
  return {y, mean, deviation};
}

Arrays rms_norm(const Context& c) {
  const int64_t count = from_axis(c, c[0]);
  const OnnxArray scale = spread(c, 1, c[0], 1);
  return {normalized(c[0], count, epsilon_of(c), false, [&](int64_t row, int64_t k, double v) {
    return v * scale.data[static_cast<size_t>(row * count + k)];
  })};
}

Arrays instance_norm(const Context& c) {
  const int64_t channels = c[0].dims.at(1),
                count = c[0].size() / std::max<int64_t>(1, c[0].dims[0] * channels);
  return {normalized(c[0], count, epsilon_of(c), true, [&](int64_t row, int64_t, double v) {
    const auto ch = static_cast<size_t>(row % channels);
    return v * c[1].data.at(ch) + c[2].data.at(ch);
  })};
}

// Scales are one for each channel; before version 21 one for each group.
Arrays group_norm(const Context& c) {
  const int64_t channels = c[0].dims.at(1), groups = c.node.integer("num_groups", 0);
  if (groups < 1 || channels < 1 || channels % groups)
    throw errorf("{} channels in {} groups", channels, groups);
  const int64_t count = c[0].size() / std::max<int64_t>(1, c[0].dims[0] * groups),
                plane = count / (channels / groups);
  const bool by_group = c.node.version < 21 && c[1].size() == groups;
  return {normalized(c[0], count, epsilon_of(c), true, [&](int64_t row, int64_t k, double v) {
    const auto at =
        static_cast<size_t>(by_group ? row % groups : row % groups * (channels / groups) + k / plane);
    return v * c[1].data.at(at) + c[2].data.at(at);
  })};
}

Arrays mean_variance_norm(const Context& c) {
  std::vector<int64_t> kept = c[0].dims;
  double count = 1;
  for (const int64_t axis : c.node.integers("axes", {0, 2, 3})) {
    int64_t& d = kept[static_cast<size_t>(at_axis(axis, c[0].rank()))];
    count *= static_cast<double>(d);
    d = 1;
  }
  OnnxArray mean = made(c[0].type, kept), square = mean, y = c[0];
  const auto each = [&](auto f) {
    size_t k = 0;
    each_place(y.dims, [&](const std::vector<int64_t>& at) {
      f(y.data[k++], static_cast<size_t>(broadcast_at(at, kept)));
    });
  };
  each([&](double& v, size_t at) { mean.data[at] += v / count; });
  each([&](double& v, size_t at) { square.data[at] += (v - mean.data[at]) * (v - mean.data[at]) / count; });
  each([&](double& v, size_t at) { v = (v - mean.data[at]) / (std::sqrt(square.data[at]) + 1e-9); });
  return {y};
}

// Nothing but zeros stays zero.
Arrays lp_norm(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", -1), c[0].rank()));
  const bool squares = c.node.integer("p", 2) == 2;
  std::vector<int64_t> kept = c[0].dims;
  kept[axis] = 1;
  OnnxArray sum = made(c[0].type, kept), y = c[0];
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    const double v = y.data[k++];
    sum.data[static_cast<size_t>(broadcast_at(at, kept))] += squares ? v * v : std::fabs(v);
  });
  k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    const double all = sum.data[static_cast<size_t>(broadcast_at(at, kept))];
    y.data[k++] /= all == 0 ? 1 : squares ? std::sqrt(all) : all;
  });
  return {y};
}

// Each element over a power of the squares around it, over channels.
Arrays lrn(const Context& c) {
  const OnnxArray& x = c[0];
  const int64_t size = c.node.integer("size", 1), channels = x.dims.at(1),
                plane = x.size() / std::max<int64_t>(1, x.dims[0] * channels);
  if (size < 1) throw errorf("size is {}", size);
  const auto alpha = static_cast<double>(c.node.number("alpha", 1e-4f)),
             beta = static_cast<double>(c.node.number("beta", 0.75f)),
             bias = static_cast<double>(c.node.number("bias", 1));
  OnnxArray y = x;
  for (int64_t k = 0; k < x.size(); ++k) {
    const int64_t channel = k / plane % channels;
    double sum = 0;
    for (int64_t i = std::max<int64_t>(0, channel - (size - 1) / 2);
         i <= std::min(channels - 1, channel + size / 2); ++i)
      sum += std::pow(x.data[static_cast<size_t>(k + (i - channel) * plane)], 2);
    y.data[static_cast<size_t>(k)] /= std::pow(bias + alpha / static_cast<double>(size) * sum, beta);
  }
  return {y};
}

// com.microsoft: the sum of two streams and a bias, normalized; output 3 is the sum itself.
Arrays skip_norm(const Context& c, bool center) {
  const size_t beta = 3, bias = center ? 4 : 3;
  OnnxArray sum = c[0];
  if (broadcast_dims(sum.dims, c[1].dims) != sum.dims)
    throw errorf("{} does not fit {}", shape_text(c[1].dims), shape_text(sum.dims));
  const int64_t width = sum.dims.at(sum.dims.size() - 1);
  size_t k = 0;
  each_place(sum.dims, [&](const std::vector<int64_t>& at) {
    sum.data[k++] += c[1].data[static_cast<size_t>(broadcast_at(at, c[1].dims))] +
                     (c.has(bias) ? c[bias].data.at(static_cast<size_t>(at.back())) : 0);
  });
  OnnxArray y = normalized(sum, width, epsilon_of(c, 1e-12f), center, [&](int64_t, int64_t i, double v) {
    const auto at = static_cast<size_t>(i);
    return v * c[2].data.at(at) + (center && c.has(beta) ? c[beta].data.at(at) : 0);
  });
  return {y, {}, {}, sum};
}

Arrays skip_layer_norm(const Context& c) { return skip_norm(c, true); }
Arrays skip_rms_norm(const Context& c) { return skip_norm(c, false); }

}  // namespace

void add_norms(Table& t) {
  t["BatchNormalization"] = batch_norm;
  t["LayerNormalization"] = layer_norm;
  t["RMSNormalization"] = rms_norm;
  t["SimplifiedLayerNormalization"] = rms_norm;
  t["InstanceNormalization"] = instance_norm;
  t["GroupNormalization"] = group_norm;
  t["MeanVarianceNormalization"] = mean_variance_norm;
  t["LpNormalization"] = lp_norm;
  t["LRN"] = lrn;
  t.microsoft("SimplifiedLayerNormalization") = rms_norm;
  t.microsoft("SkipLayerNormalization") = skip_layer_norm;
  t.microsoft("SkipSimplifiedLayerNormalization") = skip_rms_norm;
}

}  // namespace anemone::interpret
