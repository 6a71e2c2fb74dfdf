#include "plan/planner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "families/tiny_model.h"
#include "plan/known_models.h"
#include "plan/page.h"
#include "support/golden_models.h"
#include "support/made_model.h"
#include "support/temp_folder.h"

using namespace anemone;

TEST_CASE("a precision counts its bytes as the format says") {
  // 100 rows of 30: by hand.
  struct Row {
    const char* name;
    uint64_t bytes, file;
  };
  const Row rows[] = {
      {"fp16", 6000, 64 + 6016},
      {"int8", 3000 + 200, 64 + 3008 + 64 + 256},
      {"int8-tensor", 3000 + 2, 64 + 3008},               // one scale stays in the program
      {"lut8", 3000 + 512, 64 + 3008 + 64 + 512},         // 256 halves
      {"lut6", 2250 + 128, 64 + 2304 + 64 + 128},         // 18,000 bits, 64 halves
      {"lut4", 1500 + 32, 64 + 1536 + 64 + 64},           // 16 halves
      {"lut2", 750 + 8, 64 + 768},                        // 4 halves stay in the program
      {"lut4-g16", 1500 + 7 * 32, 64 + 1536 + 64 + 256},  // 7 groups of 16 rows, the last of 4
      {"lut1-g1", 375 + 100 * 4, 64 + 384 + 64 + 448},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const StorageForm precision = parse_precision(row.name);
    CHECK(precision_name(precision) == row.name);
    CHECK(stored_bytes(precision, 100, 30) == row.bytes);
    CHECK(file_bytes(precision, 100, 30) == row.file);
  }
  CHECK(read_bytes(parse_precision("int8"), 100, 30, *find_target("m1").chip) == 6000);  // unfolded there
  CHECK(read_bytes(parse_precision("int8"), 100, 30, *find_target("m2").chip) == 3200);
  CHECK(read_bytes(parse_precision("lut4"), 100, 30, *find_target("m1").chip) == 1532);
  for (const char* wrong :
       {"", "lut", "lut5", "lut4-g", "lut4-g0", "lut4-gx", "lut44", "INT8", "lut4-g99999999999"})
    CHECK_THROWS_AS(parse_precision(wrong), Error);
}

