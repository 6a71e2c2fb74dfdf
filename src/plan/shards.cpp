#include "plan/shards.h"

#include <algorithm>

#include "families/weights.h"
#include "lower/functions.h"

namespace anemone {
namespace {

// Filled from the front; an item above the limit stands alone.
std::vector<Shard> fill(std::span<const uint64_t> items, uint64_t limit) {
  std::vector<Shard> out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (out.empty() || items[i] > limit || out.back().bytes > limit - items[i]) out.push_back({i, i, 0});
    out.back().last = i + 1;
    out.back().bytes += items[i];
  }
  return out;
}

}  // namespace

uint64_t ShardPlan::bytes() const {
  uint64_t total = 0;
  for (const auto* list : {&layers, &heads})
    for (const Shard& shard : *list) total += shard.bytes;
  return total;
}

int64_t longest_text(const Model& model) {
  const Embedding& e = model.embedding;
  return e.positions ? std::min(model.context, e.positions.rows() - e.first_position) : model.context;
}

std::vector<int64_t> text_lengths(const Model& model) {
  const int64_t most = longest_text(model);
  int64_t longest = std::min<int64_t>(most, 512);
  // Texts of any length are cut into windows where tokens see a band: half of a window is then its own.
  const int64_t sight = lower::sight_of(lower::masks_of(model), static_cast<int64_t>(model.layers.size()));
  if (2 * sight >= longest) longest = std::min(most, 4 * sight);
  std::vector<int64_t> out;
  for (const int64_t n : {64, 256, 512})
    if (n < longest) out.push_back(n);
  out.push_back(longest);
  return out;
}

std::vector<Shard> cut_evenly(std::span<const uint64_t> items, uint64_t limit) {
  const size_t fewest = fill(items, limit).size();
  // The smallest limit that needs no more packages. Items above the limit stand alone at any of these.
  uint64_t low = 0, high = limit;
  for (const uint64_t item : items)
    if (item <= limit) low = std::max(low, item);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (fill(items, middle).size() <= fewest)
      high = middle;
    else
      low = middle + 1;
  }
  return fill(items, high);
}

ShardPlan plan_shards(const Model& model, size_t first, size_t last, const WeightBytes& bytes,
                      const ShardLimits& limits) {
  const uint64_t limit = limits.whole ? UINT64_MAX : limits.bytes;
  std::vector<uint64_t> items;
  for (size_t i = first; i < last; ++i) {
    uint64_t total = 0;
    each_weight(model, i, [&](const WeightUse& w) { total += w.is_matrix ? bytes(w.ref) : 0; });
    items.push_back(total);
  }
  ShardPlan plan;
  plan.layers = cut_evenly(items, limit);
  for (Shard& shard : plan.layers) {
    shard.first += first;
    shard.last += first;
  }
  items.clear();
  each_weight(model, [&](const WeightUse& w) {
    if (w.place != WeightUse::Place::head || !w.is_matrix) return;
    for (int64_t row = 0; row < model.vocab; row += limits.head_rows)
      items.push_back(bytes(lower::head_rows(w.ref, row, std::min(row + limits.head_rows, model.vocab))));
  });
  plan.heads = cut_evenly(items, limit);
  for (Shard& shard : plan.heads) {
    shard.first *= static_cast<size_t>(limits.head_rows);
    shard.last =
        std::min(static_cast<size_t>(model.vocab), shard.last * static_cast<size_t>(limits.head_rows));
  }
  return plan;
}

}  // namespace anemone
