#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "verify/climber.h"
#include "verify/report.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const FigureRow& f) {
  Json out = {{"what", f.what}, {"arithmetic", arithmetic_name(f.arithmetic)}, {"positions", f.positions}};
  if (f.choices) {
    out["argmax_equal"] = f.same_best;
    out["top5_overlap"] = f.overlap;
  }
  if (!f.values) return out;
  out["cosine"] = number(f.cosine);
  out["worst_cosine"] = number(f.worst_cosine);
  out["relative_error"] = number(f.error);
  out["worst_relative_error"] = number(f.worst_error);
  if (f.choices) {
    out["kl_divergence"] = number(f.divergence);
    out["worst_kl_divergence"] = number(f.worst_divergence);
  }
  out["mean_abs_error"] = number(f.mean_abs);
  out["max_abs_error"] = number(f.max_abs);
  out["psnr_db"] = number(f.psnr);
  return out;
}

Json to_json(const StorageCost& c) {
  Json out = {{"grade", c.grade()}, {"positions", c.positions}};
  if (c.perplexity > 0) {
    out["kl_divergence"] = number(c.divergence);
    out["worst_kl_divergence"] = number(c.worst_divergence);
    out["argmax_equal"] = c.same_best;
    out["perplexity"] = number(c.perplexity);
    out["stored_perplexity"] = number(c.stored_perplexity);
  } else {
    out["relative_error"] = number(c.error);
  }
  return out;
}

Json to_json(const Figures& f) {
  return {{"cosine", number(f.cosine)},
          {"relative_error", number(f.relative)},
          {"mean_abs_error", number(f.mean_abs)},
          {"max_abs_error", number(f.max_abs)},
          {"psnr_db", number(f.psnr)}};
}

Json to_json(const Rung& r) {
  Json out = {{"number", r.number},   {"name", r.name},   {"verdict", verdict_name(r.verdict)},
              {"summary", r.summary}, {"notes", r.notes}, {"seconds", r.seconds}};
  for (const FigureRow& row : r.rows) out["figures"].push_back(to_json(row));
  return out;
}

Json to_json(const WeightFigures& w) {
  Json out = {{"name", w.name},         {"tensor", w.tensor},
              {"package", w.package},   {"form", w.form},
              {"elements", w.count},    {"sqnr_db", number(w.sqnr)},
              {"gain", number(w.gain)}, {"max_abs_error", number(w.max_abs)}};
  if (!w.problem.empty()) out["problem"] = w.problem;
  return out;
}

Json layers_json(const VerifyReport& r) {
  Json out = Json::array();
  const size_t count = r.layer_figures.empty() ? r.magnitudes.size() : r.layer_figures.begin()->second.size();
  for (size_t i = 0; i < count; ++i) {
    Json layer = Json::object();
    for (const auto& [a, layers] : r.layer_figures) {
      if (i >= layers.size()) continue;
      layer["layer"] = layers[i].layer;
      Json& parts = layer[arithmetic_name(a)] = Json::object();
      for (const auto& [name, f] : layers[i].parts) parts[name] = to_json(f);
    }
    if (i < r.magnitudes.size()) {
      const LayerMagnitude& m = r.magnitudes[i];
      layer["layer"] = m.layer;
      layer["largest_value"] = {{"value", number(m.value.value)}, {"where", m.value.where}};
      if (!m.sum.where.empty())
        layer["largest_sum"] = {{"value", number(m.sum.value)}, {"where", m.sum.where}};
      layer["fp16_headroom"] = number(m.half_headroom());
      layer["accumulator_headroom"] = number(m.accumulator_headroom());
    }
    out.push_back(std::move(layer));
  }
  return out;
}

}  // namespace

std::string report_json(const VerifyReport& r) {
  Json out = {{"passed", r.passed()},
              {"bundle", r.bundle},
              {"against", r.source},
              {"name", r.name},
              {"precision", r.precision},
              {"form", r.form},
              {"layers", r.layers},
              {"prompt_tokens", r.prompt},
              {"steps", r.steps},
              {"min_cosine", r.min_cosine},
              {"residual_scale", r.residual_scale}};
  if (r.proposed_scale > 0) out["proposed_residual_scale"] = r.proposed_scale;
  if (r.cost) out["storage_cost"] = to_json(*r.cost);
  for (const Rung& rung : r.rungs) out["rungs"].push_back(to_json(rung));
  out["layer_figures"] = layers_json(r);
  out["weights"] = Json::array();
  for (const WeightFigures& w : r.weights) out["weights"].push_back(to_json(w));
  if (!r.text.empty() || !r.expected_text.empty()) {
    out["text"] = r.text;
    out["expected_text"] = r.expected_text;
  }
  return json_text(out, 2);
}

}  // namespace anemone
