#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "anemone/predictor.h"
#include "base/half.h"
#include "lower/ops.h"
#include "mil/builder.h"
#include "package/package.h"

using namespace anemone;

namespace {

enum class Stored {
  fp16,
  fp32,
  int8,
  int8_offset,
  uint8_offset,
  int8_blocks,
  int4,
  uint4_offset,
  int4_blocks,
  uint4_blocks_offset,
  palette8,
  palette6,
  palette4,
  palette3,
  palette2,
  palette1,
  palette6_each_row,  // tables too many to be kept decoded
  palette4_scaled,
  palette4_pairs,  // entries for two neighbouring rows
  pruned,
  last
};

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
  int out = 0;
  for (int b = 0; b < bits; ++b) {
    const int64_t at = i * bits + b;
    out |= (bytes[static_cast<size_t>(at / 8)] >> (at % 8) & 1) << b;
  }
  return out;
}

std::vector<uint8_t> random_bytes(int64_t bits, std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>((bits + 7) / 8));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  if (bits % 8 != 0)
    bytes.back() &= static_cast<uint8_t>((1 << bits % 8) - 1);  // what is behind the end is zero
  return bytes;
}

// Integers of 4 or 8 bits with `parts` scales a row, and offsets.
Value* integer_weight(Builder& b, DType dtype, bool shifted, int64_t rows, int64_t k, int64_t parts,
                      std::mt19937& random, std::vector<float>& values) {
  const int bits = dtype_bits(dtype);
  const auto number = [&](int q) { return dtype_is_signed(dtype) && q >> (bits - 1) ? q - (1 << bits) : q; };
  const std::vector<uint8_t> bytes = random_bytes(rows * k * bits, random);
  const std::vector<uint8_t> offsets = random_bytes(rows * parts * bits, random);
  std::vector<float> scales(static_cast<size_t>(rows * parts));
  for (float& s : scales) s = 0.001f * static_cast<float>(1 + random() % 16);
  for (int64_t i = 0; i < rows * k; ++i) {
    const int64_t block = i / k * parts + i % k / (k / parts);
    const int q = number(element(bytes, bits, i)) - (shifted ? number(element(offsets, bits, block)) : 0);
    values.push_back(static_cast<float>(q) * scales[static_cast<size_t>(block)]);
  }
  const Constant data = packed_bytes(dtype, {rows, k, 1, 1}, bytes);
  const Constant scale = Constant::numbers(scales, DType::fp32, {rows, parts, 1, 1});
  if (!shifted) return b.op("constexpr_blockwise_shift_scale", {{"data", data}, {"scale", scale}}, "w");
  return b.op(
      "constexpr_blockwise_shift_scale",
      {{"data", data}, {"scale", scale}, {"offset", packed_bytes(dtype, {rows, parts, 1, 1}, offsets)}}, "w");
}

DType index_type(int bits) {
  switch (bits) {
    case 8: return DType::uint8;
    case 6: return DType::uint6;
    case 4: return DType::uint4;
    case 3: return DType::uint3;
    case 2: return DType::uint2;
    default: return DType::uint1;
  }
}

// `tables` tables, each for as many rows, of entries for `vector` neighbouring rows.
Value* palette_weight(Builder& b, int bits, int64_t tables, int64_t vector, int64_t rows, int64_t k,
                      std::mt19937& random, std::vector<float>& values, const char* name = "w") {
  const int64_t lines = rows / vector, entries = int64_t{1} << bits;
  const std::vector<uint8_t> bytes = random_bytes(lines * k * bits, random);
  std::vector<float> lut(static_cast<size_t>(tables * entries * vector));
  std::normal_distribution<float> normal;
  for (float& v : lut) v = normal(random);
  for (int64_t i = 0; i < rows * k; ++i) {
    const int64_t row = i / k, line = row / vector, table = line / (lines / tables);
    const int64_t entry = table * entries + element(bytes, bits, line * k + i % k);
    values.push_back(lut[static_cast<size_t>(entry * vector + row % vector)]);
  }
  const Constant indices = packed_bytes(index_type(bits), {lines, k, 1, 1}, bytes);
  const Constant table = Constant::numbers(lut, DType::fp32, {tables, 1, 1, 1, entries, vector});
  if (vector == 1) return b.op("constexpr_lut_to_dense", {{"indices", indices}, {"lut", table}}, name);
  return b.op("constexpr_lut_to_dense",
              {{"indices", indices}, {"lut", table}, {"vector_axis", Constant::integer(0)}}, name);
}

