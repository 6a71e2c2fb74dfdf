// `anemone inspect`: what is inside a package.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "anemone/package.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/shape.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/package_argument.h"
#include "mil/text.h"
#include "mil/verify.h"
#include "package/summary.h"
#include "predict/predictor.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string package;
  bool mil = false, weights = false, ops = false;
};

struct FormTotal {
  int tensors = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;
};

std::map<std::string, FormTotal> by_form(const PackageSummary& summary) {
  std::map<std::string, FormTotal> out;
  for (const WeightInfo& w : summary.weights) {
    FormTotal& t = out[w.form];
    ++t.tensors;
    t.elements += w.type.size();
    t.bytes += w.bytes;
  }
  return out;
}

double bits(uint64_t bytes, int64_t elements) {
  return elements ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0;
}

void print_signature(const Signature& s, const Package& package) {
  const Function& f = *package.program.find_function(s.function);
  const OpsetInfo& opset = opset_info(f.opset);
  fmt::print("\nfunction {}  ({}: {})\n", s.function, opset.text_name, opset.systems);
  const auto rows = [](const char* what, const std::vector<TensorInfo>& infos) {
    for (size_t i = 0; i < infos.size(); ++i) fmt::print("  {:<8} {}\n", i ? "" : what, describe(infos[i]));
  };
  rows("inputs", s.inputs);
  rows("outputs", s.outputs);
  rows("states", s.states);
}

void print_ops(const std::map<std::string, int>& ops, int constants) {
  std::vector<std::pair<std::string, int>> sorted(ops.begin(), ops.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  int total = 0;
  for (const auto& [name, count] : sorted) total += count;
  std::string line = fmt::format("  {:<8} {} ({} constants): ", "ops", total, constants);
  const std::string indent(11, ' ');
  for (size_t i = 0; i < sorted.size(); ++i) {
    const std::string item =
        fmt::format("{} {}{}", sorted[i].first, sorted[i].second, i + 1 < sorted.size() ? ", " : "");
    if (line.size() + item.size() > 99) {
      line.pop_back();  // the space behind a comma
      fmt::print("{}\n", line);
      line = indent;
    }
    line += item;
  }
  fmt::print("{}\n", line);
}

void print_weights(const PackageSummary& summary, bool each) {
  if (summary.weights.empty()) return;
  fmt::print("\nweights\n  {:<34} {:>8} {:>14} {:>11} {:>12}\n", "stored as", "tensors", "elements", "size",
             "bits/weight");
  FormTotal all;
  for (const auto& [form, t] : by_form(summary)) {
    fmt::print("  {:<34} {:>8} {:>14} {:>11} {:>12.2f}\n", form, t.tensors, t.elements, size_text(t.bytes),
               bits(t.bytes, t.elements));
    all.tensors += t.tensors;
    all.elements += t.elements;
    all.bytes += t.bytes;
  }
  fmt::print("  {:<34} {:>8} {:>14} {:>11} {:>12.2f}\n", "all", all.tensors, all.elements,
             size_text(all.bytes), bits(all.bytes, all.elements));
  if (!each) return;
  fmt::print("\n  {:<50} {:<24} {:>10} {:>6}\n", "weight", "shape", "size", "bits");
  for (const WeightInfo& w : summary.weights)
    fmt::print("  {:<50} {:<24} {:>10} {:>6.2f}  {}{}\n", w.name, shape_text(w.type.shape),
               size_text(w.bytes), w.bits_per_weight(), w.form,
               w.uses > 1 ? fmt::format(", shared by {}", w.uses) : "");
}

void print_metadata(const Description& description) {
  if (!description.metadata) return;
  const Metadata& m = *description.metadata;
  std::vector<std::pair<std::string, std::string>> rows;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) rows.push_back({key, value});
  };
  add("description", m.description);
  add("version", m.version);
  add("author", m.author);
  add("license", m.license);
  for (const auto& [key, value] : m.user) add(key, value);
  if (rows.empty()) return;
  fmt::print("\nmetadata\n");
  for (const auto& [key, value] : rows)
    fmt::print("  {}: {}\n", key, one_line(value, 96 - std::min<size_t>(key.size(), 60)));
}

Json tensor_json(const TensorInfo& info) {
  Json out = {{"name", info.name}, {"dtype", std::string(dtype_name(info.dtype))}, {"shape", info.shape}};
  if (!info.range.empty()) out["range"] = info.range;
  if (!info.enumerated.empty()) out["enumerated"] = info.enumerated;
  if (info.optional) out["optional"] = true;
  return out;
}

