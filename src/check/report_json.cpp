#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "check/report.h"
#include "page/page.h"

namespace anemone {

extern const std::string_view kCheckBody;  // page.html, embedded by CMake

namespace {

using Json = nlohmann::ordered_json;
using placement::Processor;

// Twelve digits: the same text on every machine.
double rounded(double x) { return std::stod(fmt::format("{:.12g}", x)); }

Json op_json(const placement::PlacedOp& op, const FunctionReport& f) {
  Json out = {{"name", op.op->name()}, {"type", op.op->type}};
  if (const auto layer = f.layers.find(op.op->name()); layer != f.layers.end()) out["layer"] = layer->second;
  const placement::Offer& ane = op.cost[Processor::ane];
  if (ane.supported)
    out["ane_ms"] = rounded(ane.ms);
  else
    out["refused"] = {{"rule", std::string(ane.rule)}, {"why", ane.why}};
  for (const auto& [key, processor] :
       {std::pair("bnns_ms", Processor::bnns), std::pair("classic_cpu_ms", Processor::classic_cpu)})
    if (op.cost[processor].supported) out[key] = rounded(op.cost[processor].ms);
  out["chosen"] = op.unknown() ? "unknown" : std::string(processor_name(op.chosen));
  if (op.unknown()) out["taken_as"] = std::string(processor_name(op.chosen));
  out["segment"] = op.segment;
  if (!op.cost.extrapolated.empty()) out["extrapolated"] = op.cost.extrapolated;
  if (const auto truth = f.truth.find(op.op->name()); truth != f.truth.end()) out["core_ml"] = truth->second;
  return out;
}

Json function_json(const FunctionReport& f) {
  Json out = {{"name", f.name},
              {"ops", f.placed.ops.size()},
              {"ops_on_ane", f.placed.ane_ops},
              {"ops_on_cpu", f.placed.cpu_ops},
              {"ops_unknown", f.placed.unknown_ops},
              {"time_share_on_ane", rounded(f.placed.ane_share())},
              {"time_share_of_ms", rounded(f.placed.ane_ms + f.placed.cpu_ms)},
              {"estimated_ms", rounded(f.placed.ms)},
              {"switches", f.placed.switches},
              {"extrapolated", f.placed.extrapolated}};
  if (f.placed.unknown_ops > 0)
    out["ops_on_ane_if_unknown_refused"] =
        placement::if_refused(f.placed, &placement::PlacedOp::unknown).ane_ops;
  for (const auto& [kind, r] : f.residency)
    out["residency"][kind] = {
        {"ops", r.all}, {"taken", r.taken}, {"on_ane", r.on_ane}, {"unknown", r.unknown}};
  out["segments"] = Json::array();
  for (const placement::Segment& s : f.placed.segments)
    out["segments"].push_back({{"device", s.ane ? "ANE" : "CPU"},
                               {"first", s.first},
                               {"ops", s.last - s.first},
                               {"unknown", s.unknown},
                               {"ms", rounded(s.ms)}});
  out["operations"] = Json::array();
  for (const auto& op : f.placed.ops) out["operations"].push_back(op_json(op, f));
  return out;
}

Json finding_json(const Finding& f) {
  Json out = {{"rule", std::string(f.rule->id)},
              {"grade", std::string(1, static_cast<char>(f.rule->grade))},
              {"level", std::string(level_name(f.level))}};
  if (!f.package.empty()) out["package"] = f.package;
  if (!f.function.empty()) out["function"] = f.function;
  if (!f.op.empty()) {
    out["op"] = f.op;
    out["type"] = f.op_type;
  }
  if (f.layer >= 0) out["layer"] = f.layer;
  out["message"] = f.message;
  return out;
}

Json rule_json(const Rule& r) {
  const std::string keys = source_keys(r.sources);
  const std::string sources = std::string(r.sources) + (keys.empty() ? "" : " (" + keys + ")");
  return {{"title", std::string(r.title)}, {"why", std::string(r.why)},         {"cost", std::string(r.cost)},
          {"do", std::string(r.fix)},      {"targets", std::string(r.targets)}, {"sources", sources}};
}

Json to_json(const CheckReport& r, bool strict) {
  Json out = {{"path", r.path.filename().empty() ? r.path.string() : r.path.filename().string()},
              {"target", r.target_text},
              {"chip", std::string(r.target.chip->id)},
              {"os", r.os},
              {"failed", r.failed(strict)},
              {"verdict", std::string(r.verdict(strict))},
              {"errors", r.count(Level::error)},
              {"warnings", r.count(Level::warning)},
              {"hints", r.count(Level::hint)}};
  out["unknown"] = Json::object();
  for (const auto& [kind, count] : r.unknown()) out["unknown"][kind] = count;
  out["notes"] = Json::array();
  if (std::string note = r.unknown_note(); !note.empty()) out["notes"].push_back(std::move(note));
  out["packages"] = Json::array();
  for (const PackageReport& p : r.packages) {
    Json package = {{"name", p.name}, {"weight_bytes", p.weight_bytes}};
    for (const Level level : {Level::error, Level::warning, Level::hint})
      package[std::string(level_name(level)) + "s"] = r.count(level, p.name);
    for (const FunctionReport& f : p.functions) package["functions"].push_back(function_json(f));
    out["packages"].push_back(std::move(package));
  }
  out["findings"] = Json::array();
  out["rules"] = Json::object();
  for (const Finding& f : r.findings) {
    out["findings"].push_back(finding_json(f));
    out["rules"].emplace(std::string(f.rule->id), rule_json(*f.rule));
  }
  return out;
}

}  // namespace

std::string explain_rule_json(const Rule& rule) {
  Json out = {{"rule", std::string(rule.id)},
              {"grade", std::string(1, static_cast<char>(rule.grade))},
              {"level", std::string(rule.seen() ? level_name(rule.level) : "advice")}};
  out.update(rule_json(rule));
  return json_text(out, 1) + "\n";
}

std::string explain_op_json(const CheckReport& report, const std::string& name) {
  Json out = Json::array();
  for (const PackageReport& p : report.packages)
    for (const FunctionReport& f : p.functions) {
      const placement::PlacedOp* found = f.placed.find(name);
      if (!found) continue;
      Json op = {{"package", p.name}, {"function", f.name}};
      op.update(op_json(*found, f));
      op["estimate"] = found->cost.formula;
      const auto price =
          placement::price_of_moving(f.placed, static_cast<size_t>(found - f.placed.ops.data()));
      if (price) op["moving_costs_ms"] = rounded(*price);
      out.push_back(std::move(op));
    }
  return json_text(out, 1) + "\n";
}

std::string report_json(const CheckReport& report, bool strict) {
  return json_text(to_json(report, strict), 1) + "\n";
}

// The page holds the same JSON.
std::string report_html(const CheckReport& report, bool strict) {
  const Json json = to_json(report, strict);
  const std::string name = json["path"];
  return page_text({.title = name + " · anemone check",
                    .heading = name,
                    .note = "anemone check: will it stay on the Neural Engine?"},
                   with_data(kCheckBody, json_text(json)));
}

}  // namespace anemone