// A scale for each row behind the table.
Value* scaled_palette(Builder& b, int64_t rows, int64_t k, std::mt19937& random, std::vector<float>& values) {
  Value* palette = palette_weight(b, 4, 2, 1, rows, k, random, values, "palette");
  std::vector<float> scales(static_cast<size_t>(rows));
  for (float& s : scales) s = 0.25f * static_cast<float>(1 + random() % 16);
  for (int64_t i = 0; i < rows * k; ++i) values[static_cast<size_t>(i)] *= scales[static_cast<size_t>(i / k)];
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", palette}, {"scale", Constant::numbers(scales, DType::fp32, {rows, 1, 1, 1})}}, "w");
}

Value* pruned_weight(Builder& b, int64_t rows, int64_t k, std::mt19937& random, std::vector<float>& values) {
  const std::vector<uint8_t> mask = random_bytes(rows * k, random);
  std::vector<float> kept;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * k; ++i) {
    const bool one = element(mask, 1, i) != 0;
    if (one) kept.push_back(normal(random));
    values.push_back(one ? kept.back() : 0.0f);
  }
  return b.op("constexpr_sparse_to_dense",
              {{"nonzero_data", Constant::numbers(kept, DType::fp32, {static_cast<int64_t>(kept.size())})},
               {"mask", packed_bytes(DType::uint1, {rows, k, 1, 1}, mask)}},
              "w");
}

Value* stored_weight(Builder& b, Stored form, int64_t rows, int64_t k, std::mt19937& random,
                     std::vector<float>& values) {
  const auto integers = [&](DType dtype, bool shifted, int64_t parts) {
    return integer_weight(b, dtype, shifted, rows, k, parts, random, values);
  };
  const auto palette = [&](int bits, int64_t tables = 2, int64_t vector = 1) {
    return palette_weight(b, bits, tables, vector, rows, k, random, values);
  };
  switch (form) {
    case Stored::int8: return integers(DType::int8, false, 1);
    case Stored::int8_offset: return integers(DType::int8, true, 1);
    case Stored::uint8_offset: return integers(DType::uint8, true, 1);
    case Stored::int8_blocks: return integers(DType::int8, false, 2);
    case Stored::int4: return integers(DType::int4, false, 1);
    case Stored::uint4_offset: return integers(DType::uint4, true, 1);
    case Stored::int4_blocks: return integers(DType::int4, false, 2);
    case Stored::uint4_blocks_offset: return integers(DType::uint4, true, 2);
    case Stored::palette8: return palette(8);
    case Stored::palette6: return palette(6);
    case Stored::palette4: return palette(4);
    case Stored::palette3: return palette(3);
    case Stored::palette2: return palette(2);
    case Stored::palette1: return palette(1);
    case Stored::palette6_each_row: return palette(6, rows);
    case Stored::palette4_scaled: return scaled_palette(b, rows, k, random, values);
    case Stored::palette4_pairs: return palette(4, 1, 2);
    case Stored::pruned: return pruned_weight(b, rows, k, random, values);
    default: break;
  }
  values.resize(static_cast<size_t>(rows * k));
  std::normal_distribution<float> normal;
  for (float& v : values) v = round_to_half(normal(random));
  return b.constant(
      Constant::numbers(values, form == Stored::fp16 ? DType::fp16 : DType::fp32, {rows, k, 1, 1}), "w");
}

Projected projected(Stored form, int64_t rows, int64_t k, int64_t tokens, std::mt19937& random) {
  Projected out;
  Package p;
  const DType dtype = form == Stored::fp16 ? DType::fp16 : DType::fp32;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(dtype, {1, k, tokens, 1}));
  Builder b(f);
  Value* w = stored_weight(b, form, rows, k, random, out.weight);
  b.output(lower::conv1x1(b, x, w, nullptr, "y"));
  p.description = description_of(p.program);
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
  for (Stored form = Stored::fp16; form != Stored::last;
       form = static_cast<Stored>(static_cast<int>(form) + 1))
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

