#include <doctest/doctest.h>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

// Reference values: numpy in float64.
const std::vector<float> kX{1, 2, 4, -3, 0.5f, 7, 2, 2, 9, -1, 3, 6};

OpTester on_x() { return std::move(OpTester("layer_norm").in("x", {2, 3, 2}, kX)); }

}  // namespace

TEST_CASE("layer_norm over the last axis, over another and over two that are apart") {
  CHECK(near(
      on_x().set("axes", {2}).weight("gamma", {2}, {2, 0.5f}).weight("beta", {2}, {1, -1}).run()[0].floats,
      {-0.99996f, -0.50001f, 2.9999992f, -1.4999998f, -0.99999905f, -0.50000024f, 1, -1, 2.9999996f,
       -1.4999999f, -0.99999556f, -0.50000111f}));
  CHECK(near(
      on_x().set("axes", {-2}).weight("gamma", {3}, {1, 2, 3}).weight("beta", {3}, {0, 0, 1}).run()[0].floats,
      {-0.53916274f, 0, 2.8036462f, -2.449489f, -1.5879811f, 4.6742335f, -0.86266173f, -0.11624757f,
       2.8036506f, -2.3249514f, -0.61749075f, 4.8361697f}));
  CHECK(near(on_x().set("axes", {0, 2}).weight("gamma", {2, 2}, {1, 2, 3, 4}).run()[0].floats,
             {-1.7320046f, 1.1546697f, 0.3757796f, -2.2546776f, -1.4167416f, 2.2472453f, 1.7320046f,
              2.3093395f, 4.3483068f, -2.7915056f, -1.3190353f, 2.9311896f}));
}

TEST_CASE("layer_norm over several axes and over all of them") {
  CHECK(near(on_x().set("axes", {2, 1}).run()[0].floats,
             {-0.29686376f, 0.026987615f, 0.67469037f, -1.5922693f, -0.45878945f, 1.6462445f, -0.46852106f,
              -0.46852106f, 1.7179105f, -1.4055632f, -0.15617369f, 0.78086843f}));
  CHECK(near(on_x().set("epsilon", 0.5f).run()[0].floats,
             {-0.51463534f, -0.21338539f, 0.38911453f, -1.7196352f, -0.66526032f, 1.2928644f, -0.21338539f,
              -0.21338539f, 1.8953643f, -1.1171353f, 0.087864571f, 0.99161444f}));
}

TEST_CASE("layer_norm keeps symbols and checks gamma and the axes") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1), 2});
  const auto on = [&] { return std::move(OpTester("layer_norm").of_type("x", symbolic)); };
  CHECK(on().set("axes", {-1}).weight("gamma", {2}, {1, 1}).infer()[0] == symbolic);
  CHECK_THROWS_AS(on().set("axes", {-1}).weight("gamma", {3}, {1, 1, 1}).infer(), Error);
  CHECK_THROWS_AS(on().set("axes", {3}).infer(), Error);
  CHECK_THROWS_AS(on().set("axes", {2, -1}).infer(), Error);
}
