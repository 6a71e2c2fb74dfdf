// `anemone inspect`: what is inside a package, a bundle (inspect_bundle.cpp) or a checkpoint (model_listing.h); the
// graph of a package or a bundle as a page.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "anemone/package.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/shape.h"
#include "base/words.h"
#include "bundle/bundle_info.h"
#include "check/check.h"
#include "check/graph_page.h"
#include "check/wrap.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/inspect_bundle.h"
#include "cli/model_listing.h"
#include "cli/package_argument.h"
#include "cli/source.h"
#include "cli/weight_table.h"
#include "mil/text.h"
#include "mil/verify.h"
#include "package/summary.h"
#include "page/page.h"
#include "predict/predictor.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string package, html, target;
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

constexpr size_t kColumns = 100;

// What the description adds to a tensor's name, type and sizes.
std::string remarks(const Feature* feature) {
  if (!feature) return "";
  std::string out;
  const FeatureType& type = feature->type;
  if (type.kind == FeatureType::Kind::image) out += "; " + type.text() + ", given as an array of its pixels";
  const auto& value = type.array.default_value;
  if (const auto* i = std::get_if<int32_t>(&value)) out += fmt::format("; {} if left out", *i);
  if (const auto* f = std::get_if<float>(&value)) out += fmt::format("; {} if left out", *f);
  if (const auto* d = std::get_if<double>(&value)) out += fmt::format("; {} if left out", *d);
  if (!feature->description.empty()) out += "; " + one_line(feature->description, 300);
  return out;
}

// A dictionary of class names and probabilities is no tensor, but an output all the same.
std::string output_text(const TensorInfo& info, const Type& type) {
  return type.is_tensor() ? describe(info) : info.name + ": " + type.text();
}

void print_signature(const Signature& s, const Package& package) {
  const Function& f = *package.program.find_function(s.function);
  const Interface& interface = package.description.interface(s.function);
  const OpsetInfo& opset = opset_info(f.opset);
  fmt::print("\nfunction {}  ({}: {})\n", s.function, opset.text_name, opset.systems);
  const auto row = [](bool first, const char* what, const std::string& text) {
    fmt::print("{}", wrap(fmt::format("  {:<8} ", first ? what : ""), text, kColumns));
  };
  for (size_t i = 0; i < s.inputs.size(); ++i)
    row(i == 0, "inputs", describe(s.inputs[i]) + remarks(interface.find(s.inputs[i].name)));
  for (size_t i = 0; i < s.outputs.size(); ++i)
    row(i == 0, "outputs",
        output_text(s.outputs[i], f.body.outputs[i]->type) + remarks(interface.find(s.outputs[i].name)));
  for (size_t i = 0; i < s.states.size(); ++i) row(i == 0, "states", describe(s.states[i]));
}

