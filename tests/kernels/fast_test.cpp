#include "kernels/fast.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

using namespace anemone;

namespace {

constexpr FastKind kKinds[] = {FastKind::int8,   FastKind::uint8,  FastKind::table1,
                               FastKind::table2, FastKind::table3, FastKind::table4,
                               FastKind::table6, FastKind::table8, FastKind::number4};

// Memory whose begin is aligned, and whose end is the end.
struct Room {
  explicit Room(int64_t bytes) : all(static_cast<size_t>(bytes + 64)) {}
  std::byte* data() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(all.data()) + 63) / 64 * 64);
  }
  std::vector<std::byte> all;
};

// Random rows that begin at an odd address and end with their memory.
struct Rows {
  Rows(FastKind kind, int64_t count, int64_t k, int64_t block, bool offsets, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const int bits = fast_bits(kind);
    const int64_t row_bytes = k * bits / 8, blocks = block > 0 ? k / block : 1;
    bytes.resize(static_cast<size_t>(count * row_bytes + 1));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    const bool table = fast_is_table(kind);
    const int64_t table_bytes = table ? fast_table_bytes(bits) : kFastNumberBytes;
    tables.resize(static_cast<size_t>(count * table_bytes));
    scales.resize(static_cast<size_t>(count * blocks));
    shifts.resize(scales.size());
    for (float& s : scales) s = 0.01f * (1 + std::fabs(normal(random)));
    for (float& s : shifts) s = static_cast<float>(random() % 16);
    for (int64_t r = 0; r < count; ++r) {
      FastRow row{.data = bytes.data() + 1 + r * row_bytes};
      std::byte* at = tables.data() + r * table_bytes;
      if (table) {
        std::vector<float> values(size_t{1} << bits);
        for (float& v : values) v = normal(random);
        const FastScales s = fast_table(values.data(), bits, at);
        row.scale = s.fine;
        row.offset = kFastMiddle;
        row.coarse_scale = s.coarse;
        row.coarse_offset = s.coarse_offset;
      } else {
        fast_numbers(r % 2 == 0, at);
        row.scale = row.coarse_scale = 0.02f;
        if (offsets) row.offset = row.coarse_offset = static_cast<float>(random() % 100);
        if (kind == FastKind::number4 && r % 2 == 0) row.offset += 8;
      }
      row.table = at;
      if (block > 0) {
        row.block_scale = scales.data() + r * blocks;
        if (offsets) row.block_offset = shifts.data() + r * blocks;
      }
      all.push_back(row);
    }
  }
  std::vector<std::byte> bytes, tables;
  std::vector<float> scales, shifts;
  std::vector<FastRow> all;
};

// Columns of k floats, one after the other, rounded; and where their results go, `rows` for each.
struct Columns {
  Columns(const float* x, int64_t k, int64_t count) : room(count * fast_column_bytes(k)) {
    for (int64_t c = 0; c < count; ++c)
      all.push_back(fast_column(x + c * k, k, true, room.data() + c * fast_column_bytes(k)));
  }
  std::vector<float*> into(std::vector<float>& out, int64_t rows) const {
    std::vector<float*> to;
    for (size_t c = 0; c < all.size(); ++c) to.push_back(out.data() + static_cast<int64_t>(c) * rows);
    return to;
  }
  Room room;
  std::vector<FastColumn> all;
};

std::vector<float> numbers(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

// Sums of k products, in fp32; the sizes of weights, and of offsets that are taken away again.
float tolerance(const FastRow& row, FastKind kind, int64_t k, bool blocks) {
  const float size = blocks || kind <= FastKind::uint8 ? 10.0f : kind == FastKind::number4 ? 4.0f : 8.0f;
  (void)row;
  return 2e-6f * size * std::sqrt(static_cast<float>(k)) * 4 + 1e-5f;
}

// Every set of kernels that this machine can run.
template <class Body>
void for_each_level(Body body) {
  for (const char* name : fast_level_names()) {
    fast_choose_level(name);
    REQUIRE(std::string_view(fast_level_name()) == name);
    body(name);
  }
  fast_choose_level(fast_level_names().front());
}

bool fits(FastKind kind, int64_t k) { return k * fast_bits(kind) % 8 == 0; }

}  // namespace

