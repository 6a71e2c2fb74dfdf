#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
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

std::vector<float> weights(std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> w(kRows * kColumns);
  for (float& v : w) v = round_to_half(normal(random));
  return w;
}

Weight weight_of(const std::vector<float>& w) {
  static std::list<Constant> constants;  // what is stored refers to them
  const Constant& constant =
      constants.emplace_back(Constant::numbers(w, DType::fp16, {kRows, kColumns, 1, 1}));
  Weight weight;
  weight.name = "w";
  weight.type = constant.type;
  weight.stored = stored_constant(constant);
  return weight;
}

StorageForm form_of(const std::string& rule) {
  return parse_recipe(R"({"rules": [)" + rule + "]}").rules[0].form;
}

constexpr const char* kForms[] = {R"({"palettize": 2})",
                                  R"({"palettize": {"bits": 3, "group": 8}})",
                                  R"({"palettize": {"bits": 3, "channel_scale": true}})",
                                  R"({"palettize": 4, "prune": 0.3})",
                                  R"({"quantize": "int4"})",
                                  R"({"quantize": {"type": "uint4", "symmetric": false}})",
                                  R"({"quantize": {"type": "int4", "block": 8}})",
                                  R"({"quantize": {"type": "int4", "per": "tensor"}})"};

}  // namespace

TEST_CASE("the factor of the inverse gives the inverse back") {
  std::mt19937 random(4);
  ThreadPool pool(2);
  const std::vector<float> x = inputs(random);
  Hessian h(kColumns);
  h.add(x.data(), kTokens, pool);
  // Of every 64 tokens the last 16 are kept aside; the others count alike, whatever their length.
  std::vector<std::vector<double>> tokens;
  for (int64_t t = 0; t < kTokens; ++t) {
    if (t % 64 >= 48) continue;
    std::vector<double> v;
    for (int64_t c = 0; c < kColumns; ++c)
      v.push_back(static_cast<double>(x[static_cast<size_t>(c * kTokens + t)]));
    const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    for (double& e : v) e /= length;
    tokens.push_back(v);
  }
  const auto count = static_cast<double>(tokens.size());
  CHECK(h.tokens() == static_cast<int64_t>(tokens.size()));
  CHECK(h.aside() == kTokens - h.tokens());
  double variances = 0, squares = 0, trace = 0;
  std::vector<double> full(kColumns * kColumns);
  for (size_t i = 0; i < kColumns; ++i)
    for (size_t j = 0; j < kColumns; ++j) {
      double sum = 0, square = 0;
      for (const auto& v : tokens) sum += v[i] * v[j], square += v[i] * v[j] * v[i] * v[j];
      full[i * kColumns + j] = sum;
      if (i == j) {
        trace += sum;
        CHECK(static_cast<double>(h.diagonal()[i]) == doctest::Approx(sum / count).epsilon(1e-4));
      } else {
        variances += (square / count - sum / count * sum / count) / count;
        squares += sum / count * sum / count;
      }
    }
  // What is known of pairs from so few tokens: their variance against their squares.
  CHECK(h.shrinkage() == doctest::Approx(variances / squares).epsilon(1e-3));
  CHECK(h.shrinkage() > 0);
  const double pairs = 1 - h.shrinkage();
  h.factor();
  // H (U^T U) is one, with the pairs drawn to zero and 1% of the mean diagonal added.
  const auto entry = [&](int64_t i, int64_t j) {
    const auto a = static_cast<size_t>(h.order()[static_cast<size_t>(i)]),
               b = static_cast<size_t>(h.order()[static_cast<size_t>(j)]);
    return full[a * kColumns + b] * (i == j ? 1 : pairs) + (i == j ? 0.01 * trace / kColumns : 0);
  };
  for (int64_t i = 0; i < kColumns; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      double one = 0;
      for (int64_t k = 0; k < kColumns; ++k) {
        double inverse = 0;
        for (int64_t m = 0; m <= std::min(k, j); ++m)
          inverse += static_cast<double>(h.factor_row(m)[k]) * static_cast<double>(h.factor_row(m)[j]);
        one += entry(i, k) * inverse;
      }
      CHECK(one == doctest::Approx(i == j ? 1.0 : 0.0).epsilon(0.01).scale(1));
    }
}

