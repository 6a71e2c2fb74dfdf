#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

constexpr int kCount = 100000;

// Draws of an op that takes a shape.
OpTester draw(const char* op, int seed = 7) {
  return std::move(OpTester(op).in_ints("shape", {2}, {kCount / 100, 100}).set("seed", seed));
}

double mean(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v);
  return sum / static_cast<double>(x.size());
}

double variance(const std::vector<float>& x) {
  const double m = mean(x);
  double sum = 0;
  for (const float v : x) sum += (static_cast<double>(v) - m) * (static_cast<double>(v) - m);
  return sum / static_cast<double>(x.size());
}

// Five standard errors of a mean of kCount draws.
double margin(double deviation) { return 5 * deviation / std::sqrt(double{kCount}); }

}  // namespace

TEST_CASE("a seed gives one result for any number of threads; -1 another each time") {
  for (const char* op : {"random_uniform", "random_normal", "random_bernoulli"}) {
    CAPTURE(op);
    const auto once = draw(op).run(1)[0].floats;
    CHECK(once == draw(op).run(4)[0].floats);
    CHECK(once != draw(op, 8).run(1)[0].floats);
    CHECK(draw(op, -1).run()[0].floats != draw(op, -1).run()[0].floats);
  }
}

TEST_CASE("draws have the moments of their distribution") {
  const auto uniform = draw("random_uniform").set("low", -1.0f).set("high", 3.0f).run()[0];
  CHECK(uniform.type == Type::tensor(DType::fp32, {kCount / 100, 100}));
  CHECK(std::abs(mean(uniform.floats) - 1) < margin(4 / std::sqrt(12.0)));
  CHECK(variance(uniform.floats) == doctest::Approx(16.0 / 12).epsilon(0.02));
  CHECK(*std::min_element(uniform.floats.begin(), uniform.floats.end()) >= -1);
  CHECK(*std::max_element(uniform.floats.begin(), uniform.floats.end()) < 3);
  const auto normal = draw("random_normal").set("mean", 2.0f).set("stddev", 3.0f).run()[0].floats;
  CHECK(std::abs(mean(normal) - 2) < margin(3));
  CHECK(variance(normal) == doctest::Approx(9).epsilon(0.03));
  const auto coins = draw("random_bernoulli").set("prob", 0.25f).run()[0].floats;
  CHECK(std::abs(mean(coins) - 0.25) < margin(std::sqrt(0.25 * 0.75)));
  CHECK(std::all_of(coins.begin(), coins.end(), [](float v) { return v == 0 || v == 1; }));
}

TEST_CASE("bounds that coincide and certain coins") {
  CHECK(OpTester("random_uniform")
            .in_ints("shape", {1}, {2})
            .set("low", 5.0f)
            .set("high", 5.0f)
            .run()[0]
            .floats == std::vector<float>{5, 5});
  CHECK(OpTester("random_bernoulli").in_ints("shape", {1}, {2}).set("prob", 1.0f).run()[0].floats ==
        std::vector<float>{1, 1});
  CHECK(OpTester("random_bernoulli").in_ints("shape", {1}, {2}).set("prob", 0.0f).run()[0].floats ==
        std::vector<float>{0, 0});
}

TEST_CASE("random_categorical draws by logits and by probabilities") {
  const auto run = [](const char* mode, std::vector<float> x) {
    return OpTester("random_categorical")
        .in("x", {2, 2}, std::move(x))
        .set("mode", mode)
        .set("size", kCount / 2)
        .set("seed", 3)
        .run()[0];
  };
  const float inf = std::numeric_limits<float>::infinity();
  const auto logits = run("logits", {0, std::log(3.0f), 0, -inf});
  CHECK(logits.type == Type::tensor(DType::fp32, {2, kCount / 2}));
  const std::vector<float> first(logits.floats.begin(), logits.floats.begin() + kCount / 2);
  const std::vector<float> second(logits.floats.begin() + kCount / 2, logits.floats.end());
  CHECK(std::abs(mean(first) - 0.75) < 2 * margin(std::sqrt(0.25 * 0.75)));
  CHECK(*std::max_element(second.begin(), second.end()) == 0);
  const auto probs = run("probs", {0.25f, 0.75f, 0, 1}).floats;
  CHECK(std::abs(mean({probs.begin(), probs.begin() + kCount / 2}) - 0.75) <
        2 * margin(std::sqrt(0.25 * 0.75)));
  CHECK(*std::min_element(probs.begin() + kCount / 2, probs.end()) == 1);
  for (const float v : run("probs", {NAN, -1, 0, 0}).floats) REQUIRE((v == 0 || v == 1));
}

TEST_CASE("random ops know their types before the values, and refuse wrong ones") {
  OpTester open("random_normal");
  open.of_type("shape", Type::tensor(DType::int32, {3})).set("mean", 0.0f, DType::fp16);
  CHECK(open.infer()[0] == Type::tensor(DType::fp16, Shape(3, Dim::unknown())));
  const Type symbolic = Type::tensor(DType::fp32, {Dim::symbol(1), 5});
  CHECK(OpTester("random_categorical").of_type("x", symbolic).infer()[0].shape == Shape{Dim::symbol(1), 1});
  CHECK_THROWS_AS(OpTester("random_uniform").in_ints("shape", {1}, {-1}).run(), Error);
  CHECK_THROWS_AS(OpTester("random_uniform").in_ints("shape", {}, {1}).run(), Error);
  CHECK_THROWS_AS(OpTester("random_categorical").of_type("x", symbolic).set("mode", "odds").infer(), Error);
  CHECK_THROWS_AS(OpTester("random_categorical").in("x", {2, 0}, {}).run(), Error);
}
