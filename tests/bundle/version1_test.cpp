// Bundles that version 1 of bundle.json describes still open and run. Their packages are those of today but for the
// names of values that goldens know; names and description are written here by hand, as that version wrote them.
#include "bundle/version1.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/thread_pool.h"
#include "bundle/files.h"
#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "package/package.h"
#include "runtime/session.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "verify/ladder.h"

using namespace anemone;

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
using lower::KvKind;
using lower::KvWrite;

const std::vector<int32_t> kIds = {0, 1439, 821, 262, 796, 315, 12, 99, 4, 7, 1000};

fs::path demo_model() { return source_dir() / "examples/demo_model/demo.gguf"; }

Json stage_json(const Stage& s) {
  const bool head = s.has_head();
  Json out = {{"kind", s.has_layers() ? head ? "whole" : "layers" : "head"}, {"package", s.package}};
  if (s.has_layers()) out["layers"] = {s.first_layer, s.last_layer};
  out["functions"] = Json::array();
  for (const StageFunction& f : s.functions) {
    Json entry = {{"name", f.name}, {"tokens", {f.least_tokens, f.most_tokens}}};
    if (s.has_layers()) entry["context"] = f.context;
    out["functions"].push_back(entry);
  }
  size_t piece = 0;
  for (const Port& port : s.functions[0].interface.outputs) {
    if (port.role.kind != Role::Kind::logits && port.role.kind != Role::Kind::best) continue;
    Json entry = {{"first_row", port.role.first}, {"rows", port.role.last - port.role.first}};
    if (port.role.kind == Role::Kind::logits)
      entry["logits"] = fmt::format("logits_{}", piece);
    else
      for (const char* name : {"best", "high", "low"}) entry[name] = fmt::format("{}_{}", name, piece);
    ++piece;
    out["pieces"].push_back(entry);
  }
  return out;
}

