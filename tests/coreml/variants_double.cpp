#include <doctest/doctest.h>

#include "convert/convert.h"
#include "coreml/device_memory.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "measure/trial.h"
#include "runtime/session.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::test;
namespace fs = std::filesystem;

namespace {

// One bundle for all cases: both ways to write the cache, one token and four at once.
const fs::path& bundle_path() {
  static const TempFolder folder;
  static const fs::path path = [] {
    convert(source_dir() / "examples/demo_model/demo.gguf", folder.path() / "bundle",
            {.context = {48},
             .tokens = {{1, 1}, {4, 4}},
             .kv_write = {lower::KvWrite::mask, lower::KvWrite::slice},
             .threads = 1});
    return folder.path() / "bundle";
  }();
  return path;
}

std::vector<fs::path> packages() {
  std::vector<fs::path> out;
  for (const std::string& name : BundleInfo::read(bundle_path()).packages())
    out.push_back(bundle_path() / name);
  return out;
}

DeviceMemory memory(const DoubleFixture& fixture, ComputeUnits units = ComputeUnits::ane) {
  return {CompiledCache(fixture.options().cache, apple_double::switches().build), units};
}

std::vector<int64_t> greedy(const std::shared_ptr<const Bundle>& bundle) {
  Session session(bundle);
  std::vector<int64_t> out{session.forward_best(std::vector<int32_t>{1, 17, 33, 5, 120})};
  while (out.size() < 20) {
    const auto id = static_cast<int32_t>(out.back());
    out.push_back(session.forward_best({&id, 1}));
  }
  return out;
}

// What a new session runs, without a word from the caller.
std::string variant_in_use(const DoubleFixture& fixture) {
  return Bundle::open(bundle_path(), fixture.backend())->info().variants.front().name;
}

}  // namespace

TEST_CASE("both ways to write the cache give the same tokens, on the CPU engine and with Core ML") {
  const auto cpu = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1});
  const std::vector<int64_t> expected = greedy(Bundle::open(bundle_path(), cpu));
  CHECK(greedy(Bundle::open(bundle_path(), cpu, {}, "slice")) == expected);
  DoubleFixture fixture;
  for (const char* variant : {"mask", "slice"})
    CHECK(greedy(Bundle::open(bundle_path(), fixture.backend(), {}, variant)) == expected);
  CHECK(error_of([&] { Bundle::open(bundle_path(), cpu, {}, "ring"); }) ==
        "the bundle has no variant 'ring'; expected mask, slice");
}

TEST_CASE("the faster variant is found, remembered for this build and these units, and used") {
  DoubleFixture fixture;
  CHECK(variant_in_use(fixture) == "mask");  // nothing is known: the first
  apple_double::switches().slow_function = "mask";
  apple_double::switches().slow_ms = 15;
  const Trial trial = try_bundle(bundle_path(), fixture.backend(), {});
  CHECK(trial.best == "slice");
  REQUIRE(trial.variants.size() == 2);
  CHECK(trial.variants[0].token_ms > trial.variants[1].token_ms);
  CHECK(trial.variants[1].equal);
  CHECK(trial.functions.size() == 6);  // the layers four times, the head twice
  memory(fixture).remember(packages(), trial.remembered());
  CHECK(variant_in_use(fixture) == "slice");
  CHECK(Bundle::open(bundle_path(), fixture.backend(), {}, "mask")->info().kv_write == "mask");
  CHECK_FALSE(memory(fixture, ComputeUnits::gpu).recall(packages()));
  apple_double::switches().build = "25A1";
  CHECK(variant_in_use(fixture) == "mask");
}

TEST_CASE("the default stays where the other variant is no faster") {
  DoubleFixture fixture;
  apple_double::switches().slow_function = "slice";
  apple_double::switches().slow_ms = 15;
  CHECK(try_bundle(bundle_path(), fixture.backend(), {}).best == "mask");
}

TEST_CASE("a variant that the engine refuses is left out, with the reason") {
  DoubleFixture fixture;
  apple_double::switches().refused_function = "slice";
  Trial trial = try_bundle(bundle_path(), fixture.backend(), {});
  CHECK(trial.best == "mask");
  CHECK(trial.variants[1].problem.find("error code: -14") != std::string::npos);
  CHECK(trial.remembered().functions.size() == 4);
  apple_double::switches().refused_function = "mask";
  trial = try_bundle(bundle_path(), fixture.backend(), {});
  CHECK(trial.best == "slice");
  apple_double::switches().refused_function = "t";  // all of them
  CHECK(error_of([&] { try_bundle(bundle_path(), fixture.backend(), {}); }).find("error code: -14") !=
        std::string::npos);
}

