#include "plan/expert_cut.h"

#include <algorithm>
#include <set>

#include "families/weights.h"

namespace anemone {
namespace {

uint64_t expert_bytes(const GatedMlp& mlp, const WeightBytes& bytes) {
  return bytes(mlp.gate.weight) + bytes(mlp.up.weight) + bytes(mlp.down.weight);
}

// Of what the function behind the experts begins with.
uint64_t shared_bytes(const Experts& e, const WeightBytes& bytes) {
  return e.shared ? expert_bytes(e.shared->mlp, bytes) : 0;
}

// Packages of whole groups.
void cut_experts(const Experts& e, size_t layer, const WeightBytes& bytes, const ShardLimits& limits,
                 int64_t group, std::vector<ExpertCut>& out) {
  std::vector<uint64_t> items;
  for (int64_t i = 0; i < e.count(); ++i) {
    if (i % group == 0) items.push_back(0);
    items.back() += expert_bytes(e.experts[static_cast<size_t>(i)], bytes);
  }
  for (const Shard& shard : cut_evenly(items, limits.bytes)) {
    ExpertCut cut{.first = layer, .last = layer + 1, .bytes = shard.bytes};
    cut.first_expert = static_cast<int64_t>(shard.first) * group;
    cut.last_expert = std::min(e.count(), static_cast<int64_t>(shard.last) * group);
    out.push_back(cut);
  }
}

// Layers between two cuts, in packages under the limit. `items`: their bytes.
void cut_layers(ExpertCut whole, const std::vector<uint64_t>& items, const ShardLimits& limits,
                std::vector<ExpertCut>& out) {
  const std::vector<Shard> shards = cut_evenly(items, limits.bytes);
  for (const Shard& shard : shards) {
    ExpertCut cut = whole;
    cut.first = whole.first + shard.first;
    cut.last = whole.first + shard.last;
    cut.behind_experts = whole.behind_experts && shard.first == 0;
    cut.at_router = whole.at_router && shard.last == items.size();
    cut.bytes = shard.bytes;
    out.push_back(cut);
  }
}

}  // namespace

std::string_view way_name(ExpertWay way) {
  switch (way) {
    case ExpertWay::all: return "all";
    case ExpertWay::host: return "host";
    case ExpertWay::groups: return "groups";
  }
  return "";
}

std::vector<ExpertCut> cut_at_experts(const Model& model, size_t first, size_t last, const WeightBytes& bytes,
                                      const ShardLimits& limits, int64_t group) {
  std::vector<ExpertCut> out;
  ExpertCut open{.first = first};
  std::vector<uint64_t> items;  // of its layers
  for (size_t i = first; i < last; ++i) {
    const Experts* e = find_experts(model.layers[i]);
    uint64_t rest = 0;
    each_weight(model, i, [&](const WeightUse& w) { rest += w.is_matrix ? bytes(w.ref) : 0; });
    if (e) {
      for (const GatedMlp& mlp : e->experts) rest -= expert_bytes(mlp, bytes);
      rest -= shared_bytes(*e, bytes);
    }
    items.push_back(rest);
    if (!e) continue;
    open.last = i + 1;
    open.at_router = true;
    cut_layers(open, items, limits, out);
    cut_experts(*e, i, bytes, limits, group, out);
    open = {.first = i, .behind_experts = true};
    items = {shared_bytes(*e, bytes)};
  }
  open.last = last;
  cut_layers(open, items, limits, out);
  return out;
}

std::vector<int64_t> expert_slots(const Experts& e, int64_t group, const std::vector<int64_t>& tokens) {
  std::set<int64_t> out;
  for (const int64_t t : tokens) {
    const int64_t wanted = 2 * t * e.used * std::min(group, e.count()) / e.choices();
    int64_t slot = 1;
    while (slot < wanted) slot *= 2;
    out.insert(std::min(t, slot));
  }
  return {out.begin(), out.end()};
}

double groups_used(const Experts& e, int64_t group) {
  // That none of a group's g experts is among the used ones: (n - g over k) / (n over k).
  double used = 0;
  const auto choices = static_cast<double>(e.choices());
  for (int64_t begin = 0; begin < e.count(); begin += group) {
    const auto size = static_cast<double>(std::min(group, e.count() - begin));
    double none = 1;
    for (int64_t k = 0; k < e.used; ++k)
      none *= std::max(0.0, choices - size - static_cast<double>(k)) / (choices - static_cast<double>(k));
    used += 1 - none;
  }
  return used;
}

}  // namespace anemone
