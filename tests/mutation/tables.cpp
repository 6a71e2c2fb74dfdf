// The tables that the host reads: embeddings of tokens, positions and types, and their scales.
#include "base/error.h"
#include "mutation/bytes.h"
#include "mutation/mutation.h"

namespace anemone::mutation {
namespace {

struct Table {
  std::string name, file;
  DType dtype;
  size_t rows, row_bytes;
  bool tokens;  // a row belongs to a token
};

std::vector<Table> tables_of(const Subject& subject) {
  std::vector<Table> out;
  const auto hidden = static_cast<size_t>(subject.info.hidden);
  const auto add = [&](const char* name, const EmbeddingTable& t, bool tokens) {
    if (!t) return;
    const bool small = t.dtype == "int8";
    out.push_back({name, t.file, small ? DType::int8 : DType::fp16, static_cast<size_t>(t.rows),
                   hidden * (small ? 1 : 2), tokens});
    if (small) out.push_back({name, t.scales, DType::fp32, static_cast<size_t>(t.rows), 4, tokens});
  };
  add("embedding", subject.info.tokens, true);
  add("positions", subject.info.positions, false);
  add("types", subject.info.types, false);
  return out;
}

void add_table(const Table& t, Rng& rng, std::vector<Mutation>& out) {
  const auto add = [&](const std::string& kind, const std::string& where, const std::vector<size_t>& rows,
                       const std::function<void(std::string&)>& change) {
    Mutation m;
    m.group = "tables";
    m.kind = kind;
    m.place = fmt::format("{} {}", t.file, where);
    m.expected = {{t.name, t.file}, 1};
    for (const size_t row : rows)
      if (t.tokens) m.ids.push_back(static_cast<int32_t>(row));
    m.apply = [file = t.file, change](Workspace& w) { w.edit_bytes(file, change); };
    out.push_back(std::move(m));
  };
  const auto row_at = [t](size_t r) { return ByteRange{r * t.row_bytes, (r + 1) * t.row_bytes}; };
  const auto r = static_cast<size_t>(rng.below(static_cast<int64_t>(t.rows)));
  const size_t other = (r + 1 + static_cast<size_t>(rng.below(static_cast<int64_t>(t.rows) - 1))) % t.rows;
  const ByteRange row = row_at(r), row2 = row_at(other), all{0, t.rows * t.row_bytes};
  const std::string where = fmt::format("row {}", r), both = fmt::format("rows {} and {}", r, other);
  const size_t width = static_cast<size_t>(dtype_bits(t.dtype)) / 8;
  const size_t element =
      row.begin + static_cast<size_t>(rng.below(static_cast<int64_t>(t.row_bytes / width))) * width;
  const int bit = high_bit(t.dtype, rng);
  add("row zeroed", where, {r}, [=](std::string& b) { zero(b, row); });
  add("row negated", where, {r}, [=](std::string& b) { negate(b, row, t.dtype); });
  if (t.rows > 1) {
    add("two rows swapped", both, {r, other}, [=](std::string& b) { swap_ranges(b, row, row2); });
    add("rows moved by one", "", {r}, [=](std::string& b) { turn(b, all, t.row_bytes); });
  }
  add("one bit flipped", fmt::format("{} byte {} bit {}", where, element, bit), {r},
      [=](std::string& b) { flip_bit(b, element + static_cast<size_t>(bit / 8), bit % 8); });
  add("element zeroed", fmt::format("{} byte {}", where, element), {r},
      [=](std::string& b) { zero(b, {element, element + width}); });
  add("row times 1.1", where, {r}, [=](std::string& b) { scale(b, row, t.dtype, 1.1f); });
  add("table times 1.02", "", {r}, [=](std::string& b) { scale(b, all, t.dtype, 1.02f); });
  constexpr size_t kPage = 4096;
  if (all.end >= kPage) {
    const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(all.end / kPage))) * kPage;
    add("page zeroed", fmt::format("byte {}", at), {(at + kPage / 2) / t.row_bytes},
        [=](std::string& b) { zero(b, {at, at + kPage}); });
  }
}

}  // namespace

std::vector<Mutation> table_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out;
  for (int i = 0; i < 3; ++i)
    for (const Table& table : tables_of(subject)) add_table(table, rng, out);
  return out;
}

}  // namespace anemone::mutation
