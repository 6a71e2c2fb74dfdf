#include "check/graph_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json_text.h"
#include "mil/stored.h"
#include "package/summary.h"
#include "page/page.h"

namespace anemone {

extern const std::string_view kGraphBody, kGraphLayout, kGraphView, kGraphPanel;  // graph/, embedded by CMake

namespace {

using Json = nlohmann::ordered_json;
using placement::Processor;

constexpr int64_t kShownElements = 16;
constexpr size_t kShownText = 200;

std::string shortened(std::string text) {
  if (text.size() <= kShownText) return text;
  size_t cut = kShownText;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // whole characters
  return text.substr(0, cut) + "…";
}

bool is_constant(const Operation& op) { return op.type == "const" || op.type.starts_with("constexpr_"); }

// The values of a small constant; empty where it is large or its bytes are not there.
std::string literal_text(const Constant& c) {
  std::string out;
  const auto add = [&](const auto& item) { out += fmt::format("{}{}", out.empty() ? "" : ", ", item); };
  if (const auto* strings = std::get_if<Constant::Strings>(&c.data)) {
    for (const std::string& s : *strings) add("\"" + s + "\"");
    return shortened(out);
  }
  if (!c.type.is_tensor() || !c.type.fixed() || c.type.size() > kShownElements || !is_readable(c)) return "";
  const auto stored = stored_constant(c);
  if (c.type.is_float())
    for (const float v : decode_floats(*stored)) add(v);
  else if (c.type.dtype == DType::boolean)
    for (const int32_t v : decode_ints(*stored)) add(v != 0);
  else
    for (const int32_t v : decode_ints(*stored)) add(v);
  return c.type.rank() == 0 ? out : "[" + out + "]";
}

// One function's nodes: its inputs, its operations without constants, its outputs. A node's inputs name nodes before
// it, so that the page can walk them in order.
class GraphWriter {
 public:
  GraphWriter(const Function& function, const FunctionReport& report) : function_(function), report_(report) {
    for (const placement::PlacedOp& placed : report.placed.ops) placed_[placed.op] = &placed;
  }

  Json json(const std::string& package) {
    for (const auto& input : function_.inputs) {
      const bool state = input->type.kind == Type::Kind::state;
      made_[input.get()] = {nodes_.size(), 0};
      nodes_.push_back(
          {{"k", state ? "state" : "input"}, {"n", input->name}, {"o", Json::array({output_json(*input)})}});
    }
    for_each_op(function_.body, [&](const Operation& op) {
      if (!is_constant(op)) add_op(op);
    });
    for (const Value* value : function_.body.outputs) {
      Json node = {{"k", "output"}, {"n", value->name}};
      if (const auto it = made_.find(value); it != made_.end())
        node["i"].push_back({"", it->second.first, it->second.second});
      nodes_.push_back(std::move(node));
    }
    return {{"package", package}, {"name", function_.name}, {"types", types_}, {"nodes", std::move(nodes_)}};
  }

 private:
  size_t type_id(const Type& type) {
    const auto [it, fresh] = type_ids_.try_emplace(type.text(), types_.size());
    if (fresh) types_.push_back(it->first);
    return it->second;
  }

  Json output_json(const Value& value) { return {value.name, type_id(value.type)}; }

  void add_op(const Operation& op) {
    Json node = {{"k", "op"}, {"t", op.type}, {"n", op.name()}};
    if (const auto layer = report_.layers.find(op.name()); layer != report_.layers.end())
      node["g"] = layer->second;
    for (const Input& input : op.inputs)
      for (const Binding& binding : input.bindings) add_input(input.name, binding, node);
    for (const auto& output : op.outputs) {
      made_[output.get()] = {nodes_.size(), node.contains("o") ? node["o"].size() : 0};
      node["o"].push_back(output_json(*output));
    }
    if (!op.blocks.empty()) node["b"] = op.blocks.size();
    if (const auto placed = placed_.find(&op); placed != placed_.end()) add_device(*placed->second, node);
    nodes_.push_back(std::move(node));
  }

  void add_input(const std::string& param, const Binding& binding, Json& node) {
    if (const auto it = made_.find(binding.value); binding.value && it != made_.end()) {
      node["i"].push_back({param, it->second.first, it->second.second});
      return;
    }
    if (const Constant* constant = binding.constant())
      if (const std::string text = literal_text(*constant); !text.empty()) {
        node["a"].push_back({param, text});
        return;
      }
    if (!binding.value || !binding.value->producer || !is_constant(*binding.value->producer)) {
      if (binding.literal) node["a"].push_back({param, binding.literal->type.text()});
      return;
    }
    const StoredForm stored = stored_form(*binding.value->producer);
    node["w"].push_back({param, binding.value->name, type_id(binding.value->type), stored.form, stored.bytes,
                         binding.value->type.fixed() ? binding.value->type.size() : 0});
  }

  void add_device(const placement::PlacedOp& placed, Json& node) {
    node["d"] = placed.unknown() ? "unknown" : placed.on_ane() ? "ANE" : "CPU";
    const auto ms = [](const placement::Offer& offer) {
      return offer.supported ? Json(std::stod(fmt::format("{:.4g}", offer.ms))) : Json();
    };
    const placement::Offer &bnns = placed.cost[Processor::bnns],
                           &classic = placed.cost[Processor::classic_cpu];
    node["ms"] = {ms(placed.cost[Processor::ane]), ms(bnns.supported ? bnns : classic)};
    if (const placement::Offer& ane = placed.cost[Processor::ane]; !ane.supported)
      node["r"] = {std::string(ane.rule), ane.why};
    if (!placed.cost.extrapolated.empty()) node["x"] = placed.cost.extrapolated;
    node["s"] = placed.segment;
  }

  const Function& function_;
  const FunctionReport& report_;
  std::unordered_map<const Operation*, const placement::PlacedOp*> placed_;
  std::unordered_map<const Value*, std::pair<size_t, size_t>> made_;  // node and place among its outputs
  std::map<std::string, size_t> type_ids_;
  Json types_ = Json::array(), nodes_ = Json::array();
};

}  // namespace

std::string graph_html(const CheckReport& report) {
  const std::string name =
      report.path.filename().empty() ? report.path.string() : report.path.filename().string();
  Json functions = Json::array();
  for (const PackageReport& p : report.packages)
    for (const FunctionReport& f : p.functions)
      functions.push_back(GraphWriter(*p.program->find_function(f.name), f).json(p.name));
  const Json data = {{"target", report.target_text}, {"functions", std::move(functions)}};
  return page_text({.title = name + " · anemone inspect",
                    .heading = name,
                    .note = "anemone inspect: the graph, colored by predicted device"},
                   with_data(kGraphBody, json_text(data)) + "<script>\n" + std::string(kGraphLayout) +
                       std::string(kGraphView) + std::string(kGraphPanel) + "</script>\n");
}

}  // namespace anemone
