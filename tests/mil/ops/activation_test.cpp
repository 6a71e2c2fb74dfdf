#include <doctest/doctest.h>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

const std::vector<float> kX{-2.0f, -0.5f, 0.0f, 0.75f, 3.0f};

OpTester on_x(const char* op) { return std::move(OpTester(op).in("x", {5}, kX)); }

}  // namespace

TEST_CASE("activations without parameters give the values of numpy in float64") {
  struct Row {
    const char* op;
    std::vector<float> expected;
  };
  const Row rows[] = {
      {"relu", {0, 0, 0, 0.75f, 3}},
      {"relu6", {0, 0, 0, 0.75f, 3}},
      {"sigmoid", {0.11920292f, 0.37754067f, 0.5f, 0.67917870f, 0.95257413f}},
      {"silu", {-0.23840584f, -0.18877033f, 0, 0.50938402f, 2.85772238f}},
      {"softplus", {0.12692801f, 0.47407698f, 0.69314718f, 1.13687101f, 3.04858735f}},
      {"softsign", {-0.66666667f, -0.33333333f, 0, 0.42857143f, 0.75f}},
      {"gelu", {-0.04550026f, -0.15426877f, 0, 0.58002949f, 2.99595031f}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CHECK(near(on_x(row.op).run()[0].floats, row.expected));
  }
  CHECK(OpTester("relu6").in("x", {2}, {6.5f, -1}).run()[0].floats == std::vector<float>{6, 0});
}

TEST_CASE("gelu has three modes and refuses others") {
  CHECK(near(on_x("gelu").set("mode", "TANH_APPROXIMATION").run()[0].floats,
             {-0.04540231f, -0.15428599f, 0, 0.57996056f, 2.99636261f}));
  CHECK(near(on_x("gelu").set("mode", "SIGMOID_APPROXIMATION").run()[0].floats,
             {-0.06434138f, -0.14961156f, 0, 0.58639006f, 2.98192869f}));
  CHECK_THROWS_AS(on_x("gelu").set("mode", "FAST").infer(), Error);
}

TEST_CASE("softplus and sigmoid do not overflow") {
  CHECK(
      near(OpTester("softplus").in("x", {3}, {1000, -1000, -20}).run()[0].floats, {1000, 0, 2.06115362e-9f}));
  CHECK(OpTester("sigmoid").in("x", {2}, {1000, -1000}).run()[0].floats == std::vector<float>{1, 0});
  CHECK(OpTester("silu").in("x", {2}, {1000, -1000}).run()[0].floats == std::vector<float>{1000, 0});
}

TEST_CASE("activations with parameters") {
  CHECK(near(on_x("elu").set("alpha", 0.5f).run()[0].floats, {-0.43233236f, -0.19673467f, 0, 0.75f, 3}));
  CHECK(near(on_x("leaky_relu").set("alpha", 0.1f).run()[0].floats, {-0.2f, -0.05f, 0, 0.75f, 3}));
  CHECK(on_x("thresholded_relu").set("alpha", 0.75f).run()[0].floats ==
        std::vector<float>{0, 0, 0, 0.75f, 3});
  CHECK(on_x("clamped_relu").set("alpha", 2.0f).set("beta", 1.0f).run()[0].floats ==
        std::vector<float>{-4, -1, 0, 0.75f, 1});
  CHECK(on_x("clamped_relu").set("alpha", 2.0f).set("beta", -1.5f).run()[0].floats ==
        std::vector<float>{-4, -1.5f, -1.5f, -1.5f, -1.5f});
  CHECK(on_x("linear_activation").set("alpha", 2.0f).set("beta", 1.0f).run()[0].floats ==
        std::vector<float>{-3, 0, 1, 2.5f, 7});
  CHECK(near(on_x("scaled_tanh").set("alpha", 1.5f).set("beta", 0.5f).run()[0].floats,
             {-1.14239123f, -0.36737799f, 0, 0.53753610f, 1.35772238f}));
  CHECK(on_x("sigmoid_hard").set("alpha", 0.5f).set("beta", 0.5f).run()[0].floats ==
        std::vector<float>{0, 0.25f, 0.5f, 0.875f, 1});
  CHECK_THROWS_AS(on_x("elu").run(), Error);
}

TEST_CASE("prelu and softplus_parametric take one parameter per channel") {
  const auto prelu =
      OpTester("prelu").in("x", {1, 2, 2}, {-1, 2, 3, -4}).weight("alpha", {2}, {0.5f, 0.25f}).run();
  CHECK(prelu[0].floats == std::vector<float>{-0.5f, 2, 3, -1});
  const auto soft = OpTester("softplus_parametric")
                        .in("x", {1, 2, 2}, {-1, 2, 3, -4})
                        .weight("alpha", {2}, {2, 0.5f})
                        .weight("beta", {2}, {0.5f, 1})
                        .run();
  CHECK(near(soft[0].floats, {0.94815397f, 2.62652338f, 1.52429368f, 0.00907496f}));
  const Type symbolic = Type::tensor(DType::fp32, {Dim::symbol(1), 2, Dim::symbol(2), 4});
  CHECK(OpTester("prelu").of_type("x", symbolic).weight("alpha", {2}, {1, 2}).infer()[0] == symbolic);
  CHECK_THROWS_AS(OpTester("prelu").of_type("x", symbolic).weight("alpha", {3}, {1, 2, 3}).infer(), Error);
  CHECK_THROWS_AS(OpTester("prelu").in("x", {2}, {1, 2}).weight("alpha", {2}, {1, 2}).infer(), Error);
}