TEST_CASE("a variant that computes something else is never taken, however fast") {
  DoubleFixture fixture;
  apple_double::switches().slow_function = "mask";
  apple_double::switches().slow_ms = 15;
  apple_double::switches().wrong_function = "slice";
  const Trial trial = try_bundle(bundle_path(), fixture.backend(), {});
  CHECK(trial.best == "mask");
  CHECK_FALSE(trial.variants[1].equal);
}

TEST_CASE("a variant that gives no numbers is never taken, not even where it is the first") {
  DoubleFixture fixture;
  apple_double::switches().nan_function = "mask";
  Trial trial = try_bundle(bundle_path(), fixture.backend(), {});
  CHECK(trial.best == "slice");
  CHECK(trial.variants[0].problem == "it gives values that are no numbers");
  CHECK(trial.variants[1].problem.empty());
  CHECK(trial.variants[1].equal);
  apple_double::switches().nan_function = "t1";  // of both
  CHECK(error_of([&] { try_bundle(bundle_path(), fixture.backend(), {}); }) ==
        "it gives values that are no numbers");
}

TEST_CASE("of several contexts the longest decides which variant is the best") {
  const TempFolder folder;
  for (const bool argmax : {false, true}) {
    convert(source_dir() / "examples/demo_model/demo.gguf", folder / "bundle",
            {.context = {32, 96},
             .tokens = {{1, 1}},
             .kv_write = {lower::KvWrite::mask, lower::KvWrite::slice},
             .argmax = argmax,
             .threads = 1,
             .overwrite = true});
    DoubleFixture fixture;
    apple_double::switches().slow_ms = 15;
    const auto tried = [&](const std::string& slow, const std::string& wrong) {
      apple_double::switches().slow_function = slow;
      apple_double::switches().wrong_function = wrong;
      return try_bundle(folder / "bundle", fixture.backend(), {});
    };
    Trial trial = tried("c96_mask", "");
    CHECK(trial.functions.size() == 5);
    CHECK(trial.best == "slice");
    CHECK(trial.variants[1].equal);
    CHECK(tried("c96_slice", "").best == "mask");
    // The short context does not count.
    CHECK(tried("c32_mask", "").variants[0].token_ms < trial.variants[0].token_ms);
    // What is wrong in the longest context alone is seen, also by the best tokens.
    trial = tried("c96_mask", "c96_slice");
    CHECK(trial.best == "mask");
    CHECK_FALSE(trial.variants[1].equal);
  }
}

TEST_CASE("a context that is too short for much is timed with what there is") {
  const TempFolder folder;
  convert(source_dir() / "examples/demo_model/demo.gguf", folder / "bundle",
          {.context = {32},
           .tokens = {{1, 1}, {16, 16}},
           .kv_write = {lower::KvWrite::mask, lower::KvWrite::slice},
           .threads = 1});
  DoubleFixture fixture;
  const Trial trial = try_bundle(folder / "bundle", fixture.backend(), {});
  for (const VariantTrial& one : trial.variants) CHECK(one.token_ms > 0);
}

TEST_CASE("sessions read prompts with the functions that were found to be fast") {
  DoubleFixture fixture;
  const auto used = [&] {
    std::vector<std::string> names;
    BundleWatch watch;
    watch.seen = [&](size_t stage, const std::string& function, const Call&, int64_t) {
      if (stage == 0) names.push_back(function);
    };
    Session(Bundle::open(bundle_path(), fixture.backend(), watch))
        .forward(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8});
    return names;
  };
  CHECK(used() == std::vector<std::string>{"t4_mask", "t4_mask"});
  Remembered known{.variant = "slice", .functions = {}};
  for (const auto& [name, ms] : {std::pair{"t1_slice", 1.0}, {"t4_slice", 20.0}})
    known.functions.push_back({"layers_00.mlpackage", name, ms});
  memory(fixture).remember(packages(), known);
  CHECK(used() == std::vector<std::string>(8, "t1_slice"));  // four calls of one cost less than one of four
  known.functions.pop_back();                                // not all are known: the rule of thumb
  memory(fixture).remember(packages(), known);
  CHECK(used() == std::vector<std::string>{"t4_slice", "t4_slice"});
}

TEST_CASE("what is no file of findings is as none") {
  DoubleFixture fixture;
  memory(fixture).remember(packages(), {.variant = "slice", .functions = {}});
  CHECK(variant_in_use(fixture) == "slice");
  for (const auto& entry : fs::directory_iterator(fixture.options().cache / "24E248"))
    if (entry.path().string().ends_with(".findings.json"))
      fixture.folder().write(fs::relative(entry.path(), fixture.folder().path()).string(), "{\"format\": 7}");
  CHECK(variant_in_use(fixture) == "mask");
  memory(fixture).remember(packages(), {.variant = "ring", .functions = {}});  // of a newer anemone
  CHECK(variant_in_use(fixture) == "mask");
}
