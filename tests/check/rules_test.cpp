#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "check/doctor.h"
#include "check/known_values.h"
#include "check/report.h"
#include "check/seeds.h"
#include "check/wrap.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

// A sound graph: convolutions over 32 tokens, last axis 32, worth the engine.
std::shared_ptr<const Package> sound() {
  Graph g({1, 64, 1, 32});
  return g.finish({g.work(g.work(g.x, "first"), "second")});
}

std::string ids(const CheckReport& report, Level least) {
  std::string out;
  for (const Finding& f : report.findings)
    if (f.level >= least) out += std::string(f.rule->id) + " ";
  return out;
}

}  // namespace

TEST_CASE("every seeded fault is found under its rule, as severe as the rule says") {
  CHECK(seeds().size() >= 60);
  for (const Seed& seed : seeds()) {
    CAPTURE(seed.what);
    CAPTURE(seed.id);
    const CheckReport report = check_package(seed.make(), seed.options);
    const auto found = of_rule(report, seed.id);
    CHECK_MESSAGE(!found.empty(), "found instead: ", ids(report, Level::hint));
    const bool level =
        std::any_of(found.begin(), found.end(), [&](const Finding& f) { return f.level == seed.level; });
    CHECK(level);
    if (seed.level == Level::error) CHECK(report.failed(false));
    if (seed.level == Level::warning) CHECK(report.failed(true));
    for (const Finding& f : found) CHECK(f.message.size() > 3);
  }
}

TEST_CASE("a sound package is clean, on a Mac and on a phone") {
  for (const char* target : {"m1", "m4", "m6", "a17", "iphone"}) {
    const CheckReport report = check_package(sound(), {.target = target});
    CHECK_MESSAGE(ids(report, Level::warning) == "", target);
    CHECK_FALSE(report.failed(true));
    const auto& placed = report.packages[0].functions[0].placed;
    CHECK(placed.ane_ops == placed.ops.size());
    CHECK(report.packages[0].functions[0].residency.at("conv").on_ane == 8);
  }
}

TEST_CASE("a rule knows its targets") {
  const auto make = [](const char* what) {
    const auto it = std::find_if(seeds().begin(), seeds().end(),
                                 [&](const Seed& s) { return std::string(s.what) == what; });
    REQUIRE(it != seeds().end());
    return it->make();
  };
  CHECK(of_rule(check_package(make("three states on an iPhone"), {.target = "m4"}), "K02").empty());
  CHECK(of_rule(check_package(make("a width of 20,000 on M1"), {.target = "m4"}), "S06").empty());
  CHECK(of_rule(check_package(make("a kernel 14 wide on M1"), {.target = "m4"}), "O07").empty());
  CHECK(of_rule(check_package(make("int8 on M1"), {.target = "m2"}), "Q10").empty());
  CHECK(of_rule(check_package(make("a program of iOS 18 on iOS 17"), {.target = "m4", .os = 15}), "T01")
            .empty());
  const auto scaled =
      of_rule(check_package(make("a palette with scales, on 26"), {.target = "m4", .os = 15}), "Q09");
  REQUIRE(scaled.size() == 1);
  CHECK(scaled[0].level == Level::warning);
  const auto quantised =
      of_rule(check_package(make("quantised activations on an iPhone"), {.target = "m4"}), "O13");
  REQUIRE(!quantised.empty());
  CHECK(quantised[0].level == Level::hint);
}

TEST_CASE("rules are complete, unique, and weak evidence never fails a check") {
  std::set<std::string_view> seen;
  int count = 0;
  for (const auto& group : rule_groups())
    for (const Rule& rule : group) {
      CAPTURE(rule.id);
      CHECK(seen.insert(rule.id).second);
      CHECK(rule.title.size() > 10);
      CHECK(rule.sources.size() > 1);
      if (rule.grade == Grade::C || rule.grade == Grade::X) CHECK(rule.level != Level::error);
      if (rule.level == Level::error) CHECK(rule.fix.size() > 3);
      const std::string text = explain_rule(rule);
      CHECK(text.starts_with(std::string(rule.id) + "  "));
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        CHECK(columns(line) <= (line.starts_with(rule.id) ? 160u : 100u));
      ++count;
    }
  CHECK(count == 101);
  CHECK(find_rule("q02") == find_rule("Q02"));
  CHECK(find_rule("Q99") == nullptr);
}

