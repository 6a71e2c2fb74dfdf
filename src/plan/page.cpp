#include "plan/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "compress/recipe.h"
#include "families/weights.h"
#include "page/page.h"
#include "plan/known_models.h"
#include "plan/report.h"

namespace anemone {

extern const std::string_view kPlanBody;  // page/plan.html, embedded by CMake

namespace {

using Json = nlohmann::ordered_json;

Json graph_json(const GraphBytes& g) { return {g.layers, g.layer, g.head, g.piece}; }

// What differs from layer to layer: the kinds of layers, and which kind each layer is.
void add_layers(const Model& m, Json& out) {
  Json kinds = Json::array(), of = Json::array();
  for (size_t i = 0; i < m.layers.size(); ++i) {
    Json kind = {{"matrices", Json::array()},
                 {"vectors", Json::array()},
                 {"cache", 0},
                 {"state", recurrent_bytes(m.layers[i])}};
    each_weight(m, i, [&](const WeightUse& w) {
      if (w.is_matrix)
        kind["matrices"].push_back({w.ref.rows(), w.ref.columns});
      else
        kind["vectors"].push_back(w.elements());
    });
    if (const Attention* a = find_attention(m.layers[i]))
      kind["cache"] = a->kv_heads * lower::cache_width(*a);
    const auto same = std::find(kinds.begin(), kinds.end(), kind);
    of.push_back(same - kinds.begin());
    if (same == kinds.end()) kinds.push_back(std::move(kind));
  }
  out["layerKinds"] = std::move(kinds);
  out["layerOf"] = std::move(of);
}

// Vectors of the packages that belong to no layer: at both ends of the layers, and beside each convolution of the head.
void add_ends(const Model& m, Json& out) {
  out["ends"] = Json::array();
  out["headVectors"] = 0;
  each_weight(m, [&](const WeightUse& w) {
    if (w.is_matrix) return;
    if (w.place == WeightUse::Place::front || w.place == WeightUse::Place::back)
      out["ends"].push_back(w.elements());
    if (w.place == WeightUse::Place::head) out["headVectors"] = out["headVectors"].get<int>() + 1;
  });
}

Json shape_json(const Planner& planner, const std::string& id) {
  const Model& m = planner.model();
  const ModelSizes sizes = sizes_of(m);
  const StorageForm half = parse_precision("fp16"), integers = parse_precision("int8"),
                    palettes = parse_precision("lut4");
  Json out = {{"id", id},
              {"name", m.name.empty() ? m.family : m.name},
              {"family", m.family},
              {"parameters", planner.parameters()},
              {"hidden", m.hidden},
              {"layers", m.layers.size()},
              {"heads", sizes.heads},
              {"kvHeads", sizes.kv_heads},
              {"headDim", sizes.head_dim},
              {"intermediate", sizes.intermediate},
              {"vocab", m.vocab},
              {"context", m.context},
              {"tied", m.vocabulary_head().tied},
              {"tokenizer", planner.tokenizer_bytes()},
              {"graph",
               {{"half", graph_json(planner.graph(half))},
                {"integers", graph_json(planner.graph(integers))},
                {"palettes", graph_json(planner.graph(palettes))}}}};
  add_layers(m, out);
  add_ends(m, out);
  return out;
}

Json chip_json(const Chip& c) {
  return {{"id", c.id},
          {"name", c.name},
          {"device", device_name(c.device)},
          {"phone", c.phone()},
          {"gbps", c.weight_read.mid()},
          {"measured", c.weight_read.measured},
          {"origin", c.weight_read.origin},
          {"floorUs", call_floor_us(c)},
          {"int8Streams", c.streams().int8},
          {"memory", std::vector<int>(c.memory_gb.begin(), c.memory_gb.end())},
          {"share", usable_memory_share(c.device)},
          {"mostShard", most_shard_bytes(c.device)},
          {"mostContext", longest_context(c)}};
}

// One of what parse_precision() knows.
Json precision_json(const StorageForm& f) {
  const bool tensor = f.integers && f.integers->per == IntegerForm::Per::tensor;
  return {{"name", precision_name(f)},
          {"kind", f.palette    ? "palette"
                   : tensor     ? "int8-tensor"
                   : f.integers ? "int8"
                                : "fp16"},
          {"bits", bits_of(f)},
          {"group", f.palette ? f.palette->group : 0},
          {"efficiency", read_efficiency(f)}};
}

Json page_data(const Planner* own, const ModelPlanOptions& o) {
  Json data;
  data["chips"] = Json::array();
  for (const Chip& chip : all_chips()) data["chips"].push_back(chip_json(chip));
  data["forms"] = Json::array();
  bool offered = false;
  for (const StorageForm& precision : all_precisions()) {
    data["forms"].push_back(precision_json(precision));
    offered = offered || precision == o.precision;
  }
  if (!offered) data["forms"].push_back(precision_json(o.precision));
  data["models"] = Json::array();
  if (own) data["models"].push_back(shape_json(*own, "own"));
  // The page computes every expert: models for which that is not the way to go are not in its list.
  for (const KnownModel& known : known_models())
    if (!known.experts) data["models"].push_back(shape_json(Planner(describe(known)), std::string(known.id)));
  const CostFit& c = calibration();
  data["constants"] = {{"activationGbps", c.constants.activation_gbps},
                       {"usPerChannel", c.constants.us_per_channel}};
  data["limits"] = {{"app", kAppBytes},
                    {"resident", kResidentBytes},
                    {"process", kProcessBytes},
                    {"safeShard", kSafeShardBytes},
                    {"headRows", o.limits.head_rows},
                    {"leastCompressed", kLeastCompressed},
                    {"manifest", PackageOverhead::manifest},
                    {"weightHeader", PackageOverhead::weight_header},
                    {"bundleJson", PackageOverhead::bundle_json},
                    {"bundleJsonLayer", PackageOverhead::bundle_json_layer}};
  data["calibration"] = calibration_json();
  data["start"] = {{"model", own ? "own" : "qwen3-0.6b"},          {"chip", o.target.chip->id},
                   {"form", precision_name(o.precision)},          {"context", o.context},
                   {"slice", o.kv_write == lower::KvWrite::slice}, {"shardBytes", o.limits.bytes}};
  return data;
}

}  // namespace

std::string plan_page(const Planner* own, const ModelPlanOptions& options) {
  return page_text({.title = "anemone plan: size and speed",
                    .heading = "Size and speed on the Neural Engine",
                    .note = "anemone plan: move anything, see what it costs"},
                   with_data(kPlanBody, json_text(page_data(own, options))));
}

void write_plan_page(const std::filesystem::path& path, const Planner* own, const ModelPlanOptions& options) {
  write_page(path, plan_page(own, options));
}

}  // namespace anemone