TEST_CASE(
    "fast products equal their plain twin for every kind, odd sizes and any alignment, on every level") {
  std::mt19937 random(11);
  for_each_level([&](const char* name) {
    CAPTURE(name);
    for (const FastKind kind : kKinds)
      for (const int64_t k : {8, 24, 40, 64, 96, 136, 384, 576})
        for (const int64_t columns : {1, 2, 3, 5, 8, 19, 37}) {
          if (!fits(kind, k)) continue;
          const int64_t count = 9;
          const Rows w(kind, count, k, 0, columns % 2 == 1, random);
          const std::vector<float> x = numbers(columns * k, random);
          Room rest(fast_panels_bytes(k, columns)), tile(fast_room_bytes(true, count, k));
          const Columns q(x.data(), k, columns);
          std::vector<float> a(static_cast<size_t>(count * columns), -1), b = a;
          CAPTURE(static_cast<int>(kind));
          CAPTURE(k);
          CAPTURE(columns);
          const auto compare = [&] {
            for (size_t i = 0; i < a.size(); ++i)
              REQUIRE(std::abs(a[i] - b[i]) <=
                      tolerance(w.all[i % static_cast<size_t>(count)], kind, k, false));
          };
          for (const bool fine : {false, true}) {
            if (columns > kFastColumns) break;
            CAPTURE(fine);
            fast_matvec(kind, 0, fine, w.all.data(), count, k, q.all.data(), columns,
                        q.into(a, count).data());
            fast_product_plain(kind, 0, w.all.data(), count, k, q.all.data(), columns,
                               fast_is_table(kind) && !fine, q.into(b, count).data());
            compare();
          }
          std::vector<float> across(x.size()), c(a.size());  // as an image: channels apart
          for (int64_t i = 0; i < k; ++i)
            for (int64_t t = 0; t < columns; ++t)
              across[static_cast<size_t>(i * columns + t)] = x[static_cast<size_t>(t * k + i)];
          const int64_t lanes = fast_panel_columns();
          fast_pack(across.data(), columns, k, columns, 0, (columns + lanes - 1) / lanes, rest.data());
          for (const bool fine : {false, true}) {
            CAPTURE(fine);
            fast_gemm(kind, 0, fine, w.all.data(), count, {k, columns, rest.data()}, c.data(), columns,
                      tile.data());
            for (int64_t r = 0; r < count; ++r)
              for (int64_t t = 0; t < columns; ++t)
                a[static_cast<size_t>(r + t * count)] = c[static_cast<size_t>(r * columns + t)];
            fast_product_plain(kind, 0, w.all.data(), count, k, q.all.data(), columns,
                               !(fine && fast_is_table(kind)), q.into(b, count).data());
            compare();
          }
        }
  });
}

TEST_CASE("fast products with a scale and an offset for every block equal their plain twin, on every level") {
  std::mt19937 random(12);
  for_each_level([&](const char* name) {
    CAPTURE(name);
    for (const FastKind kind : {FastKind::int8, FastKind::uint8, FastKind::number4})
      for (const auto& [k, block] :
           {std::pair<int64_t, int64_t>{32, 32}, {96, 32}, {192, 96}, {576, 32}, {576, 64}})
        for (const int64_t columns : {1, 4, 8, 21})
          for (const bool offsets : {false, true}) {
            const int64_t count = 7;
            const Rows w(kind, count, k, block, offsets, random);
            const std::vector<float> x = numbers(columns * k, random);
            Room rest(fast_panels_bytes(k, columns)), tile(fast_room_bytes(true, count, k));
            const Columns q(x.data(), k, columns);
            std::vector<float> a(static_cast<size_t>(count * columns), -1), b = a;
            CAPTURE(static_cast<int>(kind));
            CAPTURE(k);
            CAPTURE(block);
            CAPTURE(columns);
            if (columns <= kFastColumns) {
              fast_matvec(kind, block, true, w.all.data(), count, k, q.all.data(), columns,
                          q.into(a, count).data());
              fast_product_plain(kind, block, w.all.data(), count, k, q.all.data(), columns, false,
                                 q.into(b, count).data());
              for (size_t i = 0; i < a.size(); ++i)
                REQUIRE(std::abs(a[i] - b[i]) <= 2 * tolerance(w.all[0], kind, k, true));
            }
            std::vector<float> across(x.size());
            for (int64_t i = 0; i < k; ++i)
              for (int64_t t = 0; t < columns; ++t)
                across[static_cast<size_t>(i * columns + t)] = x[static_cast<size_t>(t * k + i)];
            const int64_t lanes = fast_panel_columns();
            fast_pack(across.data(), columns, k, columns, 0, (columns + lanes - 1) / lanes, rest.data());
            fast_gemm(kind, block, false, w.all.data(), count, {k, columns, rest.data()}, a.data(), columns,
                      tile.data());
            fast_product_plain(kind, block, w.all.data(), count, k, q.all.data(), columns, true,
                               q.into(b, count).data());
            for (int64_t r = 0; r < count; ++r)
              for (int64_t t = 0; t < columns; ++t)
                REQUIRE(std::abs(a[static_cast<size_t>(r * columns + t)] -
                                 b[static_cast<size_t>(r + t * count)]) <=
                        2 * tolerance(w.all[0], kind, k, true));
          }
  });
}

