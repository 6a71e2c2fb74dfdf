// batch_norm, instance_norm, l2_norm, local_response_norm: normalisations with the channels in dimension 1.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_same(const OpCall& c) { return {Type::tensor(c.type("x").dtype, c.type("x").shape)}; }

void check_rank(const OpCall& c, int least) {
  if (c.type("x").rank() < least)
    throw errorf("'x' must have at least {} dimensions", least).found(c.type("x").text());
}

Types infer_channels(const OpCall& c) {
  check_rank(c, 2);
  const Type& x = c.type("x");
  for (const std::string_view param : {"mean", "variance", "gamma", "beta"}) {
    if (!c.has(param)) continue;
    const Type& p = c.type(param);
    if (p.rank() != 1 || (p.dim(0).known() && x.dim(1).known() && p.dim(0) != x.dim(1)))
      throw errorf("'{}' must have one entry per channel of {}", param, x.text()).found(p.text());
  }
  return infer_same(c);
}

// coremltools lets an iOS 15 batch_norm take an fp32 x with fp16 moments: the result has the type of the
// moments.
Types infer_batch_norm(const OpCall& c) {
  Types out = infer_channels(c);
  if (c.since() < Opset::ios17) out[0].dtype = c.type("mean").dtype;
  return out;
}

// The rows of dimension 0 and 1, and what lies in one of them.
struct Rows {
  int64_t rows, channels, length;
};

Rows channel_rows(const Type& type) {
  const int64_t count = type.size();
  if (count == 0) return {0, 1, 0};
  const std::vector<int64_t> dims = type.dims();
  return {dims[0] * dims[1], dims[1], count / (dims[0] * dims[1])};
}

const float* optional_floats(const OpCall& c, std::string_view param) {
  return c.has(param) ? c.floats(param) : nullptr;
}

void run_batch_norm(const OpCall& c) {
  const Rows r = channel_rows(c.out_type());
  const float *x = c.floats("x"), *mean = c.floats("mean"), *variance = c.floats("variance");
  const float *gamma = optional_floats(c, "gamma"), *beta = optional_floats(c, "beta");
  const auto epsilon = static_cast<float>(c.number("epsilon"));
  float* out = c.out_floats();
  c.pool().parallel_for(r.rows, std::max<int64_t>(1, kMapGrain / std::max<int64_t>(1, r.length)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            const int64_t k = row % r.channels;
                            const float scale = (gamma ? gamma[k] : 1.0f) / std::sqrt(variance[k] + epsilon);
                            const float shift = beta ? beta[k] : 0.0f, centre = mean[k];
                            for (int64_t i = row * r.length; i < (row + 1) * r.length; ++i)
                              out[i] = (x[i] - centre) * scale + shift;
                          }
                        });
}

void run_instance_norm(const OpCall& c) {
  const Rows r = channel_rows(c.out_type());
  const float* x = c.floats("x");
  const float *gamma = optional_floats(c, "gamma"), *beta = optional_floats(c, "beta");
  const double epsilon = c.number("epsilon");
  float* out = c.out_floats();
  c.pool().parallel_for(r.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* in = x + row * r.length;
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < r.length; ++i) sum += static_cast<double>(in[i]);
      const double mean = sum / static_cast<double>(r.length);
      for (int64_t i = 0; i < r.length; ++i) {
        const double d = static_cast<double>(in[i]) - mean;
        squares += d * d;
      }
      const int64_t k = row % r.channels;
      const double deviation = std::sqrt(squares / static_cast<double>(r.length) + epsilon);
      const auto scale = static_cast<float>((gamma ? static_cast<double>(gamma[k]) : 1.0) / deviation);
      const float shift = beta ? beta[k] : 0.0f, centre = static_cast<float>(mean);
      for (int64_t i = 0; i < r.length; ++i) out[row * r.length + i] = (in[i] - centre) * scale + shift;
    }
  });
}

Types infer_l2_norm(const OpCall& c) {
  check_rank(c, 3);
  return infer_same(c);
}

