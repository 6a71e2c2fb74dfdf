#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

const float kInf = std::numeric_limits<float>::infinity();

std::vector<float> run(const char* op, std::vector<float> x) {
  const auto n = static_cast<int64_t>(x.size());
  return OpTester(op).in("x", {n}, std::move(x)).run()[0].floats;
}

std::vector<int32_t> run_ints(const char* op, std::vector<int32_t> x) {
  const auto n = static_cast<int64_t>(x.size());
  return OpTester(op).in_ints("x", {n}, std::move(x)).run()[0].ints;
}

}  // namespace

TEST_CASE("unary functions give the values of the tables") {
  struct Row {
    const char* op;
    float x, expected;
  };
  // Reference values: numpy in float64.
  const Row rows[] = {
      {"acos", 0.5f, 1.0471975512f},  {"asin", 0.5f, 0.5235987756f}, {"atan", 2.0f, 1.1071487178f},
      {"atanh", 0.5f, 0.5493061443f}, {"cos", 2.0f, -0.4161468365f}, {"cosh", 2.0f, 3.7621956911f},
      {"erf", 0.5f, 0.5204998778f},   {"exp", 2.0f, 7.3890560989f},  {"exp2", 0.5f, 1.4142135624f},
      {"log", 2.0f, 0.6931471806f},   {"sin", 2.0f, 0.9092974268f},  {"sinh", 2.0f, 3.6268604078f},
      {"sqrt", 2.0f, 1.4142135624f},  {"tan", 2.0f, -2.1850398633f}, {"tanh", 0.5f, 0.4621171573f},
      {"rsqrt", 4.0f, 0.5f},          {"inverse", 2.0f, 0.499975f},  {"square", -3.0f, 9.0f},
      {"abs", -3.5f, 3.5f},           {"ceil", -1.5f, -1.0f},        {"floor", -1.5f, -2.0f},
      {"sign", -0.25f, -1.0f},        {"sign", 0.0f, 0.0f},          {"sign", 7.0f, 1.0f},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CHECK(run(row.op, {row.x})[0] == doctest::Approx(row.expected).epsilon(1e-6));
  }
  CHECK(run("round", {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4f}) == std::vector<float>{0, 2, 2, 0, -2, 2});
}

TEST_CASE("epsilon has its defaults, in the precision of x") {
  CHECK(run("log", {0})[0] == doctest::Approx(-103.2789));
  CHECK(run("rsqrt", {0})[0] == doctest::Approx(1e6));
  CHECK(run("inverse", {0})[0] == doctest::Approx(1e4));
  CHECK(OpTester("log").in("x", {1}, {0}, DType::fp16).run()[0].floats[0] == -kInf);
  CHECK(OpTester("rsqrt").in("x", {1}, {0}, DType::fp16).run()[0].floats[0] == kInf);
  CHECK(OpTester("inverse").in("x", {1}, {0.5f}).set("epsilon", 0.5f, DType::fp16).run()[0].floats[0] == 1);
  CHECK_THROWS_AS(OpTester("inverse", Opset::ios15).in("x", {1}, {1}).set("epsilon", 0.5f, DType::fp16).run(),
                  Error);
}

TEST_CASE("integers wrap around instead of overflowing") {
  CHECK(run_ints("abs", {-5, INT32_MIN}) == std::vector<int32_t>{5, INT32_MIN});
  CHECK(run_ints("square", {-5, 65536, 65537}) == std::vector<int32_t>{25, 0, 131073});
  CHECK(run_ints("sign", {-5, 0, 9}) == std::vector<int32_t>{-1, 0, 1});
  CHECK(run_ints("exp2", {0, 10, -1}) == std::vector<int32_t>{1, 1024, 0});
}

TEST_CASE("clip and threshold hold values within bounds") {
  CHECK(OpTester("clip").in("x", {3}, {-2, 0.5f, 7}).set("alpha", 0.0f).set("beta", 6.0f).run()[0].floats ==
        std::vector<float>{0, 0.5f, 6});
  CHECK_THROWS_AS(OpTester("clip").in("x", {1}, {0}).set("alpha", 1.0f).set("beta", 1.0f).run(), Error);
  CHECK(OpTester("clip", Opset::ios15)
            .in("x", {1}, {0})
            .set("alpha", 1.0f)
            .set("beta", 1.0f)
            .run()[0]
            .floats[0] == 1);
  CHECK(OpTester("threshold").in("x", {2}, {-2, 3}).set("alpha", 1.5f).run()[0].floats ==
        std::vector<float>{1.5f, 3});
  CHECK(OpTester("threshold").in_ints("x", {2}, {-2, 3}).set("alpha", 1).run()[0].ints ==
        std::vector<int32_t>{1, 3});
}

TEST_CASE("cast truncates, saturates and wraps") {
  const auto cast = [](std::vector<float> x, const char* to) {
    const auto n = static_cast<int64_t>(x.size());
    return OpTester("cast").in("x", {n}, std::move(x)).set("dtype", to).run()[0].ints;
  };
  CHECK(cast({-1.9f, 1.9f, 1e20f, -kInf, NAN}, "int32") ==
        std::vector<int32_t>{-1, 1, INT32_MAX, INT32_MIN, 0});
  CHECK(cast({-1.9f, 300, 12.7f}, "uint8") == std::vector<int32_t>{0, 255, 12});
  CHECK(cast({0, -0.25f, 3}, "bool") == std::vector<int32_t>{0, 1, 1});
  const auto narrow = OpTester("cast").in_ints("x", {3}, {300, -1, 128}).set("dtype", "int8").run();
  CHECK(narrow[0].type == Type::tensor(DType::int8, {3}));
  CHECK(narrow[0].ints == std::vector<int32_t>{44, -1, -128});
  CHECK(OpTester("cast").in_ints("x", {2}, {-1, 65537}).set("dtype", "uint16").run()[0].ints ==
        std::vector<int32_t>{65535, 1});
  const auto back = OpTester("cast").in_ints("x", {}, {1}, DType::boolean).set("dtype", "fp16").run();
  CHECK(back[0].type == Type::tensor(DType::fp16));
  CHECK(back[0].floats == std::vector<float>{1});
  CHECK_THROWS_AS(OpTester("cast").in("x", {1}, {1}).set("dtype", "string").run(), Error);
  CHECK_THROWS_AS(OpTester("cast").in("x", {1}, {1}).set("dtype", "none").run(), Error);
}

TEST_CASE("unary ops keep symbols, take rank 0 and empty tensors, and refuse other types") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1)});
  CHECK(OpTester("tanh").of_type("x", symbolic).infer()[0] == symbolic);
  CHECK(OpTester("exp").in("x", {}, {0}).run()[0].floats == std::vector<float>{1});
  CHECK(OpTester("exp").in("x", {0, 3}, {}).run()[0].floats.empty());
  CHECK(OpTester("logical_not").in_ints("x", {2}, {0, 1}, DType::boolean).run()[0].ints ==
        std::vector<int32_t>{1, 0});
  CHECK_THROWS_AS(OpTester("exp").in_ints("x", {1}, {1}).run(), Error);
}
