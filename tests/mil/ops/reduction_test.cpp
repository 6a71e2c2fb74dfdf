#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

const float kInf = std::numeric_limits<float>::infinity();

OpTester on_floats(const char* op) { return std::move(OpTester(op).in("x", {2, 3}, {1, -2, 3, 4, 5, -6})); }
OpTester on_ints(const char* op) {
  return std::move(OpTester(op).in_ints("x", {2, 3}, {1, -2, 3, 4, 5, -6}));
}

}  // namespace

TEST_CASE("reductions of floats over each axis") {
  struct Row {
    const char* op;
    std::vector<float> axis0, axis1;
  };
  const Row rows[] = {
      {"reduce_sum", {5, 3, -3}, {2, 3}},
      {"reduce_mean", {2.5f, 1.5f, -1.5f}, {0.66666667f, 1}},
      {"reduce_max", {4, 5, 3}, {3, 5}},
      {"reduce_min", {1, -2, -6}, {-2, -6}},
      {"reduce_prod", {4, -10, -18}, {-6, -120}},
      {"reduce_sum_square", {17, 29, 45}, {14, 77}},
      {"reduce_l1_norm", {5, 7, 9}, {6, 15}},
      {"reduce_l2_norm", {4.12310563f, 5.38516481f, 6.70820393f}, {3.74165739f, 8.77496439f}},
      {"reduce_log_sum_exp", {4.04858735f, 5.00091147f, 3.0001234f}, {3.13284523f, 5.3132739f}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CHECK(near(on_floats(row.op).set("axes", {0}).run()[0].floats, row.axis0));
    CHECK(near(on_floats(row.op).set("axes", {-1}).run()[0].floats, row.axis1));
  }
  CHECK(near(on_floats("reduce_log_sum").set("axes", {1}).run()[0].floats, {0.69314718f, 1.09861229f}));
}

TEST_CASE("reductions of integers wrap around or go toward zero") {
  const auto rows = [](const char* op) { return on_ints(op).set("axes", {0}).run()[0].ints; };
  CHECK(rows("reduce_sum") == std::vector<int32_t>{5, 3, -3});
  CHECK(rows("reduce_mean") == std::vector<int32_t>{2, 1, -1});
  CHECK(rows("reduce_max") == std::vector<int32_t>{4, 5, 3});
  CHECK(rows("reduce_min") == std::vector<int32_t>{1, -2, -6});
  CHECK(rows("reduce_prod") == std::vector<int32_t>{4, -10, -18});
  CHECK(rows("reduce_sum_square") == std::vector<int32_t>{17, 29, 45});
  CHECK(rows("reduce_l1_norm") == std::vector<int32_t>{5, 7, 9});
  CHECK(rows("reduce_l2_norm") == std::vector<int32_t>{4, 5, 6});
  CHECK(rows("reduce_log_sum_exp") == std::vector<int32_t>{4, 5, 3});
  CHECK(rows("reduce_log_sum") == std::vector<int32_t>{1, 1, 0});
  CHECK(OpTester("reduce_sum").in_ints("x", {2}, {INT32_MAX, 1}).run()[0].ints ==
        std::vector<int32_t>{INT32_MIN});
  CHECK(OpTester("reduce_sum_square").in_ints("x", {2}, {65536, 3}).run()[0].ints == std::vector<int32_t>{9});
  CHECK(OpTester("reduce_prod").in_ints("x", {2}, {65536, 65537}).run()[0].ints ==
        std::vector<int32_t>{65536});
}

TEST_CASE("several axes, kept dimensions, all axes, none") {
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto apart =
      OpTester("reduce_sum").in("x", {2, 3, 4}, x).set("axes", {0, 2}).set("keep_dims", true).run();
  CHECK(apart[0].type.shape == Shape{1, 3, 1});
  CHECK(apart[0].floats == std::vector<float>{60, 92, 124});
  const auto middle = OpTester("reduce_sum").in("x", {2, 3, 4}, x).set("axes", {1}).run();
  CHECK(middle[0].type.shape == Shape{2, 4});
  CHECK(middle[0].floats == std::vector<float>{12, 15, 18, 21, 48, 51, 54, 57});
  const auto front = OpTester("reduce_sum").in("x", {2, 3, 4}, x).set("axes", {0, 1}).run();
  CHECK(front[0].floats == std::vector<float>{60, 66, 72, 78});
  const auto all = OpTester("reduce_sum").in("x", {2, 3, 4}, x).run();
  CHECK(all[0].type == Type::tensor(DType::fp32));
  CHECK(all[0].floats == std::vector<float>{276});
  CHECK(
      OpTester("reduce_l1_norm").in("x", {2}, {-1, 2}).set("axes", std::vector<int64_t>{}).run()[0].floats ==
      std::vector<float>{1, 2});
  CHECK(OpTester("reduce_max").in("x", {}, {3}).run()[0].floats == std::vector<float>{3});
}

TEST_CASE("more outputs than are taken together, for any number of threads") {
  std::vector<float> x(5 * 3 * 200), expected(5 * 200);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 17);
    expected[i / 600 * 200 + i % 200] += x[i];
  }
  for (const int threads : {1, 3})
    CHECK(OpTester("reduce_sum").in("x", {5, 3, 200}, x).set("axes", {1}).run(threads)[0].floats == expected);
}