Json to_json(const Package& package, const PackageSummary& summary) {
  Json out = {{"path", package.path.string()}, {"specification_version", package.spec_version}};
  out["weight_file_bytes"] = summary.weight_file_bytes;
  out["functions"] = Json::array();
  for (const Signature& s : signatures(package)) {
    const OpsetInfo& opset = opset_info(package.program.find_function(s.function)->opset);
    Json f = {{"name", s.function},
              {"opset", std::string(opset.text_name)},
              {"systems", std::string(opset.systems)}};
    for (const auto& [key, infos] :
         {std::pair("inputs", &s.inputs), std::pair("outputs", &s.outputs), std::pair("states", &s.states)}) {
      f[key] = Json::array();
      for (const TensorInfo& info : *infos) f[key].push_back(tensor_json(info));
    }
    f["ops"] = Json::object();
    if (const auto it = summary.ops.find(s.function); it != summary.ops.end()) f["ops"] = it->second;
    out["functions"].push_back(std::move(f));
  }
  out["weights_by_form"] = Json::object();
  for (const auto& [form, t] : by_form(summary))
    out["weights_by_form"][form] = {{"tensors", t.tensors},
                                    {"elements", t.elements},
                                    {"bytes", t.bytes},
                                    {"bits_per_weight", bits(t.bytes, t.elements)}};
  out["weights"] = Json::array();
  for (const WeightInfo& w : summary.weights)
    out["weights"].push_back({{"name", w.name},
                              {"function", w.function},
                              {"form", w.form},
                              {"dtype", std::string(dtype_name(w.type.dtype))},
                              {"shape", w.type.dims()},
                              {"bytes", w.bytes},
                              {"bits_per_weight", w.bits_per_weight()},
                              {"uses", w.uses}});
  if (const auto& m = package.description.metadata)
    out["metadata"] = {{"description", m->description},
                       {"version", m->version},
                       {"author", m->author},
                       {"license", m->license},
                       {"user", m->user}};
  out["notes"] = package.notes;
  out["faults"] = Json::array();
  for (const Fault& fault : verify(package.program))
    out["faults"].push_back(
        {{"rule", fault.rule}, {"function", fault.function}, {"op", fault.op}, {"message", fault.message}});
  return out;
}

int inspect(const Args& args, const Common& common) {
  const auto package = package_argument(args.package);
  if (args.mil) {
    fmt::print("{}", print_mil(package->program));
    return 0;
  }
  const PackageSummary summary = summarize(*package);
  if (common.json) {
    fmt::print("{}\n", json_text(to_json(*package, summary), 2));
    return 0;
  }
  const std::vector<Signature> all = signatures(*package);
  fmt::print("{}\n  specification version {}, {} function{}, program {}, weight file {}\n",
             package->path.string(), package->spec_version, all.size(), all.size() == 1 ? "" : "s",
             size_text(summary.program_bytes), size_text(summary.weight_file_bytes));
  for (const Signature& s : all) {
    print_signature(s, *package);
    const auto ops = summary.ops.find(s.function);
    const auto constants = summary.constants.find(s.function);
    print_ops(ops == summary.ops.end() ? std::map<std::string, int>{} : ops->second,
              constants == summary.constants.end() ? 0 : constants->second);
  }
  print_weights(summary, args.weights);
  if (args.ops) {
    for (const auto& function : package->program.functions) {
      fmt::print("\noperations of {}\n", function->name);
      for_each_op(std::as_const(function->body), [](const Operation& op) {
        if (op.type == "const") return;
        fmt::print("  {:<28} {:<40} {}\n", op.type, op.name(),
                   op.outputs.empty() ? "" : op.outputs[0]->type.text());
      });
    }
  }
  print_metadata(package->description);
  if (!common.quiet) {
    for (const std::string& note : package->notes) fmt::print("\nnote: {}\n", note);
    for (const Fault& fault : verify(package->program, 5))
      fmt::print("\nnote: breaks a rule of MIL: {}\n", fault.text());
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone inspect model.mlpackage\n"
    "  anemone inspect model.mlmodelc --mil | less";

}  // namespace

extern const Command kInspect{
    "inspect", "Show what is inside a package", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("PACKAGE", args->package, "an .mlpackage, .mlmodelc or .mlmodel");
      o.flag("--mil", args->mil, "print the program as MIL text");
      o.flag("--weights", args->weights, "list every weight with its form, size and bits");
      o.flag("--ops", args->ops, "list every operation with its result type");
      return [args](const Common& common) { return inspect(*args, common); };
    }};

}  // namespace anemone::cli
