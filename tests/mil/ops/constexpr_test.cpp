#include <doctest/doctest.h>

#include <cstring>

#include "base/half.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

// Integers of any width, packed lowest bits first.
Constant packed(DType dtype, std::vector<int64_t> dims, const std::vector<int>& values) {
  const int bits = dtype_bits(dtype);
  Constant::Bytes bytes((values.size() * static_cast<size_t>(bits) + 7) / 8);
  for (size_t i = 0; i < values.size(); ++i)
    for (int b = 0; b < bits; ++b)
      if ((values[i] >> b) & 1) bytes[(i * bits + b) / 8] |= std::byte{1} << ((i * bits + b) % 8);
  return Constant::from_bytes(Type::tensor(dtype, dims), bytes);
}

std::vector<float> halves(std::vector<float> values) {
  for (float& v : values) v = round_to_half(v);
  return values;
}

const std::vector<int> kIndices = {1, 2, 3, 3, 0, 0, 3, 3, 0, 1, 3, 1, 1, 3, 1, 1, 2, 2, 0, 0, 3, 3, 3, 2};
const std::vector<float> kTables = {31, -18, -5,  28,  -38, -20, -38, -5,  47,  -37, -12, -10,
                                    40, -30, 0,   -24, -49, 25,  -44, -22, -1,  -2,  -39, 48,
                                    24, 46,  -41, 22,  -21, 4,   42,  -23, 22,  -34, -18, 46,
                                    -8, 1,   -21, -39, -8,  12,  -5,  27,  -14, 11,  27,  41};
const std::vector<int> kMask = {0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1};

}  // namespace

// Expected values: coremltools 9.0's decompression of the same numbers.
TEST_CASE("blockwise scales round once to the scale's type") {
  const auto run = [](DType dtype) {
    return OpTester("constexpr_blockwise_shift_scale")
        .constant("data", packed(DType::int4, {2, 4}, {-8, -6, 0, 5, -7, 2, 4, 4}))
        .weight("scale", {2, 2}, halves({0.1f, 0.3f, 0.7f, 1.9f}), dtype)
        .constant("offset", packed(DType::int4, {2, 2}, {1, -2, 3, 0}))
        .store()
        .floats;
  };
  CHECK(run(DType::fp16) == std::vector<float>{-0.89990234375f, -0.69970703125f, 0.60009765625f, 2.099609375f,
                                               -7.0f, -0.7001953125f, 7.6015625f, 7.6015625f});
  CHECK(run(DType::fp32) == std::vector<float>{-0.8997802734375f, -0.6998291015625f, 0.60009765625f,
                                               2.100341796875f, -7.001953125f, -0.7001953125f, 7.6015625f,
                                               7.6015625f});
}

