#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

std::vector<float> pattern(int count, int step, int modulus, int shift) {
  std::vector<float> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<float>(i * step % modulus - shift));
  return out;
}

}  // namespace

// Expected values: the definition as nested loops in Python.
TEST_CASE("conv with groups, strides, dilations, padding and a bias") {
  OpTester tester("conv");
  tester.in("x", {1, 4, 4, 5}, pattern(80, 7, 11, 5))
      .weight("weight", {4, 2, 2, 3}, pattern(48, 5, 7, 3), DType::fp16)
      .weight("bias", {4}, {1, 2, 3, 4}, DType::fp16)
      .set("strides", {2, 1})
      .set("dilations", {1, 2})
      .set("pad_type", "custom")
      .set("pad", {1, 1, 0, 0})
      .set("groups", 2);
  const auto out = tester.run()[0];
  CHECK(out.type.shape == Shape{1, 4, 3, 1});
  CHECK(out.floats == std::vector<float>{10, 35, 13, -29, 0, 2, -28, 37, 12, 21, 36, -27});
}

TEST_CASE("conv of one position is a product, with a run-time weight too") {
  const auto make = [](bool constant) {
    OpTester tester("conv");
    tester.in("x", {2, 3, 1, 1}, {1, 2, 3, 4, 5, 6});
    const std::vector<float> w = {1, 0, 2, -1, 1, 0.5f};
    constant ? tester.weight("weight", {2, 3, 1, 1}, w) : tester.in("weight", {2, 3, 1, 1}, w);
    return tester.run()[0].floats;
  };
  CHECK(make(true) == std::vector<float>{7, 2.5f, 16, 4});
  CHECK(make(false) == make(true));
}

TEST_CASE("same padding puts the odd element after, same_lower before") {
  const auto run = [](const char* pad_type) {
    return OpTester("conv")
        .in("x", {1, 1, 4}, {1, 2, 3, 4})
        .weight("weight", {1, 1, 2}, {1, 10})
        .set("pad_type", pad_type)
        .run()[0]
        .floats;
  };
  CHECK(run("same") == std::vector<float>{21, 32, 43, 4});
  CHECK(run("same_lower") == std::vector<float>{10, 21, 32, 43});
  CHECK(run("valid") == std::vector<float>{21, 32, 43});
  CHECK_THROWS_AS(run("other"), Error);
}

TEST_CASE("a convolution over three dimensions and many positions, plain and padded") {
  // A kernel of ones over ones counts the positions inside.
  const auto out = OpTester("conv")
                       .in("x", {1, 1, 2, 3, 700}, std::vector<float>(4200, 1))
                       .weight("weight", {100, 1, 1, 2, 3}, std::vector<float>(600, 1))
                       .set("pad_type", "custom")
                       .set("pad", {0, 0, 0, 0, 1, 1})
                       .run()[0];
  CHECK(out.type.shape == Shape{1, 100, 2, 2, 700});
  bool right = true;
  for (size_t i = 0; i < out.floats.size(); ++i)
    right &= out.floats[i] == (i % 700 == 0 || i % 700 == 699 ? 4.0f : 6.0f);
  CHECK(right);
}

TEST_CASE("conv keeps symbols and refuses what does not fit") {
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("conv")
            .of_type("x", Type::tensor(DType::fp16, {1, 3, 1, t}))
            .weight("weight", {2, 3, 1, 1}, std::vector<float>(6), DType::fp16)
            .infer()[0]
            .shape == Shape{1, 2, 1, t});
  CHECK_THROWS_AS(OpTester("conv")
                      .in("x", {1, 4, 2}, std::vector<float>(8))
                      .weight("weight", {2, 3, 1}, std::vector<float>(6))
                      .infer(),
                  Error);
  CHECK_THROWS_AS(OpTester("conv")
                      .in("x", {1, 3, 1}, std::vector<float>(3))
                      .weight("weight", {2, 3, 2}, std::vector<float>(12))
                      .infer(),
                  Error);
}

TEST_CASE("conv_transpose with groups, strides, dilations, padding and a bias") {
  const auto x = pattern(24, 7, 11, 5), w = pattern(16, 5, 7, 3);
  const auto custom = OpTester("conv_transpose")
                          .in("x", {1, 4, 2, 3}, x)
                          .weight("weight", {4, 1, 2, 2}, w, DType::fp16)
                          .weight("bias", {2}, {1, 2}, DType::fp16)
                          .set("strides", {2, 1})
                          .set("dilations", {1, 2})
                          .set("pad_type", "custom")
                          .set("pad", {1, 0, 0, 1})
                          .set("groups", 2)
                          .run()[0];
  CHECK(custom.type.shape == Shape{1, 2, 3, 4});
  CHECK(custom.floats == std::vector<float>{-3, 1,  3,   -3,  -5, -5, 8,  2, -2, 2,  -13, 2,
                                            -2, 18, -11, -12, 3,  -9, 13, 7, 3,  23, -11, -17});
  const auto same = OpTester("conv_transpose")
                        .in("x", {1, 4, 2, 3}, x)
                        .weight("weight", {4, 1, 2, 2}, w)
                        .set("strides", {2, 1})
                        .set("pad_type", "same")
                        .set("output_shape", {1, 2, 3, 3})
                        .set("groups", 2)
                        .run()[0];
  CHECK(same.floats ==
        std::vector<float>{27, -12, -2, -4, -2, 0, -6, 7, -5, 4, -8, 17, -4, 22, -33, 1, -10, 15});
}

TEST_CASE("conv_quantized scales its bytes, and names what it does not know") {
  const Constant bytes =
      Constant::from_bytes(Type::tensor(DType::uint8, {1, 2, 1}), {std::byte{10}, std::byte{200}});
  const auto make = [&](const char* kind) {
    OpTester tester("conv_quantized");
    tester.in("x", {1, 2, 1}, {1, 2})
        .constant("weight", bytes)
        .set("quantization_type", kind)
        .set("quant_scale", 0.5f)
        .set("quant_bias", -1.0f);
    return tester;
  };
  CHECK(make("linear").run()[0].floats == std::vector<float>{4 + 2 * 99});
  CHECK_THROWS_AS(make("lut").infer(), Error);
}
