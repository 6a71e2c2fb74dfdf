// Which packages a conversion writes, against what `plan` says before.
#include "convert/stages.h"

#include <doctest/doctest.h>

#include "convert/convert.h"
#include "families/family.h"
#include "plan/planner.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

fs::path demo() { return source_dir() / "examples/demo_model/demo.gguf"; }

Ranges ranges(const std::vector<Shard>& shards) {
  Ranges out;
  for (const Shard& s : shards) out.emplace_back(s.first, s.last);
  return out;
}

// As bundle.json says them.
Ranges layers_of(const BundleInfo& info) {
  Ranges out;
  for (const Stage& stage : info.stages)
    if (stage.has_layers()) out.emplace_back(stage.first_layer, stage.last_layer);
  return out;
}
Ranges rows_of(const BundleInfo& info) {
  Ranges out;
  for (const Stage& stage : info.stages) {
    if (stage.has_layers()) continue;
    const std::vector<Port>& outputs = stage.functions.at(0).interface.outputs;
    out.emplace_back(outputs.front().role.first, outputs.back().role.last);
  }
  return out;
}

ConvertOptions options_of(uint64_t shard_bytes, const char* rules) {
  ConvertOptions o;
  o.context = {64};
  o.shard_bytes = shard_bytes;
  o.head_rows = 256;
  if (*rules) {
    o.precision = Precision::fp16;
    o.recipe = parse_recipe(rules);
  }
  return o;
}

}  // namespace

TEST_CASE("plan's shards are what convert writes, in every form") {
  StorageForm blocks;
  blocks.integers = IntegerForm{.dtype = DType::int4, .per = IntegerForm::Per::block, .block = 32};
  struct Row {
    const char* name;
    StorageForm form;
    const char* rules;  // empty: by --precision
  };
  const Row rows[] = {
      {"int8", parse_precision("int8"), ""},
      {"fp16", parse_precision("fp16"), R"({"rules": [{"keep": true}]})"},
      {"lut4", parse_precision("lut4"), R"({"rules": [{"palettize": {"bits": 4, "fast": true}}]})"},
      {"lut6-g8", parse_precision("lut6-g8"),
       R"({"rules": [{"palettize": {"bits": 6, "group": 8, "fast": true}}]})"},
      {"int4 in blocks", blocks, R"({"rules": [{"quantize": {"type": "int4", "block": 32}}]})"},
  };
  const TempFolder folder;
  const Planner planner(open_plan_source(demo()).model);
  std::map<std::string, size_t> calls;
  for (const Row& row : rows)
    for (const uint64_t limit : {700'000u, 1'300'000u, 2'500'000u}) {
      CAPTURE(row.name);
      CAPTURE(limit);
      ModelPlanOptions o;
      o.precision = row.form;
      o.target = find_target("m4");
      o.limits = {.bytes = limit, .head_rows = 256};
      const ModelPlan plan = planner.plan(o);
      ConvertOptions options = options_of(limit, row.rules);
      options.overwrite = true;
      const ConvertReport report = convert(demo(), folder / "b", options);
      CHECK(layers_of(report.info) == ranges(plan.shards.layers));
      CHECK(rows_of(report.info) == ranges(plan.shards.heads));
      if (limit == 1'300'000) calls[row.name] = plan.calls();
      // The planned bytes are those of the files, but for vectors and the record in front of each blob.
      for (const ConvertReport::Row& written : report.rows) {
        if (!written.file.ends_with(".mlpackage")) continue;
        CHECK(written.bytes >= written.weights);
        CHECK(written.bytes < written.weights + 20'000);
      }
    }
  CHECK(calls["lut4"] < calls["int8"]);
  CHECK(calls["int8"] < calls["fp16"]);
  CHECK(calls["int4 in blocks"] < calls["int8"]);
}

TEST_CASE("rules that name packages are followed when shards are cut") {
  const TempFolder folder;
  const Planner planner(open_plan_source(demo()).model);
  ModelPlanOptions o;
  o.target = find_target("m4");
  o.limits = {.bytes = 1'300'000, .head_rows = 256};
  const ConvertReport report = convert(
      demo(), folder / "b", options_of(1'300'000, R"({"rules": [{"match": "head_*/*", "quantize": "int8"},
                                       {"palettize": {"bits": 4, "fast": true}}]})"));
  o.precision = parse_precision("lut4");
  CHECK(layers_of(report.info) == ranges(planner.plan(o).shards.layers));
  o.precision = parse_precision("int8");
  CHECK(rows_of(report.info) == ranges(planner.plan(o).shards.heads));
  // Layers of 1.2 MB in fp16 and 0.3 MB in four bits: one that is kept fills a package, and the others another.
  const ConvertReport first = convert(
      demo(), folder / "c", options_of(1'300'000, R"({"rules": [{"match": "layers_00/*", "keep": true},
                                       {"palettize": {"bits": 4, "fast": true}}]})"));
  CHECK(layers_of(first.info) == Ranges{{0, 1}, {1, 5}});
}
