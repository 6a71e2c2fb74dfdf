#include "verify/cache_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace anemone {
namespace {

bool row_changed(const Caches& caches, const LayerCache& layer, const std::vector<float>& now,
                 const std::vector<float>& old, int64_t position) {
  for (int64_t h = 0; h < layer.kv_heads; ++h) {
    const std::span<const float> a = caches.row(layer, now, h, position),
                                 b = caches.row(layer, old, h, position);
    if (std::memcmp(a.data(), b.data(), a.size_bytes()) != 0) return true;
  }
  return false;
}

// All heads of a row, without the padding of their width.
std::vector<float> row_of(const Caches& caches, const LayerCache& layer, const std::vector<float>& side,
                          int64_t position, int64_t dim) {
  std::vector<float> out;
  for (int64_t h = 0; h < layer.kv_heads; ++h) {
    const std::span<const float> row = caches.row(layer, side, h, position);
    out.insert(out.end(), row.begin(), row.begin() + dim);
  }
  return out;
}

// The row that holds this, more or less; -1 where none does.
int64_t row_like(const Caches& caches, const LayerCache& layer, const std::vector<float>& side,
                 std::span<const float> expected, int64_t dim) {
  constexpr double kAlike = 0.1;
  for (int64_t p = 0; p < caches.context; ++p)
    if (compare(row_of(caches, layer, side, p, dim), expected).relative < kAlike) return p;
  return -1;
}

// Of a row against a golden when weights have fewer than 8 bits: single rows are noisier than a layer as a whole.
constexpr double kFewBitsRowCosine = 0.7;

}  // namespace

void fill_with_known(Caches& caches, const std::vector<int64_t>& heads) {
  uint32_t n = 1;
  for (size_t i = 0; i < caches.layers.size(); ++i) {
    LayerCache& layer = caches.layers[i];
    const int64_t dim = i < heads.size() && heads[i] > 0 ? heads[i] : layer.width;
    for (std::vector<float>* side : {&layer.k, &layer.v})
      for (size_t at = 0; at < side->size(); ++at) {
        n = n * 1664525u + 1013904223u;
        const bool inside = static_cast<int64_t>(at) % layer.width < dim;
        (*side)[at] = inside ? (static_cast<float>(n >> 27) - 15.5f) / 128.0f : 0.0f;
      }
  }
  caches.changed = true;
}

std::string CacheRows::problem(const std::vector<LayerCache>& before, const Caches& after, int64_t last) {
  for (size_t i = 0; static_cast<int64_t>(i) <= last; ++i)
    for (const char* side : {"k", "v"}) {
      const std::string wrong = side_problem(i, side, before, after);
      if (!wrong.empty()) return wrong;
    }
  return "";
}

std::string CacheRows::side_problem(size_t index, const char* side, const std::vector<LayerCache>& before,
                                    const Caches& after) {
  const LayerCache& layer = after.layers[index];
  const bool keys = side[0] == 'k';
  const std::vector<float>& now = keys ? layer.k : layer.v;
  const std::vector<float>& old = keys ? before[index].k : before[index].v;
  if (now.empty()) return "";
  const Golden::Rows* truth = truth_.find(side, static_cast<int64_t>(index));
  const std::string what =
      fmt::format("layer {}, {} cache", c_.first_layer + static_cast<int64_t>(index), keys ? "key" : "value");
  int64_t stray = -1;
  for (int64_t p = 0; p < after.context && stray < 0; ++p)
    if (!allowed_.contains(p) && !tokens_.contains(p) && row_changed(after, layer, now, old, p)) stray = p;
  for (const auto& [row, token] : tokens_) {
    ++compared_;
    const bool known = truth && truth->has(token);
    const int64_t dim = known ? truth->width / layer.kv_heads : layer.width;
    if (known && (dim > layer.width || dim * layer.kv_heads != truth->width))
      throw errorf("'{}_{}' of the truth has rows of another size", side, index)
          .found(fmt::format("{}", truth->width))
          .expected(fmt::format("at most {} x {}", layer.kv_heads, layer.width));
    if (!row_changed(after, layer, now, old, row)) {
      const int64_t found = known ? row_like(after, layer, now, truth->row(token), dim) : stray;
      if (found >= 0)
        return fmt::format("{}: token {} was written to row {} instead of row {}", what, token, found, row);
      return fmt::format("{}: row {} was not written", what, row);
    }
    for (int64_t h = 0; h < layer.kv_heads; ++h) {
      const std::span<const float> cells = after.row(layer, now, h, row);
      if (!std::all_of(cells.begin(), cells.end(), [](float v) { return std::isfinite(v); }))
        return fmt::format("{}: row {} is not finite", what, row);
      if (std::any_of(cells.begin() + dim, cells.end(), [](float v) { return v != 0; }))
        return fmt::format("{}: the padding of row {} is not zero", what, row);
    }
    // Against a golden: values of a first token are near zero as a rule, and mostly noise in fewer bits.
    if (!known || (token == 0 && !c_.exact() && c_.least_bits < 8)) continue;
    const Figures f = compare(row_of(after, layer, now, row, dim), truth->row(token));
    if (!c_.exact() && c_.least_bits < 8 && f.within(kFewBitsRowCosine)) continue;
    const std::string wrong = c_.value_problem(f, how_, false);
    if (!wrong.empty()) return fmt::format("{}: row {} is wrong: {}", what, row, wrong);
  }
  if (stray >= 0) return fmt::format("{}: row {} changed, and no token went there", what, stray);
  return "";
}

}  // namespace anemone
