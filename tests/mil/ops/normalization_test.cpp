#include <doctest/doctest.h>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

// Reference values: numpy in float64.
const std::vector<float> kX{1, 2, 4, -3, 0.5f, 7, 2, 2, 9, -1, 3, 6};

OpTester with_affine(const char* op) {
  OpTester t(op);
  t.in("x", {2, 3, 2}, kX).weight("gamma", {3}, {2, 1, 3}).weight("beta", {3}, {0, 1, -1});
  return t;
}

}  // namespace

TEST_CASE("batch_norm uses the moments given per channel") {
  CHECK(near(with_affine("batch_norm")
                 .weight("mean", {3}, {1, 2, 3})
                 .weight("variance", {3}, {4, 1, 9})
                 .run()[0]
                 .floats,
             {0, 0.99999875f, 2.99999f, -3.999975f, -3.4999986f, 2.9999978f, 0.99999875f, 0.99999875f,
              7.999965f, -1.999985f, -1, 1.9999983f}));
  CHECK_THROWS_AS(
      with_affine("batch_norm").weight("mean", {2}, {1, 2}).weight("variance", {3}, {4, 1, 9}).run(), Error);
}

TEST_CASE("batch_norm takes parameters of another floating type, as packages have them") {
  const auto on = [](Opset opset) {
    OpTester t("batch_norm", opset);
    t.in("x", {1, 1, 1}, {3}).weight("mean", {1}, {1}, DType::fp16).weight("variance", {1}, {1}, DType::fp16);
    return t.set("epsilon", 0.0f).infer()[0].dtype;
  };
  CHECK(on(Opset::ios17) == DType::fp32);
  CHECK(on(Opset::ios15) == DType::fp16);
}

TEST_CASE("instance_norm takes the moments of each channel") {
  CHECK(near(with_affine("instance_norm").set("epsilon", 0.01f).run()[0].floats,
             {-1.9611614f, 1.9611614f, 1.9995921f, 0.00040791354f, -3.9985809f, 1.9985809f, 0, 0, 1.9998001f,
              0.00019994002f, -3.9933555f, 1.9933555f}));
  const Type symbolic = Type::tensor(DType::fp16, {1, 3, Dim::symbol(1), 4});
  CHECK(OpTester("instance_norm").of_type("x", symbolic).infer()[0] == symbolic);
  CHECK_THROWS_AS(OpTester("instance_norm").of_type("x", symbolic).weight("gamma", {2}, {1, 2}).infer(),
                  Error);
}

TEST_CASE("l2_norm sums over the last three dimensions") {
  CHECK(near(OpTester("l2_norm").in("x", {2, 1, 3, 2}, kX).run()[0].floats,
             {0.11233119f, 0.22466238f, 0.44932476f, -0.33699357f, 0.056165595f, 0.78631833f, 0.17213259f,
              0.17213259f, 0.77459667f, -0.086066296f, 0.25819889f, 0.51639778f}));
  CHECK_THROWS_AS(OpTester("l2_norm").in("x", {6, 2}, kX).run(), Error);
}

TEST_CASE("local_response_norm sums over neighbouring channels") {
  const auto run = [](int size, float k) {
    return OpTester("local_response_norm")
        .in("x", {1, 3, 2, 2}, kX)
        .set("size", size)
        .set("alpha", 0.5f)
        .set("k", k)
        .run()[0]
        .floats;
  };
  CHECK(near(run(2, 1), {0.84589701f, 1.1892071f, 1.196279f, -1.2393921f, 0.40775146f, 0.9544142f,
                         0.52169486f, 0.6756757f, 0.90733301f, -0.14198736f, 1.0135135f, 0.99336016f}));
  CHECK(near(run(3, 2), {0.55201583f, 0.33493337f, 1.1397535f, -1.0286786f, 0.063368353f, 1.1589202f,
                         0.47321177f, 0.35127404f, 1.1497921f, -0.17350807f, 1.0286786f, 1.1878516f}));
  // Rank 3: the values that coremltools' own test expects of Core ML.
  CHECK(near(OpTester("local_response_norm")
                 .in("x", {1, 3, 2}, {1, -7, 5, -6, -3, -5})
                 .set("size", 3)
                 .run()[0]
                 .floats,
             {0.99997497f, -6.99143696f, 4.99687672f, -5.99460602f, -2.99932504f, -4.99687672f}));
  CHECK_THROWS_AS(OpTester("local_response_norm").in("x", {1, 3, 2, 2}, kX).set("size", 0).run(), Error);
}