TEST_CASE("blockwise scales that do not fit the data are refused") {
  OpTester tester("constexpr_blockwise_shift_scale");
  tester.constant("data", packed(DType::int8, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}))
      .weight("scale", {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(tester.infer(), Error);
}

TEST_CASE("affine weights take scales along an axis") {
  const auto out = OpTester("constexpr_affine_dequantize", Opset::ios16)
                       .constant("quantized_data", packed(DType::uint8, {2, 3}, {10, 11, 12, 13, 14, 255}))
                       .constant("zero_point", packed(DType::uint8, {}, {10}))
                       .weight("scale", {3}, {1, 2, 0.5f})
                       .set("axis", -1)
                       .store();
  CHECK(out.floats == std::vector<float>{0, 2, 1, 3, 8, 122.5f});
  CHECK(out.type == Type::tensor(DType::fp32, {2, 3}));
}

TEST_CASE("a palette of the iOS 16 form unpacks its indices") {
  // Six-bit indices straddle the bytes.
  std::vector<float> lut(64);
  for (int i = 0; i < 64; ++i) lut[static_cast<size_t>(i)] = static_cast<float>(i * i);
  Constant indices = packed(DType::uint6, {5}, {63, 1, 32, 7, 42});
  indices.type = Type::tensor(DType::uint8, {4});
  OpTester tester("constexpr_lut_to_dense", Opset::ios16);
  tester.constant("indices", indices)
      .weight("lut", {64}, lut)
      .constant("shape", packed(DType::uint32, {2}, {5, 1}));
  CHECK(tester.store().floats == std::vector<float>{3969, 1, 1024, 49, 1764});
  OpTester wrong("constexpr_lut_to_dense", Opset::ios16);
  wrong.constant("indices", indices)
      .weight("lut", {64}, lut)
      .constant("shape", packed(DType::uint32, {2}, {5, 2}));
  CHECK_THROWS_AS(wrong.infer(), Error);
}

TEST_CASE("a table per group, as in the documentation of coremltools") {
  const auto out =
      OpTester("constexpr_lut_to_dense")
          .constant("indices", packed(DType::uint2, {6, 2}, {2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3}))
          .weight("lut", {2, 1, 4, 1}, {1, 5, 9, 13, 2, 10, 18, 26}, DType::fp16)
          .store();
  CHECK(out.floats == std::vector<float>{9, 13, 13, 1, 5, 1, 26, 2, 18, 10, 2, 26});
}

TEST_CASE("vector palettes fill along their axis") {
  const auto run = [](int axis) {
    return OpTester("constexpr_lut_to_dense")
        .constant("indices", packed(DType::uint2, {4, 2, 3}, kIndices))
        .weight("lut", {2, 1, 3, 4, 2}, kTables)
        .set("vector_axis", axis)
        .store();
  };
  CHECK(run(0).type.shape == Shape{8, 2, 3});
  CHECK(run(0).floats == std::vector<float>{-5,  40,  -39, -38, 47,  -49, 28, -30, 48, -5,  -37, 25,
                                            -38, 0,   -49, -5,  0,   -44, -5, -24, 25, 28,  -24, -22,
                                            -41, -21, -5,  -41, -8,  -14, 22, -39, 27, 22,  1,   11,
                                            24,  22,  27,  42,  -21, -14, 46, -34, 41, -23, -39, 11});
  CHECK(run(1).floats == std::vector<float>{-5,  40,  -39, 28, -30, 48, -38, 47,  -49, -5,  -37, 25,
                                            -38, 0,   -49, -5, -24, 25, -5,  0,   -44, 28,  -24, -22,
                                            -41, -21, -5,  22, -39, 27, -41, -8,  -14, 22,  1,   11,
                                            24,  22,  27,  46, -34, 41, 42,  -21, -14, -23, -39, 11});
  CHECK(run(-1).floats == std::vector<float>{-5,  28, 40,  -30, -39, 48, -38, -5,  47,  -37, -49, 25,
                                             -38, -5, 0,   -24, -49, 25, -5,  28,  0,   -24, -44, -22,
                                             -41, 22, -21, -39, -5,  27, -41, 22,  -8,  1,   -14, 11,
                                             24,  46, 22,  -34, 27,  41, 42,  -23, -21, -39, -14, 11});
}

TEST_CASE("a sparse vector palette gives its mask and its values") {
  const std::vector<int> stored = {3, 3, 0, 1, 3, 1, 3, 1, 2, 0, 0, 3, 3, 3, 2};
  const auto run = [&](int axis, int output) {
    return OpTester("constexpr_lut_to_sparse")
        .constant("indices_mask", packed(DType::uint1, {4, 2, 3}, kMask))
        .constant("indices_nonzero_data", packed(DType::uint2, {15}, stored))
        .weight("lut", {2, 1, 3, 4, 2}, kTables)
        .set("vector_axis", axis)
        .store(output);
  };
  CHECK(run(0, 0).ints == std::vector<int32_t>{0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1,
                                               1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1,
                                               1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(run(0, 1).floats == std::vector<float>{-39, -38, 47,  48,  -5,  -37, -5, 0,   -44, 28,
                                               -24, -22, -21, -5,  -14, -39, 27, 11,  24,  22,
                                               27,  42,  -21, -14, 46,  -34, 41, -23, -39, 11});
  CHECK(run(1, 1).floats == std::vector<float>{-39, 48,  -38, 47, -5,  -37, -5,  0,   -44, 28,
                                               -24, -22, -21, -5, -39, 27,  -14, 11,  24,  22,
                                               27,  46,  -34, 41, 42,  -21, -14, -23, -39, 11});
  CHECK(run(2, 1).floats == std::vector<float>{-39, 48,  -38, -5,  47, -37, -5,  28,  0,   -24,
                                               -44, -22, -21, -39, -5, 27,  -14, 11,  24,  46,
                                               22,  -34, 27,  41,  42, -23, -21, -39, -14, 11});
}

TEST_CASE("a sparse palette of single values keeps the mask, as in the documentation of coremltools") {
  OpTester tester("constexpr_lut_to_sparse");
  tester
      .constant("indices_mask", packed(DType::uint1, {4, 6}, {1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1,
                                                              0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0}))
      .constant("indices_nonzero_data", packed(DType::uint1, {9}, {0, 1, 1, 0, 1, 1, 0, 0, 1}))
      .weight("lut", {1, 1, 2, 1}, {2, 3}, DType::fp16);
  CHECK(tester.store(1).floats == std::vector<float>{2, 3, 3, 2, 3, 3, 2, 2, 3});
  CHECK(tester.store(0).ints[11] == 1);
}

TEST_CASE(
    "stored values of a sparse weight are scaled by their column, as in the documentation of coremltools") {
  OpTester tester("constexpr_sparse_blockwise_shift_scale");
  tester.constant("data_mask", packed(DType::uint1, {4, 4}, {1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0}))
      .constant("nonzero_data", packed(DType::int8, {9}, {10, 11, 3, 4, 5, 6, 7, 8, 9}))
      .weight("scale", {1, 4}, {0.5f, 0.25f, 2, 4})
      .constant("offset", packed(DType::int8, {1, 4}, {1, 2, 3, 4}));
  CHECK(tester.store(1).floats == std::vector<float>{4.5f, 2.25f, 1, 0.5f, 4, 6, 12, 3.5f, 1.75f});
}

TEST_CASE("sparse weights of both forms are zero where the mask is") {
  const std::vector<float> expected = {0, 0, 7, 8, 0};
  Constant bits = packed(DType::uint1, {5}, {0, 0, 1, 1, 0});
  CHECK(OpTester("constexpr_sparse_to_dense")
            .weight("nonzero_data", {2}, {7, 8})
            .constant("mask", bits)
            .store()
            .floats == expected);
  CHECK_THROWS_AS(
      OpTester("constexpr_sparse_to_dense").weight("nonzero_data", {1}, {7}).constant("mask", bits).store(),
      Error);
  bits.type = Type::tensor(DType::uint8, {1});
  CHECK(OpTester("constexpr_sparse_to_dense", Opset::ios16)
            .weight("nonzero_data", {2}, {7, 8})
            .constant("mask", bits)
            .constant("shape", packed(DType::uint32, {1}, {5}))
            .store()
            .floats == expected);
}

TEST_CASE("a long sparse weight finds its values from any place") {
  std::vector<int> mask(5000), values;
  std::vector<float> dense(5000), stored;
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = (i * i + i / 7) % 3 == 0;
    if (mask[i]) stored.push_back(dense[i] = static_cast<float>(i + 1));
  }
  const auto out = OpTester("constexpr_sparse_to_dense")
                       .weight("nonzero_data", {static_cast<int64_t>(stored.size())}, stored)
                       .constant("mask", packed(DType::uint1, {50, 100}, mask))
                       .store();
  CHECK(out.floats == dense);
}

TEST_CASE("constexpr_cast widens") {
  CHECK(OpTester("constexpr_cast")
            .weight("source_val", {2}, {1.5f, -2}, DType::fp16)
            .set("output_dtype", "fp32")
            .store()
            .floats == std::vector<float>{1.5f, -2});
  CHECK_THROWS_AS(OpTester("constexpr_cast")
                      .weight("source_val", {1}, {1}, DType::fp16)
                      .set("output_dtype", "int8")
                      .infer(),
                  Error);
}

TEST_CASE("weights that a kernel can use in place say how they lie") {
  OpTester quantized("constexpr_blockwise_shift_scale");
  quantized.constant("data", packed(DType::int8, {4, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8}))
      .weight("scale", {2, 1, 1}, {0.5f, 2}, DType::fp16)
      .constant("offset", packed(DType::int8, {2, 1, 1}, {1, -1}));
  const auto q = quantized.stored();
  const StoredTensor::Layout layout = q->layout();
  REQUIRE(layout.dtype == DType::int8);
  CHECK(layout.rows_per_scale == 2);
  CHECK(layout.scale[1] == 2);
  CHECK(layout.offset[1] == -1);
  CHECK(static_cast<int>(layout.data[7]) == 8);

  OpTester blocks("constexpr_blockwise_shift_scale");  // scales along the second dimension
  blocks.constant("data", packed(DType::int8, {2, 2}, {1, 2, 3, 4})).weight("scale", {1, 2}, {1, 2});
  const auto by_column = blocks.stored();
  CHECK(by_column->layout().rows_per_scale == 2);
  CHECK(by_column->layout().columns_per_scale == 1);
  OpTester halves("constexpr_blockwise_shift_scale");  // those of blocks stay halves
  halves.constant("data", packed(DType::int4, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 0}))
      .weight("scale", {2, 2}, {0.5f, 2, 0.1f, -1}, DType::fp16)
      .constant("offset", packed(DType::int4, {2, 2}, {0, 1, 15, 0}));
  const auto in_file = halves.stored();
  const StoredTensor::Layout lies = in_file->layout();
  CHECK(!lies.scale.floats());
  CHECK(lies.scale[1] == 2);
  CHECK(lies.scale.from(2)[1] == -1);
  std::vector<float> room;
  const float* read = lies.scale.read(1, 3, room);
  CHECK(read[0] == 2);
  CHECK(read[1] == 0.0999755859375f);  // 0.1 as a half
  CHECK(lies.offset[1] == 1);
  CHECK(lies.offset[2] == -1);
  std::vector<float> values(8);
  in_file->read(0, 8, values.data());
  CHECK(values[0] == 0.5f);          // 0.5 * (1 - 0)
  CHECK(values[3] == 6);             // 2 * (4 - 1)
  CHECK(values[4] == 0.599609375f);  // 0.1 * (5 + 1), as halves
  CHECK(values[7] == 0);
  CHECK(lies.scale.same(halves.stored()->layout().scale, 4));

  OpTester deep("constexpr_blockwise_shift_scale");  // along the third: read() alone
  deep.constant("data", packed(DType::int8, {1, 2, 2}, {1, 2, 3, 4})).weight("scale", {1, 1, 2}, {1, 2});
  CHECK(deep.stored()->layout().dtype == DType::none);

  // Entries for two neighbouring rows: each of the two has a table of its own.
  OpTester pairs("constexpr_lut_to_dense");
  pairs.constant("indices", packed(DType::uint1, {2, 8}, {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0}))
      .weight("lut", {2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})
      .set("vector_axis", 0);
  const auto two = pairs.stored();
  REQUIRE(two->layout().rows_per_index == 2);
  CHECK(two->layout().rows_per_lut == 1);
  CHECK(std::vector<float>(two->layout().lut, two->layout().lut + 8) ==
        std::vector<float>{1, 3, 2, 4, 5, 7, 6, 8});

  OpTester palette("constexpr_lut_to_dense");
  palette.constant("indices", packed(DType::uint2, {6, 2}, {2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3}))
      .weight("lut", {2, 1, 4, 1}, {1, 5, 9, 13, 2, 10, 18, 26}, DType::fp16);
  const auto p = palette.stored();
  REQUIRE(p->layout().dtype == DType::uint2);
  CHECK(p->layout().rows_per_lut == 3);
  CHECK(p->layout().lut[5] == 10);
}