TEST_CASE("a column's bits do not depend on the columns beside it, on every level") {
  std::mt19937 random(13);
  for_each_level([&](const char* name) {
    CAPTURE(name);
    for (const FastKind kind : kKinds)
      for (const auto& [k, block] :
           {std::pair<int64_t, int64_t>{608, 0}, {608, 32}, {320, 160}, {24, 0}, {1024, 32}}) {
        if (block > 0 && fast_is_table(kind)) continue;
        const int64_t count = 13;
        const Rows w(kind, count, k, block, true, random);
        const std::vector<float> x = numbers(kFastColumns * k, random);
        const Columns q(x.data(), k, kFastColumns);
        std::vector<float> alone(static_cast<size_t>(count * kFastColumns));
        const std::vector<float*> to = q.into(alone, count);
        for (const bool fine : {false, true}) {
          for (size_t c = 0; c < to.size(); ++c)
            fast_matvec(kind, block, fine, w.all.data(), count, k, &q.all[c], 1, &to[c]);
          for (int64_t columns = 2; columns <= kFastColumns; ++columns) {
            std::vector<float> together(static_cast<size_t>(count * columns));
            fast_matvec(kind, block, fine, w.all.data(), count, k, q.all.data(), columns,
                        q.into(together, count).data());
            CHECK(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)) == 0);
          }
        }
      }
  });
}

TEST_CASE("the largest whole numbers do not overflow, on every level") {
  constexpr int64_t k = 128, count = 5, columns = 20;
  std::vector<float> x(columns * k);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i / k % 2 == 0 ? 1.0f : -1.0f;
  float ends[256];
  for (int i = 0; i < 256; ++i) ends[i] = i % 2 == 0 ? -1.0f : 1.0f;
  for_each_level([&](const char* name) {
    CAPTURE(name);
    for (const FastKind kind : kKinds)
      for (const int code : {0, 0xff, 0x80, 0x7f}) {
        const bool table = fast_is_table(kind);
        std::vector<std::byte> row(static_cast<size_t>(k * fast_bits(kind) / 8),
                                   static_cast<std::byte>(code)),
            values(static_cast<size_t>(table ? fast_table_bytes(fast_bits(kind)) : kFastNumberBytes));
        FastRow w{.data = row.data(), .table = values.data()};
        if (table) {
          const FastScales scales = fast_table(ends, fast_bits(kind), values.data());
          w.scale = scales.fine;
          w.offset = kFastMiddle;
          w.coarse_scale = scales.coarse;
          w.coarse_offset = scales.coarse_offset;
        } else {
          fast_numbers(false, values.data());
        }
        const std::vector<FastRow> rows(count, w);
        const Columns q(x.data(), k, kFastColumns);
        std::vector<float> a(count * kFastColumns), b = a, c(count * columns);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(code);
        for (const bool fine : {false, true}) {
          CAPTURE(fine);
          fast_matvec(kind, 0, fine, rows.data(), count, k, q.all.data(), kFastColumns,
                      q.into(a, count).data());
          fast_product_plain(kind, 0, rows.data(), count, k, q.all.data(), kFastColumns, table && !fine,
                             q.into(b, count).data());
          for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
        }
        if (!table) continue;
        std::vector<float> across(x.size());
        for (int64_t i = 0; i < k; ++i)
          for (int64_t t = 0; t < columns; ++t)
            across[static_cast<size_t>(i * columns + t)] = x[static_cast<size_t>(t * k + i)];
        Room panels(fast_panels_bytes(k, columns)), tile(fast_room_bytes(true, count, k));
        const int64_t lanes = fast_panel_columns();
        fast_pack(across.data(), columns, k, columns, 0, (columns + lanes - 1) / lanes, panels.data());
        fast_gemm(kind, 0, true, rows.data(), count, {k, columns, panels.data()}, c.data(), columns,
                  tile.data());
        for (int64_t r = 0; r < count; ++r)
          for (int64_t t = 0; t < kFastColumns; ++t)
            CHECK(c[static_cast<size_t>(r * columns + t)] ==
                  doctest::Approx(b[static_cast<size_t>(r + t * count)]).epsilon(1e-5));
      }
  });
}

