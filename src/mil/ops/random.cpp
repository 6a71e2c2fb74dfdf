// Random tensors. Element i comes from the seed and i alone, so a seed gives one result for any number of
// threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Counter {
 public:
  explicit Counter(uint64_t seed) : key_(mix(seed + 0x9e3779b97f4a7c15u)) {}
  uint64_t bits(int64_t i) const { return mix(key_ + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u); }
  // [0, 1), 53 bits.
  double uniform(int64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }

 private:
  uint64_t key_;
};

// A negative seed asks for another result at each call.
Counter counter(const OpCall& c) {
  const int64_t seed = c.integer("seed");
  if (seed >= 0) return Counter(static_cast<uint64_t>(seed));
  static const uint64_t start = (uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
  static std::atomic<uint64_t> calls{0};
  return Counter(mix(start + ++calls));
}

DType dtype_of(const OpCall& c, std::string_view param, std::string_view other) {
  if (c.has(param)) return c.type(param).dtype;
  return c.has(other) ? c.type(other).dtype : DType::fp32;
}

Types infer_shape(const OpCall& c, DType dtype) {
  const Type& shape = c.type("shape");
  if (shape.rank() != 1) throw errorf("'shape' must be a vector").found(shape.text());
  if (!shape.dim(0).known()) throw errorf("'shape' must have a fixed length");
  if (!c.known("shape"))
    return {Type::tensor(dtype, Shape(static_cast<size_t>(shape.dim(0).size()), Dim::unknown()))};
  const std::vector<int64_t> dims = c.integers("shape");
  for (const int64_t d : dims)
    if (d < 0) throw errorf("'shape' has a negative entry").found(fmt::format("{}", d));
  return {Type::tensor(dtype, dims)};
}

template <class F>
void fill(const OpCall& c, F f) {
  const Counter random = counter(c);
  float* out = c.out_floats();
  c.pool().parallel_for(c.out_type().size(), kMapGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = f(random, i);
  });
}

void run_uniform(const OpCall& c) {
  const double low = c.number("low"), high = c.number("high");
  // The rounding to float must not reach `high`, which does not belong to the interval.
  const float last = std::nextafter(static_cast<float>(high), static_cast<float>(low));
  fill(c, [=](const Counter& random, int64_t i) {
    const auto value = static_cast<float>(low + (high - low) * random.uniform(i));
    return high > low ? std::min(value, last) : value;
  });
}

void run_normal(const OpCall& c) {
  const double mean = c.number("mean"), deviation = c.number("stddev");
  fill(c, [=](const Counter& random, int64_t i) {  // Box and Muller
    const double u = 1 - random.uniform(2 * i), angle = 6.283185307179586 * random.uniform(2 * i + 1);
    return static_cast<float>(mean + deviation * std::sqrt(-2 * std::log(u)) * std::cos(angle));
  });
}

void run_bernoulli(const OpCall& c) {
  const double prob = c.number("prob");
  fill(c, [=](const Counter& random, int64_t i) { return random.uniform(i) < prob ? 1.0f : 0.0f; });
}

bool logits(const OpCall& c) {
  const std::string_view mode = c.text("mode");
  if (mode != "logits" && mode != "probs")
    throw errorf("unknown mode '{}'", mode).expected("logits or probs");
  return mode == "logits";
}

Types infer_categorical(const OpCall& c) {
  logits(c);
  const Type& x = c.type("x");
  if (x.rank() < 1) throw errorf("'x' must have a dimension of categories").found(x.text());
  if (x.shape.back() == Dim(0)) throw errorf("'x' has no categories to draw from");
  const int64_t size = c.integer("size");
  if (size < 0) throw errorf("'size' must not be negative").found(fmt::format("{}", size));
  Shape out = x.shape;
  out.back() = size;
  return {Type::tensor(x.dtype, out)};
}

// Running sums of the weights of one distribution.
void accumulate_weights(const float* x, std::vector<double>& sums, bool from_logits) {
  const float largest = from_logits ? *std::max_element(x, x + sums.size()) : 0.0f;
  double sum = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double weight =
        from_logits ? std::exp(static_cast<double>(x[i]) - static_cast<double>(largest)) : x[i];
    if (weight > 0) sum += weight;  // neither NaN nor negative
    sums[i] = sum;
  }
}

void run_categorical(const OpCall& c) {
  const Counter random = counter(c);
  const int64_t categories = c.type("x").dims().back(), size = c.integer("size");
  const bool from_logits = logits(c);
  if (c.out_type().size() == 0) return;
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(c.out_type().size() / size, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(categories));
    for (int64_t row = begin; row < end; ++row) {
      accumulate_weights(x + row * categories, sums, from_logits);
      for (int64_t i = row * size; i < (row + 1) * size; ++i) {
        const double place = random.uniform(i) * sums.back();
        const auto hit = std::upper_bound(sums.begin(), sums.end(), place) - sums.begin();
        out[i] = static_cast<float>(std::min<int64_t>(hit, categories - 1));
      }
    }
  });
}

const Param kShape{"shape", kInt32};
const Param kSeed{"seed", kInt32, 0, kOptional | kConst, int64_t{-1}};

Param number(std::string_view name, double fallback) {
  return {name, kFloat, 'T', kOptional | kConst, fallback};
}

const Op kOps[] = {
    {.name = "random_bernoulli",
     .versions = {{Opset::ios15, {kShape, number("prob", 0.5), kSeed}}},
     .doc = "1 with the probability given, else 0",
     .infer = [](const OpCall& c) { return infer_shape(c, dtype_of(c, "prob", "prob")); },
     .run = run_bernoulli,
     .random = true},
    {.name = "random_categorical",
     .versions = {{Opset::ios15,
                   {{"x", kFloat, 'T'},
                    {"mode", kString, 0, kOptional | kConst, "logits"},
                    {"size", kInt32, 0, kOptional | kConst, int64_t{1}},
                    kSeed}}},
     .doc = "`size` draws, with replacement, from the distributions in the last dimension",
     .infer = infer_categorical,
     .run = run_categorical,
     .random = true},
    {.name = "random_normal",
     .versions = {{Opset::ios15, {kShape, number("mean", 0), number("stddev", 1), kSeed}}},
     .doc = "normally distributed numbers",
     .infer = [](const OpCall& c) { return infer_shape(c, dtype_of(c, "mean", "stddev")); },
     .run = run_normal,
     .random = true},
    {.name = "random_uniform",
     .versions = {{Opset::ios15, {kShape, number("low", 0), number("high", 1), kSeed}}},
     .doc = "numbers evenly distributed over [low, high)",
     .infer = [](const OpCall& c) { return infer_shape(c, dtype_of(c, "low", "high")); },
     .run = run_uniform,
     .random = true},
};

}  // namespace

std::span<const Op> ops_random() { return kOps; }

}  // namespace anemone::ops
