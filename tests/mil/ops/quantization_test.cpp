#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

Constant bytes(DType dtype, std::vector<int64_t> dims, std::vector<int> values) {
  Constant::Bytes out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return Constant::from_bytes(Type::tensor(dtype, dims), out);
}

}  // namespace

TEST_CASE("quantize rounds halves to even, shifts and clips") {
  const auto run = [](const char* dtype) {
    return OpTester("quantize")
        .in("input", {6}, {-500, -0.5f, 0.5f, 1.5f, 2.6f, 500})
        .set("scale", 1.0f)
        .set("output_dtype", dtype)
        .run()[0];
  };
  CHECK(run("int8").ints == std::vector<int32_t>{-128, 0, 0, 2, 3, 127});
  CHECK(run("uint8").ints == std::vector<int32_t>{0, 0, 0, 2, 3, 255});
  CHECK(run("uint8").type.dtype == DType::uint8);
  CHECK_THROWS_AS(run("int4"), Error);
}

TEST_CASE("quantize and dequantize along an axis") {
  CHECK(OpTester("quantize")
            .in("input", {2, 2}, {1, 2, 3, 4})
            .weight("scale", {2}, {0.5f, 2})
            .constant("zero_point", bytes(DType::int8, {2}, {0, 10}))
            .set("axis", 1)
            .set("output_dtype", "int8")
            .run()[0]
            .ints == std::vector<int32_t>{2, 11, 6, 12});
  CHECK(OpTester("dequantize")
            .in_ints("input", {2, 2}, {1, 2, 3, 4}, DType::int8)
            .weight("scale", {2}, {0.5f, 2}, DType::fp16)
            .constant("zero_point", bytes(DType::int8, {2}, {-1, 1}))
            .set("axis", -2)
            .run()[0]
            .floats == std::vector<float>{1, 1.5f, 4, 6});
  CHECK(OpTester("dequantize")
            .in_ints("input", {2}, {0, 255}, DType::uint8)
            .constant("zero_point", bytes(DType::uint8, {}, {128}))
            .set("scale", 2.0f)
            .run()[0]
            .floats == std::vector<float>{-256, 254});
}

TEST_CASE("scales need an axis of their size") {
  CHECK_THROWS_AS(OpTester("dequantize")
                      .in_ints("input", {3}, {1, 2, 3}, DType::int8)
                      .weight("scale", {3}, {1, 2, 3})
                      .infer(),
                  Error);
  CHECK_THROWS_AS(OpTester("dequantize")
                      .in_ints("input", {3}, {1, 2, 3}, DType::int8)
                      .weight("scale", {2}, {1, 2})
                      .set("axis", 0)
                      .infer(),
                  Error);
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("dequantize")
            .of_type("input", Type::tensor(DType::int8, {t, 2}))
            .weight("scale", {2}, {1, 2}, DType::fp16)
            .set("axis", 1)
            .infer()[0] == Type::tensor(DType::fp16, {t, 2}));
}
