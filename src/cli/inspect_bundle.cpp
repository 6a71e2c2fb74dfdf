#include "cli/inspect_bundle.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "bundle/bundle_info.h"
#include "check/wrap.h"
#include "cli/format.h"
#include "cli/model_listing.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 100;

// Bytes of the files below a package, or of all.
uint64_t bytes_of(const BundleInfo& info, const std::string& package = "") {
  uint64_t total = 0;
  for (const BundleFile& f : info.files)
    if (package.empty() || f.path.starts_with(package + "/")) total += f.bytes;
  return total;
}

const char* purpose(BundleKind kind) {
  switch (kind) {
    case BundleKind::generate: return "writes text: run, chat, translate";
    case BundleKind::embed: return "gives a vector for a text: embed";
    case BundleKind::classify: return "gives classes for a text or its tokens: classify";
  }
  return "";
}

// "x (stream), mask (mask 0)"
std::string ports_text(const std::vector<Port>& ports) {
  std::string out;
  for (const Port& port : ports) {
    const Role& role = port.role;
    std::string what(role_name(role.kind));
    if (role.kind == Role::Kind::mask || role.kind == Role::Kind::cos || role.kind == Role::Kind::sin)
      what += fmt::format(" {}", role.index);
    if (role.last > role.first) what += fmt::format(" {}-{}", role.first, role.last - 1);
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", port.name, what);
  }
  return out;
}

std::string layers_text(const Stage& stage) {
  const bool behind = stage.behind_experts();
  const int64_t whole = stage.first_layer + (behind ? 1 : 0);
  std::string out = behind ? fmt::format("layer {} behind its experts", stage.first_layer) : "";
  if (whole == stage.last_layer) return out;
  out += fmt::format("{}layers {}-{}", out.empty() ? "" : ", ", whole, stage.last_layer - 1);
  return out + (stage.kind == StageKind::route ? " to the router" : "");
}

std::string holds(const Stage& stage) {
  std::string out = stage.has_layers() ? layers_text(stage) : "";
  if (stage.kind == StageKind::experts) {
    const Port* first = stage.functions.front().find_input(Role::Kind::shares);
    const Port* last = stage.functions.back().find_input(Role::Kind::shares);
    if (first && last)
      out =
          fmt::format("experts {}-{} of layer {}", first->role.first, last->role.last - 1, stage.first_layer);
  }
  if (stage.has_head()) out += out.empty() ? "head" : ", head";
  return out;
}

std::string size_of(const StageFunction& f) {
  std::string out = f.least_tokens == f.most_tokens
                        ? fmt::format("{} token{}", f.most_tokens, f.most_tokens == 1 ? "" : "s")
                        : fmt::format("{}-{} tokens", f.least_tokens, f.most_tokens);
  if (f.context) out += fmt::format(", context {}", f.context);
  for (size_t i = 0; i < f.variants.size(); ++i)
    out += fmt::format("{}{}", i ? " and " : ", variant ", f.variants[i]);
  return out;
}

void print_stage(const Stage& stage, const BundleInfo& info) {
  fmt::print("\n{}  {}, {}\n", stage.package, holds(stage), size_text(bytes_of(info, stage.package)));
  std::string before;
  for (const StageFunction& f : stage.functions) {
    // Functions of one stage differ in their sizes alone, as a rule, and those of experts in these.
    const FunctionInterface& i = f.interface;
    if (stage.kind == StageKind::experts && &f != &stage.functions.front()) {
      fmt::print("  function {}: {}, {}\n", f.name, size_of(f), ports_text({i.inputs.back()}));
      continue;
    }
    fmt::print("  function {}: {}\n", f.name, size_of(f));
    const std::string ports = ports_text(i.inputs) + ports_text(i.states) + ports_text(i.outputs);
    if (ports == before) continue;
    before = ports;
    fmt::print("{}", wrap("    inputs   ", ports_text(i.inputs), kColumns));
    if (!i.states.empty()) fmt::print("{}", wrap("    states   ", ports_text(i.states), kColumns));
    fmt::print("{}", wrap("    outputs  ", ports_text(i.outputs), kColumns));
  }
}