TEST_CASE("in fast arithmetic a projection rounds its input alone, and a token's bits hold beside others") {
  std::mt19937 random(6);
  const int64_t sizes[][3] = {{70, 64, 1}, {26, 192, 8}, {66, 384, 3}, {70, 576, 33}};
  for (Stored form = Stored::fp16; form != Stored::last;
       form = static_cast<Stored>(static_cast<int>(form) + 1))
    for (const auto& [rows, k, tokens] : sizes) {
      CAPTURE(static_cast<int>(form));
      CAPTURE(tokens);
      const Projected p = projected(form, rows, k, tokens, random);
      const Array x = padded(k, tokens, tokens, random);
      const PredictOptions fast{.arithmetic = Arithmetic::fast, .threads = 1};
      const auto got = make_predictor(p.package, "", fast)->predict({{"x", x}}).at("y").to_float();
      const auto exact =
          make_predictor(p.package, "", {.threads = 1})->predict({{"x", x}}).at("y").to_float();
      // Values of one size, each rounded by at most 1/254 of a block's largest: the errors of a sum are about 0.6% of
      // it, with 8-bit tables 0.9%.
      double error = 0, size = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(got[i] - exact[i], 2);
        size += std::pow(exact[i], 2);
      }
      CHECK(std::sqrt(error / size) < 0.015);
      CHECK(make_predictor(p.package, "", {.arithmetic = Arithmetic::fast, .threads = 3})
                ->predict({{"x", x}})
                .at("y")
                .to_float() == got);
      if (tokens > 8) continue;
      for (int64_t t = 0; t < tokens; ++t) {  // the weight again, for one token
        std::mt19937 again(6 + static_cast<uint32_t>(t));
        Array one(DType::fp32, {1, k, 1, 1}), all(DType::fp32, {1, k, tokens, 1});
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < k * tokens; ++i) all.values<float>()[static_cast<size_t>(i)] = normal(again);
        for (int64_t i = 0; i < k; ++i)
          one.values<float>()[static_cast<size_t>(i)] =
              all.values<float>()[static_cast<size_t>(i * tokens + t)];
        std::mt19937 a(8), b(8);
        const Projected wide = projected(form, rows, k, tokens, a), narrow = projected(form, rows, k, 1, b);
        REQUIRE(wide.weight == narrow.weight);
        for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fast}) {
          const PredictOptions how{.arithmetic = arithmetic, .threads = 1};
          const auto together =
              make_predictor(wide.package, "", how)->predict({{"x", all}}).at("y").to_float();
          const auto alone =
              make_predictor(narrow.package, "", how)->predict({{"x", one}}).at("y").to_float();
          bool equal = true;
          for (int64_t r = 0; r < rows; ++r)
            equal &= together[static_cast<size_t>(r * tokens + t)] == alone[static_cast<size_t>(r)];
          CHECK(equal);
        }
      }
    }
}

TEST_CASE("in fast arithmetic weights in different forms beside each other do not mix") {
  std::mt19937 random(9);
  const int64_t rows = 70, k = 128, tokens = 17;
  const Stored forms[] = {Stored::uint8_offset, Stored::palette8, Stored::int8_offset, Stored::palette1,
                          Stored::uint4_offset, Stored::palette4, Stored::int8};
  Package p;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp32, {1, k, tokens, 1}));
  Builder b(f);
  for (size_t i = 0; i < std::size(forms); ++i) {
    std::vector<float> values;
    Value* w = stored_weight(b, forms[i], rows, k, random, values);
    b.output(lower::conv1x1(b, x, w, nullptr, "y" + std::to_string(i)));
  }
  p.description = description_of(p.program);
  p.spec_version = 9;
  const auto package = std::make_shared<const Package>(std::move(p));
  const std::map<std::string, Array> input{{"x", padded(k, tokens, tokens, random)}};
  const Prediction exact = make_predictor(package, "", {.threads = 1})->predict(input);
  for (const int threads : {1, 2, 3}) {
    const Prediction fast =
        make_predictor(package, "", {.arithmetic = Arithmetic::fast, .threads = threads})->predict(input);
    for (size_t i = 0; i < std::size(forms); ++i) {
      CAPTURE(i);
      const auto got = fast.at("y" + std::to_string(i)).to_float();
      const auto want = exact.at("y" + std::to_string(i)).to_float();
      double error = 0, size = 0;
      for (size_t j = 0; j < got.size(); ++j) {
        error += std::pow(got[j] - want[j], 2);
        size += std::pow(want[j], 2);
      }
      CHECK(std::sqrt(error / size) < 0.015);
    }
  }
}
