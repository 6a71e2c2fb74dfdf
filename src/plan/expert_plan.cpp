#include "plan/expert_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "families/weights.h"
#include "lower/weights.h"
#include "plan/graph_bytes.h"

namespace anemone {
namespace {

// Bytes of a model's matrices as the chip reads them, by where they are.
struct Reads {
  double layers = 0;            // without experts
  std::vector<double> experts;  // of one expert, by layer; 0 where there are none
  double head = 0;

  Reads(const Model& m, const ModelPlanOptions& o) {
    const auto read = [&](const WeightRef& ref) {
      return static_cast<double>(
          read_bytes(form_of(o.precision, ref), ref.rows(), ref.columns, *o.target.chip));
    };
    for (const Layer& layer : m.layers) {
      const Experts* e = find_experts(layer);
      experts.push_back(e ? read(e->experts[0].gate.weight) + read(e->experts[0].up.weight) +
                                read(e->experts[0].down.weight)
                          : 0);
      layers -= e ? experts.back() * static_cast<double>(e->count()) : 0;
    }
    each_weight(m, [&](const WeightUse& w) {
      if (!w.is_matrix || w.place == WeightUse::Place::table) return;
      if (w.place != WeightUse::Place::head) {
        layers += read(w.ref);
        return;
      }
      for (int64_t row = 0; row < m.vocab; row += o.limits.head_rows)
        head += read(lower::head_rows(w.ref, row, std::min(row + o.limits.head_rows, m.vocab)));
    });
  }
};

// The number of packages of layers does not depend on the group.
double layer_calls(const Model& m, const ModelPlanOptions& o, const WeightBytes& bytes) {
  double calls = 0;
  for (const ExpertCut& cut : cut_at_experts(m, 0, m.layers.size(), bytes, o.limits, 1))
    calls += cut.has_experts() ? 0 : 1;
  return calls;
}

std::vector<int64_t> group_sizes(const Model& m, const ModelPlanOptions& o) {
  int64_t fewest = 0;
  for (const Layer& layer : m.layers)
    if (const Experts* e = find_experts(layer)) fewest = fewest ? std::min(fewest, e->count()) : e->count();
  if (o.expert_group) return {std::min(fewest, o.expert_group)};
  std::vector<int64_t> out;
  for (int64_t g = 2; g < fewest; g *= 2) out.push_back(g);
  if (out.empty()) out.push_back(fewest);
  return out;
}

// How many bytes the program of one function takes: weights have types and no values.
template <class Build>
uint64_t program_bytes(bool packed, const Build& build) {
  Program program;
  lower::HollowWeights weights(packed);
  build(program, weights);
  return encoded_bytes(program);
}

// The function behind experts computes once more what they saw, where a shared one needs it.
uint64_t norms_again(const Layer& layer, const StorageForm& precision) {
  const ResidualStep& step = layer.steps[experts_step(layer)];
  if (!step.norm_in || !std::get<Experts>(step.block).shared) return 0;
  uint64_t bytes = 0;
  for (const WeightRef* ref : {&step.norm_in->gain, &step.norm_in->bias})
    if (*ref) bytes += weight_file_bytes(precision, *ref, false);
  return bytes;
}

}  // namespace

std::vector<WayCost> expert_costs(const Model& m, const ModelPlanOptions& o, const TokenWork& base) {
  if (std::ranges::none_of(m.layers, [](const Layer& l) { return find_experts(l) != nullptr; })) return {};
  const WeightBytes bytes = [&](const WeightRef& ref) {
    return stored_bytes(form_of(o.precision, ref), ref.rows(), ref.columns);
  };
  const Reads reads(m, o);
  const ShardPlan shards = plan_shards(m, 0, m.layers.size(), bytes, o.limits);
  const auto finish = [&](WayCost w) {
    TokenWork work = base;
    work.weight_bytes = static_cast<double>(w.read_bytes());
    work.calls = w.calls();
    w.cost = token_cost(work, *o.target.chip, calibration().constants);
    return w;
  };
  const auto of_groups = [&](ExpertWay way, int64_t group) {
    WayCost w{.way = way, .group = group, .layer_calls = layer_calls(m, o, bytes)};
    w.head_calls = static_cast<double>(shards.heads.size());
    double experts = 0;
    for (size_t i = 0; i < m.layers.size(); ++i)
      if (const Experts* e = find_experts(m.layers[i])) {
        const double used = groups_used(*e, group);
        w.expert_calls += used;
        // The last group may have fewer.
        experts += used * reads.experts[i] * static_cast<double>(e->count()) /
                   static_cast<double>((e->count() + group - 1) / group);
      }
    w.layer_bytes = static_cast<uint64_t>(reads.layers);
    w.expert_bytes = static_cast<uint64_t>(experts);
    w.head_bytes = static_cast<uint64_t>(reads.head);
    return finish(w);
  };
  WayCost all{.way = ExpertWay::all,
              .layer_calls = static_cast<double>(shards.layers.size()),
              .head_calls = static_cast<double>(shards.heads.size())};
  double experts = 0;
  for (size_t i = 0; i < m.layers.size(); ++i)
    if (const Experts* e = find_experts(m.layers[i]))
      experts += reads.experts[i] * static_cast<double>(e->count());
  all.layer_bytes = static_cast<uint64_t>(reads.layers);
  all.expert_bytes = static_cast<uint64_t>(experts);
  all.head_bytes = static_cast<uint64_t>(reads.head);
  std::vector<WayCost> out = {finish(all), of_groups(ExpertWay::host, 1)}, groups;
  for (const int64_t g : group_sizes(m, o)) groups.push_back(of_groups(ExpertWay::groups, g));
  out.push_back(fastest(groups));
  return out;
}

const WayCost& fastest(const std::vector<WayCost>& costs) {
  return *std::ranges::min_element(costs, {}, [](const WayCost& w) { return w.cost.total_ms(); });
}

uint64_t cut_package_bytes(const Model& m, const std::vector<ExpertCut>& cuts, const StorageForm& precision,
                           int64_t group) {
  const bool packed = bits_of(precision) < 16, prompts = !precision.palette;
  const std::vector<int64_t> tokens = function_tokens(m, prompts);
  uint64_t bytes = 0;
  each_weight(m, [&](const WeightUse& w) {
    if (w.place != WeightUse::Place::table && w.place != WeightUse::Place::head)
      bytes += weight_file_bytes(precision, w.ref, w.is_matrix);
  });
  // Layers are alike as a rule: programs of the same form are built once.
  std::map<std::tuple<size_t, bool, bool, bool, bool>, uint64_t> layers;
  std::map<const Experts*, uint64_t> groups;
  uint64_t one_group = 0;
  for (const ExpertCut& cut : cuts) {
    bytes += PackageOverhead::weight_header + PackageOverhead::manifest;
    if (cut.has_experts()) {
      const Experts& e = *find_experts(m.layers[cut.first]);
      if (!one_group)
        one_group = program_bytes(packed, [&](Program& p, lower::Weights& weights) {
          for (const int64_t t : expert_slots(e, group, tokens))
            lower::build_experts(p, fmt::format("e{}_t{}", cut.first_expert, t), m, weights,
                                 {.layer = cut.first,
                                  .first = cut.first_expert,
                                  .last = std::min(cut.last_expert, cut.first_expert + group),
                                  .tokens = {t, t}});
        });
      bytes += one_group * static_cast<uint64_t>((cut.last_expert - cut.first_expert + group - 1) / group);
      continue;
    }
    if (cut.behind_experts) bytes += norms_again(m.layers[cut.first], precision);
    const bool first = cut.first == 0 && !cut.behind_experts,
               last = cut.last == m.layers.size() && !cut.at_router;
    uint64_t& known = layers[{cut.last - cut.first, cut.behind_experts, cut.at_router, first, last}];
    if (!known)
      known = program_bytes(packed, [&](Program& p, lower::Weights& weights) {
        lower::LayersSpec spec;
        spec.first = cut.first;
        spec.last = cut.last;
        spec.behind_experts = cut.behind_experts;
        spec.at_router = cut.at_router;
        spec.first_stage = first;
        spec.last_stage = last;
        for (const int64_t t : tokens) {
          spec.tokens = {t, t};
          lower::build_layers(p, fmt::format("t{}", t), m, weights, spec);
        }
      });
    bytes += known;
  }
  return bytes;
}

}  // namespace anemone