std::string result_text(const BundleInfo& info) {
  std::string out;
  if (info.pooling) out = *info.pooling == Pooling::mean ? "mean of the tokens" : "the first token";
  if (info.normalize) out += ", normalized";
  if (info.labels.empty()) return out;
  out += fmt::format("{}{} classes:", out.empty() ? "for each token, " : ", ", info.labels.size());
  for (size_t i = 0; i < info.labels.size(); ++i) out += (i ? ", " : " ") + one_line(info.labels[i], 40);
  return out;
}

Json ports_json(const std::vector<Port>& ports) {
  Json out = Json::array();
  for (const Port& port : ports) out.push_back({{"name", port.name}, {"role", role_name(port.role.kind)}});
  return out;
}

Json to_json(const std::string& path, const BundleInfo& info) {
  Json out = {{"bundle", path},           {"kind", kind_name(info.kind)},
              {"name", info.name},        {"family", info.family},
              {"source", info.source},    {"tool", info.tool},
              {"layers", info.layers},    {"hidden", info.hidden},
              {"vocabulary", info.vocab}, {"precision", info.precision},
              {"target", info.target},    {"bytes", bytes_of(info)}};
  if (!info.labels.empty()) out["labels"] = info.labels;
  if (info.pooling) out["pooling"] = *info.pooling == Pooling::mean ? "mean" : "cls";
  if (info.kind == BundleKind::embed) out["normalize"] = info.normalize;
  for (const Variant& v : info.variants)
    out["variants"].push_back({{"name", v.name}, {"kv_write", v.kv_write}});
  out["stages"] = Json::array();
  for (const Stage& stage : info.stages) {
    Json s = {{"package", stage.package}, {"holds", holds(stage)}, {"bytes", bytes_of(info, stage.package)}};
    for (const StageFunction& f : stage.functions) {
      s["functions"].push_back({{"name", f.name},
                                {"tokens", {f.least_tokens, f.most_tokens}},
                                {"context", f.context},
                                {"inputs", ports_json(f.interface.inputs)},
                                {"states", ports_json(f.interface.states)},
                                {"outputs", ports_json(f.interface.outputs)}});
      if (!f.variants.empty()) s["functions"].back()["variants"] = f.variants;
    }
    out["stages"].push_back(std::move(s));
  }
  return out;
}

}  // namespace

int inspect_bundle(const std::string& path, bool each_weight, const Common& common) {
  const BundleInfo info = BundleInfo::read(path);
  const ModelListing model = list_bundle(path, info);
  if (common.json) {
    Json out = to_json(path, info);
    add_listing(model, out);
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  fmt::print("{}\n  a bundle of kind {}: {}\n", path, kind_name(info.kind), purpose(info.kind));
  fmt::print("  {} ({}), from {}, {}, hidden {}, vocabulary {}\n",
             info.name.empty() ? info.source : info.name, info.family, info.source,
             counted(info.layers, "layer"), info.hidden, info.vocab);
  fmt::print("  {} weights for {}, {} in all\n", info.precision, info.target, size_text(bytes_of(info)));
  for (size_t i = 0; i < info.variants.size(); ++i)
    fmt::print("  variant {}: writes the cache by {}{}\n", info.variants[i].name, info.variants[i].kv_write,
               i ? "" : "; the default, until `anemone warm` finds a better one");
  if (const std::string result = result_text(info); !result.empty())
    fmt::print("{}", wrap("  ", result, kColumns));
  print_facts(model);
  for (const Stage& stage : info.stages) print_stage(stage, info);
  print_weights(model, each_weight);
  if (!common.quiet)
    for (const std::string& note : model.notes)
      fmt::print("\n{}", wrap("note: ", one_line(note, 1000), kColumns));
  return 0;
}

}  // namespace anemone::cli