TEST_CASE("known models have the number of parameters that is published") {
  struct Row {
    const char* name;
    uint64_t parameters;
  };
  const Row rows[] = {{"SmolLM2-135M-Instruct", 134'515'008},
                      {"HuggingFaceTB/SmolLM2-360M", 361'821'120},
                      {"smollm2 1.7b", 1'711'376'384},
                      {"meta-llama/Llama-3.2-1B-Instruct", 1'235'814'400},
                      {"Llama-3.2-3B", 3'212'749'824},
                      {"llama-3.1-8b", 8'030'261'248},
                      {"Qwen2.5-0.5B-Instruct", 494'032'768},
                      {"qwen2.5-1.5b", 1'543'714'304},
                      {"qwen2.5-3b", 3'085'938'688},
                      {"qwen2.5-7b", 7'615'616'512},
                      {"Qwen/Qwen3-0.6B", 596'049'920},
                      {"qwen3-1.7b", 1'720'574'976},
                      {"qwen3-4b", 4'022'468'096},
                      {"qwen3-8b", 8'190'735'360},
                      {"Phi-3.5-mini-instruct", 3'821'079'552},
                      {"phi-4-mini", 3'836'021'760},
                      {"gemma-2-2b-it", 2'614'341'888},
                      {"google/gemma-3-270m", 268'098'176},
                      {"gemma-3-1b-it", 999'885'952}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const KnownModel* known = find_known_model(row.name);
    REQUIRE(known);
    CHECK(Planner(describe(*known)).parameters() == row.parameters);
  }
  CHECK(find_known_model("qwen3-5b") == nullptr);
  CHECK(find_known_model("") == nullptr);
}

TEST_CASE("cache, weights and the parts of a token's time agree with hand calculation") {
  const Planner smol(describe(*find_known_model("smollm2-135m")));
  CHECK(smol.kv_bytes_per_position() == 30 * 3 * 64 * 2 * 2);
  ModelPlanOptions o;
  o.target = find_target("m4-max");
  const ModelPlan p = smol.plan(o);
  CHECK(p.kv_bytes == 47'185'920);
  // A layer: q and o 576x576, k and v 192x576, gate and up 1536x576, down 576x1536, and two bytes a row.
  const uint64_t layer =
      2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576 + 2 * (576 + 192 + 192 + 576 + 1536 + 1536 + 576);
  CHECK(p.layer_weights == 30 * layer);
  CHECK(p.head_weights == 49152 * 576 + 2 * 49152);
  CHECK(p.embedding_bytes == 49152 * 576 * 2);
  CHECK(p.calls() == 2);
  CHECK(p.read_bytes == p.layer_weights + p.head_weights);
  const CostConstants& c = calibration().constants;
  CHECK(p.cost.weights_ms == doctest::Approx(static_cast<double>(p.read_bytes) / 119e6));
  CHECK(p.cost.kv_ms == doctest::Approx(2 * 47.18592 / c.activation_gbps));
  CHECK(p.cost.calls_ms == doctest::Approx(2 * (0.090 + 576 * c.us_per_channel / 1000)));
  CHECK(p.slowest() == doctest::Approx(1000 / (1.25 * p.cost.total_ms())));
  CHECK(p.fastest() == doctest::Approx(1000 / (0.75 * p.cost.total_ms())));
  o.kv_write = lower::KvWrite::slice;
  CHECK(smol.plan(o).cost.kv_ms == doctest::Approx(p.cost.kv_ms / 2));

  // Heads of 96 are kept in rows of 96, which is a multiple of 32; of 80 in 96.
  const Planner phi(describe(*find_known_model("phi-3.5-mini")));
  CHECK(phi.kv_bytes_per_position() == 32 * 32 * 96 * 4);
  Model odd = describe(*find_known_model("smollm2-135m"));
  find_attention(odd.layers[0])->head_dim = 80;
  CHECK(lower::cache_width(*first_attention(odd)) == 96);
}

TEST_CASE("what recurrent layers remember counts once, whatever the context") {
  // Of five layers, 0 and 2 are convolutions of 3 taps over 16 channels: two columns of halves each.
  const Planner planner(test::small_decoder(5, 2));
  CHECK(planner.state_bytes() == 2 * 2 * 16 * 2);
  CHECK(planner.kv_bytes_per_position() == 3 * 2 * 32 * 2 * 2);  // the others: two heads in rows of 32
  ModelPlanOptions o;
  o.target = find_target("m4");
  for (const int64_t context : {64, 128}) {
    o.context = context;
    const ModelPlan p = planner.plan(o);
    CHECK(p.state_bytes == planner.state_bytes());
    CHECK(p.memory_bytes == p.read_bytes + p.kv_bytes + p.state_bytes + kProcessBytes);
  }
}

TEST_CASE("norms at both ends and a bias of the head are counted where they are stored") {
  Model m = test::small_decoder(2);
  const StorageForm half = parse_precision("fp16");
  const Shard first{0, 1, 0}, last{1, 2, 0}, rows{0, 48, 0};
  const Planner plain(m);
  m.final_norm->kind = Norm::Kind::layer;
  m.final_norm->bias = test::weight("norm_bias", test::kHidden);
  m.embedding.norm = test::rms_norm_of("embedding_norm");
  std::get<VocabularyHead>(m.head).bias = test::weight("head_bias", test::kVocab);
  const Planner more(m);
  // Beside what the programs grow by, a vector of 16 halves: a record of 64 bytes and 64 bytes of data; of 20 rows and
  // of 8: a record and 64 bytes, and nothing, since it stays in the program.
  const auto grown = [&](uint64_t GraphBytes::*part) {
    return more.graph(half).*part - plain.graph(half).*part;
  };
  CHECK(more.layers_package(first, half) - plain.layers_package(first, half) ==
        128 + grown(&GraphBytes::layers) + grown(&GraphBytes::layer));
  CHECK(more.layers_package(last, half) - plain.layers_package(last, half) ==
        128 + grown(&GraphBytes::layers) + grown(&GraphBytes::layer));
  CHECK(more.head_package(rows, half, 20) - plain.head_package(rows, half, 20) ==
        2 * 128 + grown(&GraphBytes::head) + 3 * grown(&GraphBytes::piece));
}

TEST_CASE("memory, apps and shards depend on the target") {
  const Planner phi(describe(*find_known_model("phi-4-mini")));
  ModelPlanOptions o;
  o.target = find_target("m4-max");
  const ModelPlan mac = phi.plan(o);
  CHECK(mac.fit.smallest_gb == 36);
  CHECK_FALSE(mac.fit.app);       // 5 GB with the embedding
  CHECK_FALSE(mac.fit.resident);  // 3.8 GB of weights
  CHECK(mac.fit.phone_gb == 12);  // 4.2 GB in half of 12
  CHECK(mac.spread == 0.25);
  o.precision = parse_precision("lut4");
  o.target = find_target("iPhone 15 Pro");
  const ModelPlan phone = phi.plan(o);
  CHECK(phone.fit.app);
  CHECK(phone.fit.smallest_gb == 8);
  CHECK(phone.fit.resident);
  CHECK(phone.spread == 0.4);  // its read rate is assumed
  CHECK(phone.calls() < mac.calls());
  CHECK(phone.fit.context);
  o.context = 20000;
  CHECK(phi.plan(o).fit.context);
  o.target = find_target("m3");  // 16384 rows there
  CHECK_FALSE(phi.plan(o).fit.context);
  o.target = phone.options.target;
  o.context = 2048;
  o.limits.bytes = 1'000'000'000;
  CHECK(phi.plan(o).calls() == 3);
  CHECK(phi.plan(o).cost.calls_ms < phone.cost.calls_ms);
}

TEST_CASE("a configuration alone gives the description that the whole checkpoint gives") {
  int compared = 0;
  for (const test::GoldenModel& given : test::golden_models()) {
    if (!given.variant.empty()) continue;
    CAPTURE(given.name());
    const Checkpoint whole = Checkpoint::open(given.checkpoint);
    if (!test::is_known(whole)) continue;
    const TempFolder folder;
    std::filesystem::copy_file(given.checkpoint / "config.json", folder / "config.json");
    const PlanSource bare = open_plan_source(folder.path()), full = open_plan_source(given.checkpoint);
    CHECK(bare.origin == "config.json");
    CHECK(full.origin == "safetensors");
    CHECK(open_plan_source(folder / "config.json").origin == "config.json");
    const Planner a(bare.model), b(full.model);
    CHECK(a.parameters() == b.parameters());
    ModelPlanOptions o;
    o.target = find_target("m4");
    CHECK(a.plan(o).package_bytes == b.plan(o).package_bytes);
    ++compared;
  }
  MESSAGE("compared " << compared << " models");
}

TEST_CASE("what is no model, or is not plausible, is refused") {
  const TempFolder folder;
  CHECK_THROWS_WITH_AS(open_plan_source("nothing-7b"), doctest::Contains("qwen3-0.6b"), Error);
  CHECK_THROWS_AS(open_plan_source(folder.path()), Error);  // an empty folder
  folder.write("config.json", "[1, 2]");
  CHECK_THROWS_WITH_AS(open_plan_source(folder.path()), doctest::Contains("is not a JSON object"), Error);
  folder.write("config.json", R"({"architectures": ["NobodyForCausalLM"]})");
  CHECK_THROWS_WITH_AS(open_plan_source(folder.path()), doctest::Contains("NobodyForCausalLM"), Error);
  test::TinyModel tiny = test::TinyModel::llama_safetensors();
  tiny.config["num_hidden_layers"] = 2'000'000'000;
  folder.write("config.json", tiny.config.dump());
  CHECK_THROWS_WITH_AS(open_plan_source(folder.path()), doctest::Contains("num_hidden_layers"), Error);
  tiny.config["num_hidden_layers"] = 4096;
  tiny.config["hidden_size"] = 1 << 24;
  tiny.config["intermediate_size"] = 1 << 26;
  folder.write("config.json", tiny.config.dump());
  CHECK_THROWS_WITH_AS(Planner(open_plan_source(folder.path()).model), doctest::Contains("not plausible"),
                       Error);
  tiny = test::TinyModel::llama_safetensors();
  tiny.config["vocab_size"] = 2'000'000'000;
  folder.write("config.json", tiny.config.dump());
  CHECK_THROWS_WITH_AS(Planner(open_plan_source(folder.path()).model), doctest::Contains("2000000000"),
                       Error);
}

TEST_CASE("the page carries the tables, and a model's name cannot break out of them") {
  Model m = describe(*find_known_model("smollm2-135m"));
  m.name = "</script><b>";
  const Planner own(m);
  ModelPlanOptions o;
  o.target = find_target("m4");
  o.precision = parse_precision("lut3-g8");
  const std::string page = plan_page(&own, o);
  CHECK(page.find("</script><b>") == std::string::npos);
  CHECK(page.find("lut3-g8") != std::string::npos);
  CHECK(page.find("http://") ==
        page.find("http://www.w3.org/2000/svg"));  // the name of SVG: nothing is loaded
  CHECK(page.find("https://") == std::string::npos);
  for (const Chip& chip : all_chips())
    CHECK(page.find('"' + std::string(chip.id) + '"') != std::string::npos);
}