void print_ops(const std::map<std::string, int>& ops, int constants) {
  std::vector<std::pair<std::string, int>> sorted(ops.begin(), ops.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  int total = 0;
  for (const auto& [name, count] : sorted) total += count;
  std::string line =
      fmt::format("  {:<8} {} ({} constant{})", "ops", total, constants, constants == 1 ? "" : "s");
  if (!sorted.empty()) line += ": ";
  const std::string indent(11, ' ');
  for (size_t i = 0; i < sorted.size(); ++i) {
    const std::string item =
        fmt::format("{} {}{}", sorted[i].first, sorted[i].second, i + 1 < sorted.size() ? ", " : "");
    if (line.size() + item.size() > kColumns - 1) {
      line.pop_back();  // the space behind a comma
      fmt::print("{}\n", line);
      line = indent;
    }
    line += item;
  }
  fmt::print("{}\n", line);
}

void print_each_weight(const std::vector<WeightInfo>& weights) {
  std::vector<WeightLine> lines = {{"weight", "shape", "size", "bits", ""}};
  for (const WeightInfo& w : weights)
    lines.push_back({w.name, shape_text(w.type.shape), size_text(w.bytes),
                     fmt::format("{:.2f}", w.bits_per_weight()),
                     w.form + (w.uses > 1 ? fmt::format(", shared by {}", w.uses) : "")});
  print_weight_table(lines);
}

void print_each_op(const Function& function) {
  size_t kind = 0;
  for_each_op(function.body, [&](const Operation& op) {
    if (op.type != "const") kind = std::max(kind, op.type.size());
  });
  fmt::print("\noperations of {}\n", function.name);
  for_each_op(function.body, [&](const Operation& op) {
    if (op.type == "const") return;
    std::string lead = fmt::format("  {:<{}}  {:<36}", op.type, kind, op.name());
    const std::string indent(2 + kind + 2 + 36, ' ');
    if (op.outputs.empty()) fmt::print("  {:<{}}  {}\n", op.type, kind, op.name());
    for (const auto& output : op.outputs) {
      const std::string type = output->type.text();
      if (lead != indent && lead.size() > indent.size() && lead.size() + 2 + type.size() > kColumns) {
        fmt::print("{}\n", lead);  // the name leaves no room
        lead = indent;
      }
      fmt::print("{}  {}\n", lead, type);
      lead = indent;
    }
  });
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
  print_each_weight(summary.weights);
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

Json tensor_json(const TensorInfo& info, const Feature* feature) {
  Json out = {{"name", info.name}, {"dtype", std::string(dtype_name(info.dtype))}, {"shape", info.shape}};
  if (!info.range.empty()) out["range"] = info.range;
  if (!info.enumerated.empty()) out["enumerated"] = info.enumerated;
  if (info.optional) out["optional"] = true;
  if (feature && feature->type.kind == FeatureType::Kind::image) out["image"] = feature->type.text();
  if (feature && !feature->description.empty()) out["description"] = feature->description;
  return out;
}

Json ops_json(const Function& function) {
  Json out = Json::array();
  for_each_op(function.body, [&](const Operation& op) {
    if (op.type == "const") return;
    Json types = Json::array();
    for (const auto& output : op.outputs) types.push_back(output->type.text());
    out.push_back({{"op", op.type}, {"name", op.name()}, {"types", std::move(types)}});
  });
  return out;
}

Json to_json(const Package& package, const PackageSummary& summary, const Args& args) {
  Json out = {{"path", package.path.string()}, {"specification_version", package.spec_version}};
  out["weight_file_bytes"] = summary.weight_file_bytes;
  out["functions"] = Json::array();
  for (const Signature& s : signatures(package)) {
    const OpsetInfo& opset = opset_info(package.program.find_function(s.function)->opset);
    const Interface& interface = package.description.interface(s.function);
    Json f = {{"name", s.function},
              {"opset", std::string(opset.text_name)},
              {"systems", std::string(opset.systems)}};
    for (const auto& [key, infos] :
         {std::pair("inputs", &s.inputs), std::pair("outputs", &s.outputs), std::pair("states", &s.states)}) {
      f[key] = Json::array();
      for (const TensorInfo& info : *infos) f[key].push_back(tensor_json(info, interface.find(info.name)));
    }
    f["ops"] = Json::object();
    if (const auto it = summary.ops.find(s.function); it != summary.ops.end()) f["ops"] = it->second;
    if (args.ops) f["operations"] = ops_json(*package.program.find_function(s.function));
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
  if (args.mil) out["mil"] = print_mil(package.program);
  out["notes"] = package.notes;
  out["faults"] = Json::array();
  for (const Fault& fault : verify(package.program))
    out["faults"].push_back(
        {{"rule", fault.rule}, {"function", fault.function}, {"op", fault.op}, {"message", fault.message}});
  return out;
}

void write_graph(const Args& args, const Common& common) {
  write_page(args.html, graph_html(check(args.package, {.target = args.target})));
  if (!common.quiet) fmt::print(stderr, "{} written: open it in a browser\n", args.html);
}

int inspect(const Args& args, const Common& common) {
  if (!args.target.empty() && args.html.empty()) throw errorf("--target is for the picture: add --html FILE");
  const bool bundle = is_bundle(args.package), checkpoint = !bundle && Checkpoint::recognises(args.package);
  if (checkpoint && (args.mil || args.ops || !args.html.empty()))
    throw errorf("a checkpoint has no operations; --mil, --ops and --html are for packages")
        .at(args.package)
        .hint("convert it first: anemone convert");
  if (!args.html.empty()) write_graph(args, common);
  if (checkpoint) return inspect_checkpoint(args.package, args.weights, common.json, common.quiet);
  if (bundle && !args.mil && !args.ops) return inspect_bundle(args.package, args.weights, common);
  const auto package = package_argument(args.package);
  if (args.mil && !common.json) {
    fmt::print("{}", print_mil(package->program));
    return 0;
  }
  const PackageSummary summary = summarize(*package);
  if (common.json) {
    fmt::print("{}\n", json_text(to_json(*package, summary, args), 2));
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
  if (args.ops)
    for (const auto& function : package->program.functions) print_each_op(*function);
  print_metadata(package->description);
  if (!common.quiet) {
    for (const std::string& note : package->notes) fmt::print("\n{}", wrap("note: ", note, kColumns));
    for (const Fault& fault : verify(package->program, 5))
      fmt::print("\n{}", wrap("note: ", "breaks a rule of MIL: " + fault.text(), kColumns));
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone inspect model.gguf\n"
    "  anemone inspect model.mlpackage --html graph.html";

}  // namespace

extern const Command kInspect{
    "inspect", "Show what is inside a package, a bundle or a checkpoint", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional(
           "MODEL", args->package,
           "an .mlpackage, .mlmodelc, .mlmodel or .mil, a bundle, a .gguf file or a safetensors folder")
          .takes(kPackage | kBundle | kCheckpoint);
      o.flag("--weights", args->weights, "list every weight with its form, size and bits");
      o.flag("--ops", args->ops, "list every operation with its result type");
      o.flag("--mil", args->mil, "print the program as MIL text");
      o.text("--html", "FILE", args->html, "draw the graph on a page, operations colored by predicted device")
          .writes();
      o.text("--target", "CHIP", args->target, "with --html: predict for this chip, as check takes it");
      return [args](const Common& common) { return inspect(*args, common); };
    }};

}  // namespace anemone::cli
