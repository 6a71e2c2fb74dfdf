#include "coreml/device_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/words.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "anemone-device-report";
constexpr int kReportVersion = 1;

// A field of an object, or an Error that says where it should be.
template <class T>
T field(const Json& j, const char* key, const std::string& place) {
  if (!j.is_object() || !j.contains(key)) throw errorf("has no '{}'", key).at(place);
  try {
    return j.at(key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw errorf("'{}' is of another kind than expected", key).at(place);
  }
}

Json op_json(const DeviceOp& op) {
  return {{"name", op.name},
          {"type", op.type},
          {"device", op.device},
          {"supported", op.supported},
          {"cost", op.cost}};
}

DeviceOp parse_op(const Json& j, const std::string& place) {
  DeviceOp op;
  op.name = field<std::string>(j, "name", place);
  op.type = field<std::string>(j, "type", place);
  op.device = field<std::string>(j, "device", place);
  op.supported = field<std::vector<std::string>>(j, "supported", place);
  op.cost = field<double>(j, "cost", place);
  for (const std::string& device : op.supported)
    if (device != "ANE" && device != "GPU" && device != "CPU")
      throw errorf("there is no device '{}'", device).at(place).expected("ANE, GPU or CPU");
  if (op.device != "ANE" && op.device != "GPU" && op.device != "CPU")
    throw errorf("there is no device '{}'", op.device).at(place).expected("ANE, GPU or CPU");
  return op;
}

const char* predicted(const placement::PlacedOp& op) { return op.on_ane() ? "ANE" : "CPU"; }

// Core ML may choose the GPU where it may use it; the prediction knows the engine and the rest.
bool agrees(const placement::PlacedOp& op, const std::string& device) {
  return op.on_ane() == (device == "ANE");
}

std::string function_text(const PackageReport& package, const FunctionReport& f, const DeviceFunction& seen,
                          bool verbose) {
  int on_ane = 0, known = 0, agreed = 0;
  std::string elsewhere;
  size_t differing = 0;
  for (const placement::PlacedOp& op : f.placed.ops) {
    const auto it = f.truth.find(op.op->name());
    if (it == f.truth.end()) continue;
    on_ane += it->second == "ANE";
    if (op.unknown()) continue;
    ++known;
    agreed += agrees(op, it->second);
    if (agrees(op, it->second) || (++differing > 8 && !verbose)) continue;
    const auto one =
        std::ranges::find_if(seen.ops, [&](const DeviceOp& o) { return o.name == op.op->name(); });
    elsewhere +=
        fmt::format("    {} '{}': predicted {}, is on the {} ({:.1f}% of the cost)\n", op.op->type,
                    op.op->name(), predicted(op), it->second, one == seen.ops.end() ? 0 : 100 * one->cost);
  }
  if (differing > 8 && !verbose) elsewhere += fmt::format("    … and {} more (--verbose)\n", differing - 8);
  return fmt::format(
      "  {} {}: {} of {} on the ANE; the prediction agrees for {} of {}; load {:.1f} s, {:.2f} ms\n{}",
      package.name, f.name, on_ane, counted(static_cast<int64_t>(f.truth.size()), "operation"), agreed, known,
      seen.load_s, seen.prediction_ms, elsewhere);
}

}  // namespace

std::map<std::string, std::string> DeviceReport::devices(const std::filesystem::path& package,
                                                         const std::string& function) const {
  std::map<std::string, std::string> out;
  if (const DeviceFunction* f = find(package.filename().string(), function))
    for (const DeviceOp& op : f->ops) out.emplace(op.name, op.device);
  return out;
}

const DeviceFunction* DeviceReport::find(const std::string& package, const std::string& function) const {
  for (const DeviceFunction& f : functions)
    if (f.package == package && f.function == function) return &f;
  return nullptr;
}

