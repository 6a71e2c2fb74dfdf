#include "plan/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value, double step) { return std::round(value / step) * step; }

Json shards_json(const std::vector<Shard>& shards) {
  Json out = Json::array();
  for (const Shard& s : shards) out.push_back({{"first", s.first}, {"last", s.last - 1}, {"bytes", s.bytes}});
  return out;
}

Json errors_json(const FitErrors& e) {
  return {{"mean", rounded(e.mean, 1e-4)}, {"worst", rounded(e.worst, 1e-4)}};
}

}  // namespace

Json model_json(const PlanSource& source, const Planner& planner) {
  const Model& m = planner.model();
  const ModelSizes sizes = sizes_of(m);
  return {{"name", m.name},
          {"family", m.family},
          {"origin", source.origin},
          {"parameters", planner.parameters()},
          {"layers", m.layers.size()},
          {"hidden", m.hidden},
          {"heads", sizes.heads},
          {"kv_heads", sizes.kv_heads},
          {"head_dim", sizes.head_dim},
          {"intermediate", sizes.intermediate},
          {"vocabulary", m.vocab},
          {"context", m.context},
          {"tied_head", m.generates() && m.vocabulary_head().tied},
          {"stored_bytes", source.stored_bytes},
          {"kv_bytes_per_position", planner.kv_bytes_per_position()}};
}

Json plan_json(const ModelPlan& p) {
  const Chip& chip = *p.options.target.chip;
  Json out = {{"precision", precision_name(p.options.precision)},
              {"chip", chip.id},
              {"context", p.options.context},
              {"layer_bytes", p.layer_weights},
              {"head_bytes", p.head_weights},
              {"package_bytes", p.package_bytes},
              {"embedding_bytes", p.embedding_bytes},
              {"bundle_bytes", p.bundle_bytes},
              {"kv_bytes", p.kv_bytes},
              {"state_bytes", p.state_bytes},
              {"memory_bytes", p.memory_bytes},
              {"calls_per_token", p.calls()}};
  out["shards"] = {{"layers", shards_json(p.shards.layers)}, {"head", shards_json(p.shards.heads)}};
  if (!p.ways.empty()) {
    out["experts"] = {{"way", way_name(p.way.way)}, {"group", p.way.group}, {"ways", Json::array()}};
    for (const WayCost& w : p.ways) {
      Json way = {
          {"way", way_name(w.way)},
          {"group", w.group},
          {"calls",
           {rounded(w.layer_calls, 0.01), rounded(w.expert_calls, 0.01), rounded(w.head_calls, 0.01)}},
          {"read_bytes", {w.layer_bytes, w.expert_bytes, w.head_bytes}}};
      if (p.speed_known) way["ms"] = rounded(w.cost.total_ms(), 0.001);
      out["experts"]["ways"].push_back(std::move(way));
    }
  }
  if (p.speed_known)
    out["predicted"] = {{"tokens_per_second", rounded(p.tokens_per_second(), 0.01)},
                        {"low", rounded(p.slowest(), 0.01)},
                        {"high", rounded(p.fastest(), 0.01)},
                        {"ms", rounded(p.cost.total_ms(), 0.001)},
                        {"weights_ms", rounded(p.cost.weights_ms, 0.001)},
                        {"kv_ms", rounded(p.cost.kv_ms, 0.001)},
                        {"calls_ms", rounded(p.cost.calls_ms, 0.001)},
                        {"read_bytes", p.read_bytes},
                        {"weight_read_gbps", chip.weight_read.mid()},
                        {"weight_read_measured", chip.weight_read.measured},
                        {"weight_read_origin", chip.weight_read.origin}};
  out["fits"] = {{"app", p.fit.app},
                 {"smallest_memory_gb", p.fit.smallest_gb},
                 {"smallest_iphone_gb", p.fit.phone_gb},
                 {"resident", p.fit.resident},
                 {"context", p.fit.context}};
  return out;
}

Json calibration_json() {
  const CostFit& c = calibration();
  Json out = {{"activation_gbps", rounded(c.constants.activation_gbps, 1e-3)},
              {"us_per_channel_and_call", rounded(c.constants.us_per_channel, 1e-5)},
              {"error", errors_json(c.in_sample)},
              {"error_point_left_out", errors_json(c.left_out)},
              {"error_model_left_out", errors_json(c.model_out)},
              {"error_outside_fit", errors_json(c.outside)}};
  for (const CalibrationPoint& p : calibration_points())
    out["points"].push_back({{"model", p.model},
                             {"setting", p.setting},
                             {"chip", p.chip},
                             {"fitted", p.fitted},
                             {"measured_ms", rounded(p.measured_ms, 0.01)},
                             {"error", rounded(relative_error(p, c.constants), 1e-4)}});
  return out;
}

}  // namespace anemone
