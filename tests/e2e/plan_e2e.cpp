// `anemone plan`: what it says agrees with what `convert` writes, and its page with the command.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "e2e/browser.h"
#include "e2e/command.h"
#include "plan/known_models.h"
#include "plan/planner.h"
#include "support/data.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t total = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) total += entry.file_size();
  return total;
}

Json plan_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome call = anemone_command(arguments);
  CAPTURE(call.err);
  REQUIRE(call.status == 0);
  return Json::parse(call.out);
}

// Converts, and compares every package and the sums with the plan.
void compare_sizes(const fs::path& model, const std::string& precision,
                   const std::vector<std::string>& more) {
  CAPTURE(model.string());
  CAPTURE(precision);
  const TempFolder folder;
  std::vector<std::string> convert = {"convert",     model,     "-o",     folder / "b",
                                      "--precision", precision, "--quiet"};
  std::vector<std::string> plan = {model, "--precision", precision};
  convert.insert(convert.end(), more.begin(), more.end());
  plan.insert(plan.end(), more.begin(), more.end());
  const Outcome made = anemone_command(convert);
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  const Json said = plan_of(plan).at("plans").at(0);
  uint64_t packages = 0;
  size_t calls = 0;
  for (const auto& entry : fs::directory_iterator(folder / "b"))
    if (entry.path().extension() == ".mlpackage") {
      packages += folder_bytes(entry.path());
      ++calls;
    }
  CHECK(said.at("calls_per_token") == calls);
  CHECK(said.at("package_bytes").get<double>() ==
        doctest::Approx(static_cast<double>(packages)).epsilon(0.01));
  CHECK(said.at("embedding_bytes") == fs::file_size(folder / "b" / "embedding.bin"));
  CHECK(said.at("bundle_bytes").get<double>() ==
        doctest::Approx(static_cast<double>(folder_bytes(folder / "b"))).epsilon(0.01));
}

// Everything that the page's own functions compute, and whether its controls work.
constexpr const char* kProbe = R"(
  const results = [];
  for (const m of DATA.models) for (const f of DATA.forms) for (const c of DATA.chips)
    for (const o of [{ context: 2048, slice: false, shardBytes: 250e6 }, { context: 8000, slice: true, shardBytes: 1e9 }]) {
      const p = plan(m, f, c, o);
      results.push([m.id, f.name, c.id, o.context, p.packageBytes, p.bundle, p.kv, p.memory, p.layerCalls, p.headCalls, p.ms, p.low, p.high, p.smallestGb, p.phoneGb]);
    }
  const text = id => document.getElementById(id).textContent, before = text("speed"), bits = text("bitsText");
  set({ chip: "m1", form: "lut2", model: "custom", size: 3e9, context: 512 });
  const moved = text("speed") !== before && text("where").includes("M1") && text("sizeText").includes("layers");
  document.getElementById("theme").click();
  return { results, moved, before, bits, theme: document.documentElement.dataset.theme };)";

}  // namespace

TEST_CASE("planned sizes are those of the packages that convert writes") {
  for (const char* precision : {"int8", "fp16"}) {
    compare_sizes(source_dir() / "examples/demo_model/demo.gguf", precision, {});
    compare_sizes(source_dir() / "examples/demo_model/demo.gguf", precision,
                  {"--shard-mb", "0.4", "--head-rows", "128", "--context", "256"});
  }
  int models = 0;
  for (const test::GoldenModel& given : test::golden_models()) {
    if (!test::is_decoder(Checkpoint::open(given.checkpoint))) continue;
    compare_sizes(given.checkpoint, "int8", {"--context", "128"});
    compare_sizes(given.checkpoint, "fp16", {"--context", "128", "--shard-mb", "0.3", "--head-rows", "100"});
    ++models;
  }
  MESSAGE(models << " given models");
  if (const auto smollm2 = smollm2_file()) compare_sizes(*smollm2, "int8", {});
}

TEST_CASE("planned palettes have the size of those that compress writes") {
  const TempFolder folder;
  const fs::path model = source_dir() / "examples/demo_model/demo.gguf";
  REQUIRE(anemone_command(
              {"convert", model, "-o", folder / "half", "--precision", "fp16", "--tokens", "1", "--quiet"})
              .status == 0);
  struct Row {
    const char* precision;
    std::vector<std::string> flags;
  };
  const Row rows[] = {{"lut6", {"--palettize", "6"}},
                      {"lut4-g16", {"--palettize", "4", "--group", "16"}},
                      {"lut2", {"--palettize", "2"}}};
  for (const Row& row : rows) {
    CAPTURE(row.precision);
    std::vector<std::string> compress = {"compress", folder / "half", "-o", folder / row.precision,
                                         "--quiet"};
    compress.insert(compress.end(), row.flags.begin(), row.flags.end());
    const Outcome made = anemone_command(compress);
    CAPTURE(made.err);
    REQUIRE(made.status == 0);
    uint64_t packages = 0;
    for (const auto& entry : fs::directory_iterator(folder / row.precision))
      if (entry.path().extension() == ".mlpackage") packages += folder_bytes(entry.path());
    const Json said = plan_of({model, "--precision", row.precision}).at("plans").at(0);
    CHECK(said.at("package_bytes").get<double>() ==
          doctest::Approx(static_cast<double>(packages)).epsilon(0.01));
  }
}