TEST_CASE("calibrated codes lose less of the output than the nearest ones") {
  std::mt19937 random(6);
  ThreadPool pool(2);
  const std::vector<float> x = inputs(random);
  const std::vector<float> w = weights(random);
  const Weight weight = weight_of(w);
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
    const StorageForm form = form_of(rule);
    const double plain = lost(*encode(weight, form, pool)),
                 calibrated = lost(*encode(weight, form, pool, &h));
    CHECK(calibrated < 0.6 * plain);
  }
}

TEST_CASE("what a calibrated weight costs is what its codes cost on the tokens kept aside") {
  std::mt19937 random(8);
  ThreadPool pool(2);
  const std::vector<float> x = inputs(random), w = weights(random);
  const Weight weight = weight_of(w);
  Hessian h(kColumns);
  h.add(x.data(), kTokens, pool);
  h.factor();
  for (const char* rule : kForms) {
    CAPTURE(rule);
    const auto e = encode(weight, form_of(rule), pool, &h);
    // The codes as they are written: decoded row by row.
    std::vector<uint8_t> codes(kRows * kColumns), kept(kRows * kColumns, 1);
    e->codes(0, kRows, codes.data());
    if (e->mask) e->mask->rows(0, kRows, kept.data());
    double expected = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      if (t % 64 < 48) continue;
      double length = 0, out = 0;
      for (int64_t c = 0; c < kColumns; ++c)
        length += std::pow(static_cast<double>(x[static_cast<size_t>(c * kTokens + t)]), 2);
      for (int64_t r = 0; r < kRows; ++r) {
        double y = 0;
        for (int64_t c = 0; c < kColumns; ++c) {
          const auto i = static_cast<size_t>(r * kColumns + c);
          const double q = kept[i] ? static_cast<double>(e->value(r, c, codes[i])) : 0.0;
          y += (static_cast<double>(w[i]) - q) * static_cast<double>(x[static_cast<size_t>(c * kTokens + t)]);
        }
        out += y * y;
      }
      expected += out / length;
    }
    CHECK(cost_of(*e, weight, h, pool) == doctest::Approx(expected).epsilon(1e-3));
    const double plain = cost_of(*encode(weight, form_of(rule), pool), weight, h, pool);
    CHECK(e->calibrated);
    CHECK(expected < plain);
  }
}

TEST_CASE("calibration that does not carry over to other tokens is not used") {
  std::mt19937 random(9);
  ThreadPool pool(2);
  std::normal_distribution<float> normal;
  // The tokens that are fitted lie on one line; those kept aside are anything.
  std::vector<float> x(kColumns * kTokens), line(kColumns);
  for (float& v : line) v = normal(random);
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t c = 0; c < kColumns; ++c)
      x[static_cast<size_t>(c * kTokens + t)] =
          t % 64 >= 48 ? normal(random) : line[static_cast<size_t>(c)] + 0.01f * normal(random);
  Hessian h(kColumns);
  h.add(x.data(), kTokens, pool);
  h.factor();
  const std::vector<float> w = weights(random);
  const Weight weight = weight_of(w);
  for (const char* rule : kForms) {
    CAPTURE(rule);
    const auto plain = encode(weight, form_of(rule), pool), e = encode(weight, form_of(rule), pool, &h);
    CHECK(cost_of(*e, weight, h, pool) <= cost_of(*plain, weight, h, pool));
  }
  CHECK_FALSE(encode(weight, form_of(R"({"quantize": "int4"})"), pool, &h)->calibrated);
}