void run_l2_norm(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const int64_t length = dims[dims.size() - 3] * dims[dims.size() - 2] * dims[dims.size() - 1];
  const float* x = c.floats("x");
  float* out = c.out_floats();
  const double epsilon = c.number("epsilon");
  c.pool().parallel_for(count / length, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double squares = 0;
      for (int64_t i = row * length; i < (row + 1) * length; ++i)
        squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      const auto scale = static_cast<float>(1 / std::sqrt(squares + epsilon));
      for (int64_t i = row * length; i < (row + 1) * length; ++i) out[i] = x[i] * scale;
    }
  });
}

Types infer_local_response(const OpCall& c) {
  check_rank(c, 3);
  if (c.known("size") && c.integer("size") < 1)
    throw errorf("'size' must be positive").found(fmt::format("{}", c.integer("size")));
  return infer_same(c);
}

// Core ML reads a tensor of rank 3 as [C, H, W] here, in spite of the documentation: the values that coremltools tests
// against are impossible with the channels in dimension 1.
void run_local_response(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size(), size = c.integer("size");
  if (count == 0) return;
  const int64_t batch = dims.size() == 3 ? 1 : dims[0], channels = dims.size() == 3 ? dims[0] : dims[1];
  const int64_t length = count / (batch * channels);
  const auto alpha = static_cast<float>(c.number("alpha")) / static_cast<float>(size);
  const auto beta = static_cast<float>(c.number("beta")), k = static_cast<float>(c.number("k"));
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(batch * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // An even window has its extra neighbour before the channel.
      const int64_t first = row - row % channels, last = first + channels - 1;
      const int64_t low = std::max(first, row - size / 2), high = std::min(last, row + (size - 1) / 2);
      for (int64_t i = 0; i < length; ++i) {
        float squares = 0;
        for (int64_t n = low; n <= high; ++n) squares += x[n * length + i] * x[n * length + i];
        out[row * length + i] = x[row * length + i] / std::pow(k + alpha * squares, beta);
      }
    }
  });
}

// The documentation wants gamma and its like to have x's element type in iOS 15 and one type among themselves
// from iOS 17 on; packages of coremltools do not keep to it (a default epsilon is fp32 whatever the others
// are).
constexpr int kGiven = kConst, kMaybe = kOptional | kConst;

std::vector<OpVersion> versions(const std::vector<Param>& params) {
  return {{Opset::ios15, params}, {Opset::ios17, params}};
}

const Op kOps[] = {
    {"batch_norm",
     versions({{"x", kFloat},
               {"mean", kFloat, 0, kGiven},
               {"variance", kFloat, 0, kGiven},
               {"gamma", kFloat, 0, kMaybe},
               {"beta", kFloat, 0, kMaybe},
               {"epsilon", kFloat, 0, kMaybe, 1e-5}}),
     "gamma * (x - mean) / sqrt(variance + epsilon) + beta, with one of each per channel", infer_batch_norm,
     run_batch_norm},
    {"instance_norm",
     versions({{"x", kFloat},
               {"gamma", kFloat, 0, kMaybe},
               {"beta", kFloat, 0, kMaybe},
               {"epsilon", kFloat, 0, kMaybe, 1e-5}}),
     "gamma * (x - mean) / sqrt(variance + epsilon) + beta, the moments taken over each channel of each "
     "image",
     infer_channels, run_instance_norm},
    {"l2_norm", versions({{"x", kFloat}, {"epsilon", kFloat, 0, kMaybe, 1e-6}}),
     "x / sqrt(sum of x^2 + epsilon), the sum over the last three dimensions", infer_l2_norm, run_l2_norm},
    {"local_response_norm",
     versions({{"x", kFloat},
               {"size", kInt32, 0, kGiven},
               {"alpha", kFloat, 0, kMaybe, 1e-4},
               {"beta", kFloat, 0, kMaybe, 0.75},
               {"k", kFloat, 0, kMaybe, 1.0}}),
     "x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta", infer_local_response,
     run_local_response},
};

}  // namespace

std::span<const Op> ops_normalization() { return kOps; }

}  // namespace anemone::ops