TEST_CASE("products of many columns by tiles have the bits of those by vectors") {
  if (std::string_view(fast_level_names().front()) != "amx") return;  // nothing to compare here
  std::mt19937 random(17);
  for (const FastKind kind : kKinds)
    for (const auto& [k, block, count, columns] :
         {std::array<int64_t, 4>{576, 0, 32, 64}, {96, 32, 40, 17}, {192, 96, 5, 48}, {136, 0, 16, 1}}) {
      if (!fits(kind, k) || (block > 0 && fast_is_table(kind))) continue;
      const Rows w(kind, count, k, block, true, random);
      const std::vector<float> x = numbers(columns * k, random);
      for (const bool fine : {false, true}) {
        std::vector<std::vector<float>> results;
        for (const char* level : {"amx", "avx512"}) {
          fast_choose_level(level);
          Room panels(fast_panels_bytes(k, columns)), tile(fast_room_bytes(true, count, k));
          const int64_t lanes = fast_panel_columns();
          fast_pack(x.data(), columns, k, columns, 0, (columns + lanes - 1) / lanes, panels.data());
          results.emplace_back(static_cast<size_t>(count * columns));
          fast_gemm(kind, block, fine, w.all.data(), count, {k, columns, panels.data()},
                    results.back().data(), columns, tile.data());
        }
        CAPTURE(static_cast<int>(kind));
        CAPTURE(k);
        CHECK(results[0] == results[1]);
      }
    }
  fast_choose_level(fast_level_names().front());
}

TEST_CASE("activations are rounded to 127 steps a block, and what is not finite gives NaN") {
  for_each_level([&](const char* name) {
    CAPTURE(name);
    std::vector<float> x(96);
    for (size_t i = 0; i < x.size(); ++i) x[i] = (i < 32 ? 1.0f : 1000.0f) * std::sin(static_cast<float>(i));
    for (size_t i = 64; i < 96; ++i) x[i] = 0;
    Room room(fast_column_bytes(96));
    const FastColumn q = fast_column(x.data(), 96, false, room.data());
    for (int64_t b = 0; b < 96; b += 32) {
      float most = 0;
      for (int64_t i = b; i < b + 32; ++i) most = std::max(most, std::fabs(x[static_cast<size_t>(i)]));
      CHECK(q.scales[b / 4] == doctest::Approx(most / 127));
      for (int64_t i = b; i < b + 32; ++i)
        CHECK(std::fabs(static_cast<float>(q.values[i]) * q.scales[i / 4] - x[static_cast<size_t>(i)]) <=
              0.501f * most / 127);
    }
    x[40] = INFINITY;
    std::vector<float> finite(96, 1);
    Room beside(fast_column_bytes(96));
    const FastColumn columns[2] = {fast_column(x.data(), 96, true, room.data()),
                                   fast_column(finite.data(), 96, true, beside.data())};
    std::mt19937 random(18);
    for (const FastKind kind : kKinds)
      for (const bool fine : {false, true}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(fine);
        const Rows w(kind, 1, 96, 0, false, random);
        float out[2] = {};
        float* to[2] = {out, out + 1};
        fast_matvec(kind, 0, fine, w.all.data(), 1, 96, columns, 2, to);
        CHECK(std::isnan(out[0]));
        CHECK(std::isfinite(out[1]));
      }
  });
}

TEST_CASE("tables keep 14 bits, and say whether 8 are enough") {
  float even[16], lone[16], above[16], flat[16] = {};
  for (int i = 0; i < 16; ++i) {
    even[i] = 0.1f * (static_cast<float>(i) - 7.5f);
    lone[i] = i == 15 ? 30.0f : 0.01f * static_cast<float>(i);  // one value far from the others
    above[i] = 0.08f * static_cast<float>(i);  // all on one side: steps half as large as about 0
  }
  std::byte out[48];
  for (const auto& [values, fits_8] :
       {std::pair(even, true), std::pair(lone, false), std::pair(above, true), std::pair(flat, true)}) {
    const FastScales s = fast_table(values, 4, out);
    CHECK(s.finite);
    CHECK(fast_coarse_fits(values, 4, s) == fits_8);
    if (values == above) CHECK(s.coarse <= 1.1f * 1.2f / 254);
    for (int i = 0; i < 16; ++i) {
      const int fine = 128 * std::to_integer<int>(out[i]) + std::to_integer<int>(out[16 + i]);
      CHECK(std::fabs(s.fine * (static_cast<float>(fine) - kFastMiddle) - values[i]) <= 0.501f * s.fine);
      const auto coarse = static_cast<float>(std::to_integer<int8_t>(out[32 + i])) - s.coarse_offset;
      CHECK(std::fabs(s.coarse * coarse - values[i]) <= 0.501f * s.coarse);
      if (values[i] == 0) CHECK(coarse == 0);
    }
  }
  even[3] = INFINITY;
  CHECK(!fast_table(even, 4, out).finite);
}