std::string DeviceReport::json() const {
  Json out = {{"format", kFormat},
              {"version", kReportVersion},
              {"tool", tool},
              {"model", model},
              {"system", device.system},
              {"build", device.build},
              {"chip", device.chip},
              {"compute_units", compute_units_name(units)},
              {"functions", Json::array()}};
  for (const DeviceFunction& f : functions) {
    Json ops = Json::array();
    for (const DeviceOp& op : f.ops) ops.push_back(op_json(op));
    out["functions"].push_back({{"package", f.package},
                                {"function", f.function},
                                {"plan_s", f.plan_s},
                                {"load_s", f.load_s},
                                {"prediction_ms", f.prediction_ms},
                                {"operations", std::move(ops)}});
  }
  return out.dump(1) + "\n";
}

DeviceReport DeviceReport::parse(const std::string& text, const std::string& name) {
  const Json j = Json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("format") || j["format"] != kFormat)
    throw errorf("is no report of a device").at(name).expected("what check --device --save wrote");
  if (const int version = field<int>(j, "version", name); version != kReportVersion)
    throw errorf("has a version that is not known here")
        .at(name)
        .found(fmt::format("{}", version))
        .expected("1");
  DeviceReport out;
  out.tool = field<std::string>(j, "tool", name);
  out.model = field<std::string>(j, "model", name);
  out.device.system = field<std::string>(j, "system", name);
  out.device.build = field<std::string>(j, "build", name);
  out.device.chip = field<std::string>(j, "chip", name);
  try {
    out.units = parse_compute_units(field<std::string>(j, "compute_units", name));
  } catch (Error& e) {
    throw Error(e.at(name));
  }
  for (const Json& one : field<Json>(j, "functions", name)) {
    DeviceFunction f;
    f.package = field<std::string>(one, "package", name);
    f.function = field<std::string>(one, "function", name);
    const std::string place = fmt::format("{}: {} {}", name, f.package, f.function);
    f.plan_s = field<double>(one, "plan_s", place);
    f.load_s = field<double>(one, "load_s", place);
    f.prediction_ms = field<double>(one, "prediction_ms", place);
    for (const Json& op : field<Json>(one, "operations", place)) f.ops.push_back(parse_op(op, place));
    out.functions.push_back(std::move(f));
  }
  return out;
}

DeviceAgreement agreement(const CheckReport& checked, const DeviceReport& device) {
  DeviceAgreement out;
  for (const PackageReport& package : checked.packages)
    for (const FunctionReport& f : package.functions) {
      out.missing += device.find(package.name, f.name) == nullptr;
      for (const placement::PlacedOp& op : f.placed.ops) {
        const auto it = f.truth.find(op.op->name());
        const bool said = it != f.truth.end();
        if (op.op->type == "conv") {
          ++out.convs;
          out.convs_on_ane += said && it->second == "ANE";
          out.convs_unknown += !said;
        }
        if (!said || op.unknown()) continue;
        ++out.known;
        out.agreed += agrees(op, it->second);
      }
    }
  return out;
}

std::string conv_text(const DeviceAgreement& sum) {
  return fmt::format(
      "conv on ANE: {}/{}{}\n", sum.convs_on_ane, sum.convs,
      sum.convs_unknown ? fmt::format(" (the report says nothing of {})", sum.convs_unknown) : "");
}

std::string agreement_text(const CheckReport& checked, const DeviceReport& device, bool verbose) {
  std::string out = fmt::format("On {} ({}, build {}), compute units {}:\n", device.device.chip,
                                device.device.system, device.device.build, compute_units_name(device.units));
  for (const PackageReport& package : checked.packages)
    for (const FunctionReport& f : package.functions) {
      if (const DeviceFunction* seen = device.find(package.name, f.name))
        out += function_text(package, f, *seen, verbose);
      else
        out += fmt::format("  {} {}: not in the report\n", package.name, f.name);
    }
  const DeviceAgreement sum = agreement(checked, device);
  if (sum.missing > 0)
    out += fmt::format("not in the report, which is of '{}': {}\n", device.model,
                       counted(sum.missing, "function"));
  out += fmt::format("agreement: {} of {} ({:.1f}%)\n", sum.agreed, sum.known, 100 * sum.share());
  return out + conv_text(sum);
}

}  // namespace anemone
