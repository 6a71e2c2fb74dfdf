#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "compress/hessian.h"
#include "compress/recipe.h"

using namespace anemone;

namespace {

constexpr int64_t kRows = 16, kColumns = 24, kTokens = 200;

// Inputs that go together, as those of real layers do: a few directions, and a little of everything.
std::vector<float> inputs(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> mix(kColumns * 4), x(kColumns * kTokens);
  for (float& v : mix) v = normal(random);
  for (int64_t t = 0; t < kTokens; ++t) {
    float hidden[4];
    for (float& v : hidden) v = normal(random);
    for (int64_t c = 0; c < kColumns; ++c) {
      float v = 0.1f * normal(random);
      for (int64_t k = 0; k < 4; ++k) v += mix[static_cast<size_t>(c * 4 + k)] * hidden[k];
      x[static_cast<size_t>(c * kTokens + t)] = v * (c % 5 == 0 ? 4.0f : 1.0f);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("the factor of the inverse gives the inverse back") {
  std::mt19937 random(4);
  ThreadPool pool(2);
  const std::vector<float> x = inputs(random);
  Hessian h(kColumns);
  h.add(x.data(), kTokens, pool);
  CHECK(h.tokens() == kTokens);
  double first = 0;
  for (int64_t t = 0; t < kTokens; ++t)
    first += std::pow(static_cast<double>(x[static_cast<size_t>(t)]), 2) / kTokens;
  CHECK(static_cast<double>(h.diagonal()[0]) == doctest::Approx(first).epsilon(1e-4));
  h.factor();
  // H (U^T U) is one, but for the damping: 1% of the mean diagonal.
  std::vector<double> full(kColumns * kColumns);
  double trace = 0;
  const auto at = [&](int64_t c, int64_t t) {
    return static_cast<double>(
        x[static_cast<size_t>(int64_t{h.order()[static_cast<size_t>(c)]} * kTokens + t)]);
  };
  for (int64_t i = 0; i < kColumns; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t t = 0; t < kTokens; ++t)
        full[static_cast<size_t>(i * kColumns + j)] += at(i, t) * at(j, t);
      if (i == j) trace += full[static_cast<size_t>(i * kColumns + j)];
    }
  for (int64_t i = 0; i < kColumns; ++i)
    full[static_cast<size_t>(i * kColumns + i)] += 0.01 * trace / kColumns;
  for (int64_t i = 0; i < kColumns; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      double one = 0;
      for (int64_t k = 0; k < kColumns; ++k) {
        double inverse = 0;
        for (int64_t m = 0; m <= std::min(k, j); ++m)
          inverse += static_cast<double>(h.factor_row(m)[k]) * static_cast<double>(h.factor_row(m)[j]);
        one += full[static_cast<size_t>(i * kColumns + k)] * inverse;
      }
      CHECK(one == doctest::Approx(i == j ? 1.0 : 0.0).epsilon(0.01).scale(1));
    }
}

TEST_CASE("calibrated codes lose less of the output than the nearest ones") {
  std::mt19937 random(6);
  ThreadPool pool(2);
  const std::vector<float> x = inputs(random);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> w(kRows * kColumns);
  for (float& v : w) v = round_to_half(normal(random));
  const Constant constant = Constant::numbers(w, DType::fp16, {kRows, kColumns, 1, 1});
  Weight weight;
  weight.name = "w";
  weight.type = constant.type;
  weight.stored = stored_constant(constant);
  Hessian h(kColumns);
  h.add(x.data(), kTokens, pool);
  h.factor();
  // What the outputs differ by, over the tokens that were seen.
  const auto lost = [&](const Encoded& e) {
    std::vector<uint8_t> codes(kRows * kColumns);
    e.codes(0, kRows, codes.data());
    double out = 0;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t t = 0; t < kTokens; ++t) {
        double y = 0;
        for (int64_t c = 0; c < kColumns; ++c) {
          const auto i = static_cast<size_t>(r * kColumns + c);
          // The value of a code: that of the entry which is nearest to itself.
          const double q = e.form.palette ? static_cast<double>(e.tables[codes[i]])
                                          : static_cast<double>(e.scales[static_cast<size_t>(r)]) *
                                                static_cast<int8_t>(codes[i] << 4) / 16;
          y += (q - static_cast<double>(w[i])) * static_cast<double>(x[static_cast<size_t>(c * kTokens + t)]);
        }
        out += y * y;
      }
    return out;
  };
  for (const char* rule : {R"({"palettize": 2})", R"({"palettize": 3})", R"({"quantize": "int4"})"}) {
    CAPTURE(rule);
    const StorageForm form = parse_recipe(std::string(R"({"rules": [)") + rule + "]}").rules[0].form;
    const double plain = lost(*encode(weight, form, pool)),
                 calibrated = lost(*encode(weight, form, pool, &h));
    CHECK(calibrated < 0.6 * plain);
  }
}