TEST_CASE("weights beyond 2^31 bytes, beyond what was seen, and beyond what is safe") {
  const TempFolder folder;
  const auto with_file = [&](int64_t bytes) {
    const auto path = folder / std::to_string(bytes);
    const int file = ::open(path.c_str(), O_CREAT | O_RDWR, 0600);
    REQUIRE(::ftruncate(file, bytes) == 0);  // sparse: takes no room
    ::close(file);
    Graph g({1, 64, 1, 32});
    const Type type = Type::tensor(DType::fp16, {64, 64, 1, 1});
    Blob blob{"@model_path/weights/weight.bin", 64, 128, 8192, MappedFile::open(path)};
    Value* w = g.b.constant(Constant::from_blob(type, blob), "w");
    return g.finish({g.conv_by(g.x, w, "conv")});
  };
  const CheckReport huge = check_package(with_file((int64_t{1} << 31) + 4096), {.target = "m4"});
  CHECK(of_rule(huge, "Z02").size() == 1);
  CHECK(of_rule(huge, "Z01").at(0).level == Level::warning);
  const CheckReport large = check_package(with_file(1'200'000'000), {.target = "m4"});
  CHECK(of_rule(large, "Z02").empty());
  CHECK(of_rule(large, "Z01").at(0).level == Level::hint);
  CHECK(of_rule(check_package(with_file(1'200'000'000), {.target = "a18"}), "Z01").at(0).level ==
        Level::warning);
  // Much to carry and nothing to do: the shard goes to the CPU.
  CHECK(of_rule(large, "P02").at(0).level == Level::error);
  CHECK(of_rule(large, "Z03").empty());
}

TEST_CASE("a golden run shows sums near the accumulator's end and errors of tables") {
  Graph g({1, 64, 1, 32});
  Value* w = g.b.constant(filled(DType::fp16, {64, 64, 1, 1}, 1), "w");
  Value* y = g.conv_by(g.x, w, "mlp_out_3");
  Value* s = g.b.op("sigmoid", {{"x", y}}, "gate");
  const auto package = g.finish({s});
  // 64 inputs of 600 under weights of one: the sum is 38400, past 32768.
  Array x(DType::fp32, {1, 64, 1, 1});
  for (float& v : x.values<float>()) v = 600;
  Array down(DType::fp32, {2, 64});
  down.values<float>()[5] = -20000;
  const NamedArrays sums{{"x", x}, {"mlp_out_3", down}};
  const auto found = of_rule(check_package(package, {.target = "m4", .golden = &sums}), "D03");
  REQUIRE(found.size() == 2);
  CHECK(found[0].message.find("2e+04") != std::string::npos);
  CHECK(found[1].message.find("3.84e+04") != std::string::npos);
  // Between two of 33 points on [-8, 8] the chord of a sigmoid is off by up to h^2 / 8 * 0.0962 = 0.003.
  Array gate(DType::fp32, {4});
  gate.values<float>()[0] = 1.25f;
  const NamedArrays tables{{"mlp_out_3", gate}};
  const auto table = of_rule(check_package(package, {.target = "m4", .golden = &tables}), "D07");
  REQUIRE(table.size() == 1);
  CHECK(table[0].level == Level::hint);
  CHECK(table[0].message.find("0.00") != std::string::npos);
  CHECK(of_rule(check_package(package, {.target = "m4"}), "D03").empty());
}

TEST_CASE("what Core ML says itself stands beside the prediction") {
  struct Told : ComputePlanSource {
    std::map<std::string, std::string> devices(const std::filesystem::path&,
                                               const std::string& function) const override {
      if (function != "main") return {};
      return {{"first_up", "ANE"}, {"first_same", "GPU"}};
    }
  };
  const Told told;
  const CheckReport report = check_package(sound(), {.target = "m4", .truth = &told});
  CHECK(report.packages[0].functions[0].differing() == 1);
  CHECK(report_text(report).find("known for 2 operations and differs for 1") != std::string::npos);
  CHECK(report_json(report, false).find("\"core_ml\": \"GPU\"") != std::string::npos);
  CHECK(explain_op(report, "first_same").find("GPU") != std::string::npos);
  CHECK(report.unknown().empty());
  CHECK(report_text(report).find("unknown") == std::string::npos);
}

TEST_CASE("what nobody probed is said to be unknown, wherever a device is shown") {
  Graph g({1, 64, 1, 32});
  const auto prelu = [&](Value* x, const char* name) {
    return g.b.op("prelu", {{"x", x}, {"alpha", filled(DType::fp16, {64}, 0.5f)}}, name);
  };
  Value* y = prelu(prelu(g.work(g.x, "before"), "odd"), "even");
  const CheckReport report = check_package(g.finish({g.work(y, "behind")}), {.target = "m4"});
  CHECK(report.unknown() == std::map<std::string, int>{{"prelu", 2}});
  const FunctionReport& f = report.packages[0].functions[0];
  const size_t ops = f.placed.ops.size();
  CHECK(f.placed.unknown_ops == 2);
  CHECK(f.placed.ane_ops == ops - 2);
  CHECK(f.residency.at("prelu").unknown == 2);
  CHECK(f.residency.at("prelu").taken == 0);

  for (const bool verbose : {false, true}) {
    const std::string text = report_text(report, {.verbose = verbose});
    for (const std::string& part :
         {fmt::format("{}/{}        2", ops - 2, ops), std::string("prelu 0/2 (2 unknown)"),
          std::string("unknown (not probed)\n  2 operations not probed: prelu (2). No table or source"),
          std::string("of the operations whose device is known"),
          fmt::format("whether the engine takes them or not, {0} of {0} others are on it", ops - 2),
          fmt::format("passed: {} of {} operations on the ANE, 2 unknown (not probed); ", ops - 2, ops)})
      CHECK_MESSAGE(text.find(part) != std::string::npos, part, " in\n", text);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(columns(line) <= 100, line);
  }
  // Too little work behind it: refused, it would leave the rest on the CPU.
  Graph small({1, 64, 1, 32});
  Value* last =
      small.b.op("prelu", {{"x", small.work(small.x, "work")}, {"alpha", filled(DType::fp16, {64}, 0.5f)}});
  const CheckReport tail = check_package(small.finish({small.conv(last, 64, "tail")}), {.target = "m4"});
  const size_t all = tail.packages[0].functions[0].placed.ops.size();
  CHECK_MESSAGE(
      report_text(tail).find(fmt::format("if the engine refuses them, {} of {} others are on it, not {}",
                                         all - 2, all - 1, all - 1)) != std::string::npos,
      report_text(tail));

  const std::string explained = explain_op(report, "odd");
  CHECK(explained.find("device        unknown (not probed)") != std::string::npos);
  CHECK(explained.find("prelu 'even',") != std::string::npos);
  CHECK(explained.find("chosen") == std::string::npos);

  const auto json = nlohmann::json::parse(report_json(report, false));
  CHECK(json.at("unknown") == nlohmann::json{{"prelu", 2}});
  const auto& function = json.at("packages").at(0).at("functions").at(0);
  CHECK(function.at("ops_unknown") == 2);
  CHECK(function.at("ops_on_cpu") == 0);
  CHECK(function.at("ops_on_ane_if_unknown_refused") == ops - 2);
  CHECK(function.at("time_share_on_ane") == 1);
  CHECK(function.at("time_share_of_ms").get<double>() == doctest::Approx(f.placed.ane_ms));
  const auto& op =
      function.at("operations").at(static_cast<size_t>(f.placed.find("odd") - f.placed.ops.data()));
  CHECK(op.at("chosen") == "unknown");
  CHECK(op.at("taken_as") == "ane");
  CHECK(report_html(report, false).find("\"unknown\":{\"prelu\":2}") != std::string::npos);
}

TEST_CASE("an operation is explained: why it is there, and what would move it") {
  const auto it = std::find_if(seeds().begin(), seeds().end(),
                               [](const Seed& s) { return std::string(s.what) == "a cumsum in the middle"; });
  const CheckReport report = check_package(it->make(), {.target = "m4"});
  const std::string fault = explain_op(report, "fault");
  CHECK(fault.find("refused, O01") != std::string::npos);
  CHECK(fault.find("triangular") != std::string::npos);
  CHECK(explain_op(report, "before_same").find("ms more") != std::string::npos);
  const std::string unknown = error_of([&] { explain_op(report, "before"); });
  CHECK(unknown.find("before_up") != std::string::npos);
}

TEST_CASE("a report fits the terminal, and its page holds no markup of the model's") {
  Graph g;
  Value* y = g.b.op("cumsum", {{"x", g.work(g.x, "before")}, {"axis", Constant::integer(3)}}, "fault");
  y->producer->attributes["name"] = Constant::text("</script><b>l7_fault");
  const CheckReport report = check_package(g.finish({g.work(y, "behind")}), {.target = "m4"});
  for (const bool verbose : {false, true}) {
    std::istringstream lines(report_text(report, {.verbose = verbose}));
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(columns(line) <= 100, line);
  }
  const std::string page = report_html(report, false);
  CHECK(page.find("</script><b>") == std::string::npos);
  CHECK(page.find("u003cb>l7_fault") != std::string::npos);
}

TEST_CASE("layers are read from names") {
  CHECK(layer_in_name("l12_q_rope") == 12);
  CHECK(layer_in_name("k_3_old") == 3);
  CHECK(layer_in_name("model.layers.7.mlp.up_proj") == 7);
  CHECK(layer_in_name("blk_5_ffn") == 5);
  CHECK(layer_in_name("logits_0") == -1);
  CHECK(layer_in_name("k_1_cast_fp16") == -1);
  CHECK(layer_in_name("l2_norm") == 2);
  CHECK(layer_in_name("") == -1);
}

TEST_CASE("error messages are decoded, the most particular meaning first") {
  const auto first = [](std::string_view text) {
    return decode_error(text).empty() ? "" : std::string(decode_error(text)[0]->rules.substr(0, 3));
  };
  CHECK(first("Error: Failed to build the model execution plan using a model architecture file, error code: "
              "-14.") == "Z01");
  CHECK(first("E5RT encountered an STL exception. msg = … error code \u221214") == "Z01");
  CHECK(first("ANECCompile() FAILED (11)") == "O01");
  CHECK(first("ANEProgramProcessRequestDirect() Failed with status=0x1d : statusType=0x9") == "K02");
  CHECK(first("ANE model load has failed for on-device compiled macho. Must re-compile the E5 bundle.") ==
        "Z09");
  CHECK(first("Unsupported tensor data type: int32") == "D02");
  CHECK(first("Cannot support standalone slice_update") == "K04");
  CHECK(first("'mps.dequantize' op operand #0 must be tensor of quantized values") == "Q09");
  CHECK(first("failed with 0xe00002c2") == "K11");
  CHECK(first("process exited: status 137") == "P06");
  CHECK(first("-14") == "Z01");
  CHECK(decode_error("code 1437, line 140").empty());
  CHECK(decode_error("2026-11-14 10:00:00 loaded").empty());
  CHECK(decode_error("").empty());
}

TEST_CASE("messages as people pasted them into public issues are decoded") {
  // The text, and the rule or a word of the meaning.
  constexpr std::pair<const char*, const char*> kPasted[] = {
      {"E5RT: MILCompilerForANE error: failed to compile ANE model using ANEF. Error=_ANECompiler : "
       "ANECCompile() FAILED (11)",
       "O01"},
      {"[espresso] [Espresso::handle_ex_plan] exception=ANECF error:\n[coreml] Error plan build: -1.", "O01"},
      {"exception=ANECF error: failed to load ANE model. Error=createProgramInstanceForModel:modelToken:: "
       "Program load failure (0x20004)",
       "Z01"},
      {"Error Domain=com.apple.appleneuralengine Code=53 \"createProgramInstanceForModel:...: Program load "
       "failed",
       "Z01"},
      {"ANE Evaluation Error = Error Domain=com.apple.appleneuralengine Code=8 "
       "\"processRequest:model:qos:qIndex:modelStringID:options:error:: ANEProgramProcessRequestDirect() "
       "Failed "
       "with status=0x16 : statusType=0x9: Program Inference error\"",
       "while it ran"},
      {"ANEProgramProcessRequestDirect() Failed with status=0x1d : statusType=0x9: Program Inference error",
       "K02"},
      {"ANECCompileOffline() failed: OSStatus=0, aneCompileStatus=1, statusdict={", "Q02"},
      {"Unable to parse ML Program: at unknown location: Unknown opset 'CoreML8'.", "T01"},
      {"compiler major version for compiled model is 9.0.0 and is more recent than this framework major "
       "version "
       "8.0.0",
       "T01"},
      {"validator error: The .mlmodel supplied is of version 5, intended for a newer version of Xcode.",
       "T01"},
      {"model.mil:10:244: Could not open /private/var/folders/by/T/text_encoder.mlmodelc/weights/weight.bin",
       "is missing"},
      {"MIL->EIR translation error at model.mil:14:12: Unable to mmap file /private/weights/weight.bin "
       "status=14",
       "mapped"},
      {"Exception: Unable to load CoreML.framework. Cannot make predictions.", "no Core ML"},
      {"MLModel of type mlProgram cannot be loaded just from the model spec object.", "without its weights"},
      {"For input feature '0', the provided shape (0 x 0 x 1 x 2) is not compatible with the model's feature "
       "description.",
       "S08"},
      {"Shape (1 x 128 x 32 x 32) was not in enumerated set of allowed shapes", "S08"},
      {"Type of context in function main's I/O contains unknown strides.", "K09"},
      {"The app has been killed by the operating system because it is using too much memory.", "P05"},
      {"[coreml] Error computing NN outputs -1\n[coreml] Failure in -executePlan:error:.",
       "prediction failed"},
      {"RuntimeError: A valid manifest does not exist at path: /x/model.mlpackage/Manifest.json",
       "Manifest.json"},
      {"RuntimeWarning: You will not be able to run predict() on this Core ML model. Underlying exception "
       "message "
       "was: { NSLocalizedDescription = \"Failed to build the model execution plan using a model "
       "architecture file "
       "'/T/tmp0i2wrapi.mlmodelc/model.mil' with error code: -14.\"; }",
       "Z01"},
      {"[coreml] MLModelAsset: load failed with error Error Domain=com.apple.CoreML Code=0 \"Error in "
       "declaring "
       "network.\"",
       "Z02"},
  };
  for (const auto& [text, expected] : kPasted) {
    CAPTURE(text);
    const auto meanings = decode_error(text);
    REQUIRE(!meanings.empty());
    CHECK_MESSAGE((meanings[0]->rules.starts_with(expected) ||
                   meanings[0]->meaning.find(expected) != std::string_view::npos),
                  meanings[0]->meaning);
    for (const ErrorMeaning* m : meanings) CHECK((!m->wrapper || meanings.size() == 1));
    std::string_view rules = meanings[0]->rules;
    if (!rules.empty()) CHECK(find_rule(rules.substr(0, 3)) != nullptr);
  }
  // An address in a stack trace is not a status.
  CHECK(decode_error("0   CoreML   0x1d2ad870 main + 48").empty());
}

TEST_CASE("the doctor measures caches and the disk") {
  const TempFolder home;
  spill(home / "Library/Caches/a.out/com.apple.e5rt.e5bundlecache/x", std::string(1000, 'x'));
  const auto all = examine({.bundle = std::nullopt, .home = home.path()});
  const auto it =
      std::find_if(all.begin(), all.end(), [](const Health& h) { return h.what == "compiled copies"; });
  REQUIRE(it != all.end());
  CHECK(it->found.find("1 program") != std::string::npos);
  CHECK(it->good);
  CHECK(error_of([&] { examine({.bundle = home / "nothing", .home = home.path()}); }).find("nothing") !=
        std::string::npos);
}

TEST_CASE("every given package can be checked for every chip, and Core ML loads it") {
  for (const auto& path : data_packages()) {
    CAPTURE(path);
    for (const char* target : {"m1", "a18", "m6"}) {
      const CheckReport report = check(path, {.target = target});
      CHECK(!report.packages.empty());
      CHECK(report_text(report).size() > 100);
      for (const Finding& f : report.findings) CHECK_MESSAGE(!f.rule->id.starts_with("T"), f.message);
    }
  }
}
