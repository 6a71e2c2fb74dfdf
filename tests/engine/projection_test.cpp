#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "anemone/predictor.h"
#include "base/half.h"
#include "lower/blocks.h"
#include "mil/builder.h"
#include "package/package.h"

using namespace anemone;

namespace {

enum class Stored { fp16, fp32, int8, int8_blocks, int4, palette8, palette4, palette2, palette1 };

// A projection of `tokens` positions over a weight in one of its forms, and the weight as numbers.
struct Projected {
  std::shared_ptr<const Package> package;
  std::vector<float> weight;
};

Constant packed_bytes(DType dtype, Shape shape, const std::vector<uint8_t>& bytes) {
  Constant::Bytes data(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) data[i] = static_cast<std::byte>(bytes[i]);
  return Constant::from_bytes(Type::tensor(dtype, std::move(shape)), std::move(data));
}

// Element i of packed ones.
int element(const std::vector<uint8_t>& bytes, int bits, int64_t i) {
  return bytes[static_cast<size_t>(i * bits / 8)] >> (i * bits % 8) & ((1 << bits) - 1);
}

std::vector<uint8_t> random_bytes(int64_t bits, std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>((bits + 7) / 8));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  if (bits % 8 != 0)
    bytes.back() &= static_cast<uint8_t>((1 << bits % 8) - 1);  // what is behind the end is zero
  return bytes;
}

// Integers of 4 or 8 bits with `parts` scales a row.
Value* integer_weight(Builder& b, int bits, int64_t rows, int64_t k, int64_t parts, std::mt19937& random,
                      std::vector<float>& values) {
  const std::vector<uint8_t> bytes = random_bytes(rows * k * bits, random);
  std::vector<float> scales(static_cast<size_t>(rows * parts));
  for (float& s : scales) s = 0.001f * static_cast<float>(1 + random() % 16);
  for (int64_t i = 0; i < rows * k; ++i) {
    const int q = element(bytes, bits, i);
    values.push_back(static_cast<float>(q >> (bits - 1) ? q - (1 << bits) : q) *
                     scales[static_cast<size_t>(i / k * parts + i % k / (k / parts))]);
  }
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", packed_bytes(bits == 4 ? DType::int4 : DType::int8, {rows, k, 1, 1}, bytes)},
               {"scale", Constant::numbers(scales, DType::fp32, {rows, parts, 1, 1})}},
              "w");
}

// Two tables, each for half of the rows.
Value* palette_weight(Builder& b, int bits, int64_t rows, int64_t k, std::mt19937& random,
                      std::vector<float>& values) {
  const std::vector<uint8_t> bytes = random_bytes(rows * k * bits, random);
  const int64_t entries = int64_t{1} << bits;
  std::vector<float> tables(static_cast<size_t>(2 * entries));
  std::normal_distribution<float> normal;
  for (float& v : tables) v = normal(random);
  for (int64_t i = 0; i < rows * k; ++i)
    values.push_back(tables[static_cast<size_t>(i / k / (rows / 2) * entries + element(bytes, bits, i))]);
  const DType dtype = bits == 8   ? DType::uint8
                      : bits == 4 ? DType::uint4
                      : bits == 2 ? DType::uint2
                                  : DType::uint1;
  return b.op("constexpr_lut_to_dense",
              {{"indices", packed_bytes(dtype, {rows, k, 1, 1}, bytes)},
               {"lut", Constant::numbers(tables, DType::fp32, {2, 1, 1, 1, entries, 1})}},
              "w");
}

Projected projected(Stored form, int64_t rows, int64_t k, int64_t tokens, std::mt19937& random) {
  Projected out;
  Package p;
  const DType dtype = form == Stored::fp16 ? DType::fp16 : DType::fp32;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(dtype, {1, k, tokens, 1}));
  Builder b(f);
  Value* w = nullptr;
  if (form == Stored::int8 || form == Stored::int8_blocks || form == Stored::int4) {
    w = integer_weight(b, form == Stored::int4 ? 4 : 8, rows, k, form == Stored::int8_blocks ? 2 : 1, random,
                       out.weight);
  } else if (form >= Stored::palette8) {
    const int bits = 8 >> (static_cast<int>(form) - static_cast<int>(Stored::palette8));
    w = palette_weight(b, bits, rows, k, random, out.weight);
  } else {
    out.weight.resize(static_cast<size_t>(rows * k));
    std::normal_distribution<float> normal;
    for (float& v : out.weight) v = round_to_half(normal(random));
    w = b.constant(Constant::numbers(out.weight, dtype, {rows, k, 1, 1}), "w");
  }
  b.output(lower::conv1x1(b, x, w, nullptr, "y"));
  p.description = describe(p.program);
  p.spec_version = 9;
  out.package = std::make_shared<Package>(std::move(p));
  return out;
}

// x with the columns from `live` on like the one before.
Array padded(int64_t k, int64_t tokens, int64_t live, std::mt19937& random) {
  Array x(DType::fp32, {1, k, tokens, 1});
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < k * tokens; ++i) {
    float* at = x.values<float>().data() + i;
    *at = i % tokens < live ? normal(random) : at[-1];
  }
  return x;
}

}  // namespace

TEST_CASE("a projection of some tokens is what the maths says for every form of the weight, on any threads") {
  std::mt19937 random(5);
  const int64_t sizes[][3] = {{70, 64, 9}, {26, 200, 64}, {130, 390, 17}, {6, 192, 33},
                              {2, 2, 40},  {66, 200, 1},  {14, 390, 3},   {70, 64, 8}};
  for (const Stored form : {Stored::fp16, Stored::fp32, Stored::int8, Stored::int8_blocks, Stored::int4,
                            Stored::palette8, Stored::palette4, Stored::palette2, Stored::palette1})
    for (const auto& [rows, k, tokens] : sizes)
      for (const int64_t live : {tokens, std::max<int64_t>(1, tokens - 1), (tokens + 1) / 2, int64_t{1}}) {
        CAPTURE(static_cast<int>(form));
        CAPTURE(rows);
        CAPTURE(live);
        const Projected p = projected(form, rows, k, tokens, random);
        const Array x = padded(k, tokens, live, random);
        const auto xs = x.to_float();
        const auto got =
            make_predictor(p.package, "", {.threads = 1})->predict({{"x", x}}).at("y").to_float();
        REQUIRE(got.size() == static_cast<size_t>(rows * tokens));
        for (int64_t i = 0; i < rows * tokens; ++i) {
          double sum = 0, size = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double term = static_cast<double>(p.weight[static_cast<size_t>(i / tokens * k + j)]) *
                                xs[static_cast<size_t>(j * tokens + i % tokens)];
            sum += term;
            size += std::abs(term);
          }
          REQUIRE(std::abs(got[static_cast<size_t>(i)] - sum) <= 1e-6 * size + 1e-7);
        }
        for (const int threads : {2, 5})
          CHECK(make_predictor(p.package, "", {.threads = threads})->predict({{"x", x}}).at("y").to_float() ==
                got);
        // What stands behind a token changes nothing for it.
        Array other = x;
        for (int64_t i = 0; i < k && live < tokens; ++i)
          other.values<float>()[static_cast<size_t>(i * tokens + tokens - 1)] = 3;
        const auto changed = make_predictor(p.package)->predict({{"x", other}}).at("y").to_float();
        bool equal = true;
        for (int64_t i = 0; i < rows * tokens; ++i)
          if (i % tokens < live) equal &= changed[static_cast<size_t>(i)] == got[static_cast<size_t>(i)];
        CHECK(equal);
      }
}