TEST_CASE("plan speaks to people and to programs") {
  const Outcome text = anemone_command({"plan", "qwen3-0.6b", "--chip", "iPhone 15 Pro"});
  CHECK(text.status == 0);
  for (const char* must : {"596.0 M parameters", "A17 Pro", "lut4-g16", "assumed", "predictions", "left out"})
    CHECK_MESSAGE(text.out.find(must) != std::string::npos, must);
  const Json one = plan_of({"qwen3-0.6b", "--chip", "m4-max", "--precision", "int8,lut4"});
  CHECK(one.at("model").at("parameters") == 596'049'920);
  REQUIRE(one.at("plans").size() == 2);
  CHECK(one["plans"][0]["predicted"]["low"] < one["plans"][0]["predicted"]["high"]);
  CHECK(one["plans"][1]["package_bytes"] < one["plans"][0]["package_bytes"]);
  CHECK(one.at("calibration").at("error").at("mean") <= 0.12);
  CHECK(one.at("calibration").at("points").size() >= 14);
  const Json all = plan_of({"qwen3-0.6b", "--matrix"});
  CHECK(all.at("plans").size() == all_chips().size() * all_precisions().size());
  CHECK(anemone_command({"plan", "qwen3-0.6b", "--matrix"}).out.find("m5-max") != std::string::npos);

  const TempFolder folder;
  check_refused(anemone_command({"plan"}), {"model is missing"});
  check_refused(anemone_command({"plan", "nothing-7b"}), {"nothing-7b", "qwen3-0.6b"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--chip", "z80"}), {"z80", "m4-max"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--precision", "int3"}), {"int3", "lut4"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--context", "0"}), {"--context"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--shard-mb", "-1"}), {"--shard-mb"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--head-rows", "0"}), {"--head-rows"});
  check_refused(anemone_command({"plan", "qwen3-0.6b", "--html", folder / "no/such/page.html"}),
                {"page.html"});
  std::ofstream(folder / "cut.gguf") << "GGUF";
  check_refused(anemone_command({"plan", folder / "cut.gguf"}), {"cut.gguf"});
}

TEST_CASE("the page computes what the command computes, in a browser") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: there is no browser");
    return;
  }
  const TempFolder folder;
  const Outcome written = anemone_command({"plan", "--json", "--html", folder / "plan.html"});
  REQUIRE(written.status == 0);
  CHECK(written.out == "");  // notes are no part of an answer for programs
  CHECK(written.err.find("plan.html written") != std::string::npos);
  const Json look = look_at(program, slurp(folder / "plan.html"), {.width = 390}, kProbe);
  CHECK(look.at("errors") == Json::array());
  const Json& seen = look.at("result");
  CHECK(std::stod(seen.at("before").get<std::string>()) > 0);
  CHECK(seen.at("bits").get<std::string>().ends_with(" bits a weight"));
  CHECK(seen.at("moved") == true);
  CHECK(seen.at("theme") == "dark");
  const auto models = std::ranges::count_if(known_models(), [](const KnownModel& m) { return !m.experts; });
  REQUIRE(seen.at("results").size() ==
          static_cast<size_t>(models) * all_precisions().size() * all_chips().size() * 2);
  std::map<std::string, Planner> planners;
  for (const KnownModel& known : known_models()) planners.emplace(known.id, Planner(describe(known)));
  size_t wrong = 0;
  for (const Json& row : seen.at("results")) {
    ModelPlanOptions o;
    o.precision = parse_precision(row[1].get<std::string>());
    o.target = find_target(row[2].get<std::string>());
    o.context = row[3];
    if (o.context != 2048) {
      o.kv_write = lower::KvWrite::slice;
      o.limits.bytes = 1'000'000'000;
    }
    const ModelPlan p = planners.at(row[0]).plan(o);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
    const bool same = row[4] == p.package_bytes && row[5] == p.bundle_bytes && row[6] == p.kv_bytes &&
                      row[7] == p.memory_bytes && row[8] == p.shards.layers.size() &&
                      row[9] == p.shards.heads.size() && near(row[10], p.cost.total_ms()) &&
                      near(row[11], p.slowest()) && near(row[12], p.fastest()) &&
                      row[13] == p.fit.smallest_gb && row[14] == p.fit.phone_gb;
    if (!same && ++wrong < 5)
      MESSAGE("differs: " << row.dump() << " / " << p.package_bytes << " " << p.cost.total_ms());
  }
  CHECK(wrong == 0);
}