// The demo model has one rope and one mask.
Json version1(const BundleInfo& b) {
  Json j = {{"format", "anemone-bundle"}, {"version", 1}, {"tool", "anemone 0.1.0"}};
  j["source"] = {{"file", b.source},
                 {"name", b.name},
                 {"architecture", b.architecture},
                 {"author", b.author},
                 {"license", b.license}};
  j["model"] = {{"family", b.family}, {"hidden", b.hidden},     {"layers", b.layers},
                {"heads", b.heads},   {"kv_heads", b.kv_heads}, {"head_dim", b.head_dim},
                {"cache_width", 32},  {"vocab", b.vocab},       {"context", b.model_context}};
  j["choices"] = {{"precision", b.precision}, {"kv", b.kv},         {"kv_write", b.kv_write},
                  {"target", b.target},       {"argmax", b.argmax}, {"residual_scale", b.residual_scale}};
  j["embedding"] = {{"dtype", b.tokens.dtype}, {"scale", b.embedding_scale}};
  if (!b.tokens.file.empty()) j["embedding"]["file"] = b.tokens.file;
  if (!b.tokens.scales.empty()) j["embedding"]["scales"] = b.tokens.scales;
  for (const EmbeddingPart& p : b.embedding_parts) {
    Json part = {{"file", p.file}, {"offset", p.offset}, {"first_row", p.first_row}, {"rows", p.rows}};
    if (p.scales) part["scales"] = p.scales;
    j["embedding"]["parts"].push_back(part);
  }
  j["ropes"] = {{{"cos", "cos"},
                 {"sin", "sin"},
                 {"attention_factor", b.ropes.at(0).attention_factor},
                 {"frequencies", b.ropes[0].frequencies}}};
  j["masks"] = {{{"name", "mask"}, {"window", 0}}};
  j["tokens"] = {{"eos", b.eos}, {"tokenizer", b.tokenizer}};
  if (b.bos) j["tokens"]["bos"] = *b.bos;
  for (const Stage& s : b.stages) j["stages"].push_back(stage_json(s));
  for (const BundleFile& f : b.files)
    j["files"].push_back({{"path", f.path}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  return j;
}

std::set<std::string> text(const std::vector<Port>& ports) {
  std::set<std::string> out;
  for (const Port& p : ports)
    out.insert(fmt::format("{} {} {} {} {}-{}", p.name, role_name(p.role.kind), p.role.index,
                           p.role.layers.empty() ? -1 : p.role.layers.front(), p.role.first, p.role.last));
  return out;
}

std::set<std::string> text(const std::vector<Tap>& taps) {
  std::set<std::string> out;
  for (const Tap& t : taps) out.insert(fmt::format("{} {} {} {}", t.value, t.name, t.layer, t.scale));
  return out;
}

// What version 1 called the values that goldens know, in a demo model.
std::string name_in_version1(const Tap& tap) {
  static const std::map<std::string, std::string> kNames = {
      {"q", "q_rope"},         {"k", "k_rope"},     {"v", "v_heads"},
      {"gate", "gate"},        {"up", "up"},        {"gated", "gated"},
      {"attn_out", "o"},       {"mlp_out", "down"}, {"attn_residual", "attn_out"},
      {"layer_out", "mlp_out"}};
  const auto it = kNames.find(tap.name);
  return it == kNames.end() ? tap.value : fmt::format("l{}_{}", tap.layer, it->second);
}

// Writes the packages anew with the old names, and puts these into `info`.
void rename_as_version1(const fs::path& path, BundleInfo& info) {
  for (Stage& stage : info.stages) {
    Package package = read_package(path / stage.package);
    for (const auto& f : package.program.functions)
      for (const auto& op : f->body.ops)
        for (const auto& value : op->outputs)
          for (const Tap& tap : stage.taps)
            if (value->name == tap.value) {
              value->name = name_in_version1(tap);
              op->attributes.insert_or_assign("name", Constant::text(value->name));
              break;
            }
    for (Tap& tap : stage.taps) tap.value = name_in_version1(tap);
    write_package(package, path / "renamed.mlpackage");
    package = {};
    fs::remove_all(path / stage.package);
    fs::rename(path / "renamed.mlpackage", path / stage.package);
  }
  for (BundleFile& f : info.files) f.bytes = fs::file_size(path / f.path);
}

struct Form {
  std::string name;
  ConvertOptions options;
};

std::vector<Form> forms() {
  return {{"states", {.context = {32}, .tokens = {{1, 1}, {4, 4}}}},
          {"packed, slices", {.context = {32}, .kv = KvKind::packed, .kv_write = {KvWrite::slice}}},
          {"io, shards", {.context = {32}, .kv = KvKind::io, .shard_bytes = 1'500'000, .head_rows = 700}},
          {"tiers", {.context = {8, 32}, .tokens = {{1, 1}, {4, 4}}}},
          {"packed tiers", {.context = {8, 32}, .kv = KvKind::packed}},
          {"a range of tokens", {.context = {32}, .tokens = {{1, 4}}}},
          {"whole, argmax", {.context = {32}, .whole = true, .argmax = true, .head_rows = 700}},
          {"head as embedding", {.context = {32}, .embedding_in_head = true}},
          {"int8 embedding, scaled", {.context = {32}, .embedding_int8 = true, .residual_scale = 0.25}},
          {"some layers", {.context = {32}, .first_layer = 1, .last_layer = 3}}};
}

}  // namespace

TEST_CASE("a bundle of version 1 has the roles, taps and answers that it has today") {
  const TempFolder folder;
  for (Form form : forms()) {
    CAPTURE(form.name);
    form.options.overwrite = true;
    const fs::path path = folder / "b";
    BundleInfo today = convert(demo_model(), path, form.options).info;
    const auto answer = [&] {
      Session session(Bundle::open(path, cpu_backend({.threads = 1})));
      if (today.argmax) return std::vector<float>{static_cast<float>(session.forward_best(kIds))};
      return session.forward(kIds);
    };
    const std::vector<float> expected = answer();
    rename_as_version1(path, today);
    spill(path / kBundleFile, version1(today).dump(1));
    const BundleInfo old = BundleInfo::read(path);
    REQUIRE(old.stages.size() == today.stages.size());
    for (size_t s = 0; s < old.stages.size(); ++s) {
      CHECK(text(old.stages[s].taps) == text(today.stages[s].taps));
      REQUIRE(old.stages[s].functions.size() == today.stages[s].functions.size());
      for (size_t i = 0; i < old.stages[s].functions.size(); ++i) {
        const StageFunction &a = old.stages[s].functions[i], &b = today.stages[s].functions[i];
        CHECK(text(a.interface.inputs) == text(b.interface.inputs));
        CHECK(text(a.interface.states) == text(b.interface.states));
        CHECK(text(a.interface.outputs) == text(b.interface.outputs));
        CHECK(a.context == b.context);
      }
    }
    CHECK(old.kind == BundleKind::generate);
    CHECK(old.tiers() == today.tiers());
    CHECK(old.masks == today.masks);
    CHECK(!old.recurrent());
    CHECK(answer() == expected);
  }
}

TEST_CASE("a bundle of version 1 is verified, and becomes version 2 when it is written again") {
  const TempFolder folder;
  BundleInfo today = convert(demo_model(), folder / "b", {.context = {64}, .tokens = {{1, 1}, {4, 4}}}).info;
  rename_as_version1(folder / "b", today);
  fs::remove(folder / "b" / kBundleFile);
  ThreadPool pool(1);
  today.files = hash_files(folder / "b", pool);
  spill(folder / "b" / kBundleFile, version1(today).dump());
  const VerifyReport report = verify(folder / "b", {.source = demo_model(),
                                                    .ids = kIds,
                                                    .steps = 3,
                                                    .arithmetics = {Arithmetic::fp32},
                                                    .backend = cpu_backend});
  CHECK(report.passed());
  const BundleInfo old = BundleInfo::read(folder / "b");
  spill(folder / "b" / kBundleFile, old.json());
  CHECK(Json::parse(slurp(folder / "b" / kBundleFile))["version"] == 2);
  const BundleInfo again = BundleInfo::read(folder / "b");
  CHECK(again.json() == old.json());
}

TEST_CASE("what a bundle of version 1 cannot mean is refused") {
  const TempFolder folder;
  const BundleInfo today = convert(demo_model(), folder / "b", {.context = {32}}).info;
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json j = version1(today);
    change(j);
    spill(folder / "b" / kBundleFile, j.dump());
    return error_of([&] { Bundle::open(folder / "b", cpu_backend({})); });
  };
  const auto check = [](const std::string& error, const char* part) {
    INFO(error);
    CHECK(error.find(part) != std::string::npos);
  };
  check(refused([](Json& j) { j["ropes"][0]["cos"] = "c"; }), "the input 'cos'");
  check(refused([](Json& j) { j["masks"] = Json::array(); }), "the input 'mask'");
  check(refused([](Json& j) { j["stages"][0]["functions"] = Json::array(); }), "has no functions");
  check(refused([](Json& j) { j["stages"][0]["functions"][0]["name"] = "f"; }), "no function 'f'");
  check(refused([](Json& j) { j["stages"][0]["layers"] = {0, int64_t{1} << 60}; }), "has layers 0 to");
  check(refused([](Json& j) { j["stages"][0]["layers"] = {3, 2}; }), "has layers 3 to 2");
  check(refused([](Json& j) { j["stages"][0]["package"] = "../b/layers_00.mlpackage"; }), "layers_00");
  check(refused([](Json& j) { j["stages"][1]["pieces"] = Json::array(); }), "the output 'logits_0'");
  check(refused([](Json& j) { j["stages"][1]["pieces"][0]["rows"] = 2000; }), "2000 of the 2048");
  check(refused([](Json& j) { j["stages"] = Json::array(); }), "0 layers");
  check(refused([](Json& j) { j.erase("model"); }), "model");
  check(refused([](Json& j) { j["version"] = 3; }), "expected 1 or 2");
}