TEST_CASE("empty reductions give the neutral element") {
  CHECK(OpTester("reduce_sum").in("x", {2, 0}, {}).set("axes", {1}).run()[0].floats ==
        std::vector<float>{0, 0});
  CHECK(OpTester("reduce_prod").in("x", {0}, {}).run()[0].floats == std::vector<float>{1});
  CHECK(OpTester("reduce_max").in("x", {0}, {}).run()[0].floats == std::vector<float>{-kInf});
  CHECK(OpTester("reduce_sum").in("x", {0, 2}, {}).set("axes", {1}).run()[0].floats.empty());
}

TEST_CASE("log_sum_exp is stable and knows infinities") {
  const auto run = [](std::vector<float> x) {
    return OpTester("reduce_log_sum_exp").in("x", {static_cast<int64_t>(x.size())}, x).run()[0].floats[0];
  };
  CHECK(run({1000, 1000}) == doctest::Approx(1000.6931472));
  CHECK(run({-1000, -1000}) == doctest::Approx(-999.3068528));
  CHECK(run({-kInf, 2}) == doctest::Approx(2));
  CHECK(run({-kInf, -kInf}) == -kInf);
  CHECK(run({kInf, 1, kInf}) == kInf);
  CHECK(std::isnan(run({1, NAN, 2})));
}

TEST_CASE("argmax and argmin take the first of equals") {
  const auto run = [](const char* op, int axis) {
    return OpTester(op).in("x", {2, 3}, {1, 5, 5, 0, -2, -2}).set("axis", axis).run()[0].ints;
  };
  CHECK(run("reduce_argmax", -1) == std::vector<int32_t>{1, 0});
  CHECK(run("reduce_argmin", -1) == std::vector<int32_t>{0, 1});
  CHECK(run("reduce_argmax", 0) == std::vector<int32_t>{0, 0, 0});
  CHECK(OpTester("reduce_argmax").in("x", {4}, {1, NAN, 9, NAN}).run()[0].ints == std::vector<int32_t>{1});
  OpTester narrow("reduce_argmin");
  narrow.in_ints("x", {1, 2}, {3, 2}).set("keep_dims", true).set("output_dtype", "uint16");
  CHECK(narrow.run()[0].type == Type::tensor(DType::uint16, {1, 1}));
}

TEST_CASE("reductions keep symbols and refuse wrong axes") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1), 8});
  CHECK(OpTester("reduce_mean").of_type("x", symbolic).set("axes", {2}).infer()[0].shape ==
        Shape{1, Dim::symbol(1)});
  CHECK(OpTester("reduce_argmax").of_type("x", symbolic).set("axis", 0).infer()[0] ==
        Type::tensor(DType::int32, {Dim::symbol(1), 8}));
  CHECK_THROWS_AS(OpTester("reduce_mean").of_type("x", symbolic).set("axes", {3}).infer(), Error);
  CHECK_THROWS_AS(OpTester("reduce_mean").of_type("x", symbolic).set("axes", {1, -2}).infer(), Error);
  CHECK_THROWS_AS(OpTester("reduce_argmax").in("x", {2, 0}, {}).run(), Error);
  CHECK_THROWS_AS(OpTester("reduce_argmax").in("x", {2}, {1, 2}).set("output_dtype", "fp16").run(), Error);
  CHECK_THROWS_AS(
      OpTester("reduce_argmax", Opset::ios15).in("x", {2}, {1, 2}).set("output_dtype", "int32").run(), Error);
}
