// `anemone check` and `anemone doctor` as people call them; and that what `convert` writes is clean.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "e2e/command.h"
#include "package/package.h"
#include "support/data.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

std::filesystem::path demo_model() { return source_dir() / "examples/demo_model/demo.gguf"; }

// Converts with default flags, for two systems, and checks for the bundle's own target. No warnings either.
void check_clean(const std::filesystem::path& model) {
  const TempFolder folder;
  for (const char* target : {"macos15", "ios18"}) {
    CAPTURE(target);
    const std::string bundle = folder / target;
    REQUIRE(anemone_command({"convert", model, "-o", bundle, "--target", target}).status == 0);
    const Outcome outcome = anemone_command({"check", bundle, "--strict", "--json"});
    CHECK(outcome.status == 0);
    const Json report = Json::parse(outcome.out);
    CHECK_MESSAGE(report.at("errors") == 0, report.at("findings").dump(1));
    CHECK_MESSAGE(report.at("warnings") == 0, report.at("findings").dump(1));
    CHECK_MESSAGE(report.at("unknown").empty(), report.at("unknown").dump());
    // Whatever the size, the engine takes every operation.
    for (const Json& package : report.at("packages"))
      for (const Json& function : package.at("functions"))
        for (const auto& [kind, r] : function.at("residency").items())
          CHECK_MESSAGE(r.at("taken") == r.at("ops"), kind);
  }
}

}  // namespace

TEST_CASE("what convert writes with default flags is clean under check, for a Mac and a phone") {
  check_clean(demo_model());
  for (const test::GoldenModel& model : test::golden_models()) {
    CAPTURE(model.name());
    if (test::is_decoder(Checkpoint::open(model.checkpoint))) check_clean(model.checkpoint);
  }
  if (const auto smollm2 = smollm2_file()) check_clean(*smollm2);
}

TEST_CASE("whatever the flags, convert writes no operation that nobody probed") {
  const TempFolder folder;
  const std::vector<std::vector<std::string>> kFlags = {
      {"--kv", "io"},
      {"--kv", "packed", "--kv-write", "slice"},
      {"--kv", "state", "--kv-write", "slice", "--tokens", "1,4"},
      {"--kv", "state", "--tokens", "1-4"},
      {"--kv", "packed", "--tokens", "1,16", "--context", "64,128", "--precision", "fp16"},
      {"--kv", "io", "--kv-write", "slice", "--whole", "--argmax-output"},
      {"--argmax-output", "--head-rows", "64", "--residual-scale", "auto"},
  };
  for (const auto& flags : kFlags) {
    std::string text;
    for (const std::string& flag : flags) text += flag + " ";
    CAPTURE(text);
    std::vector<std::string> call = {"convert", demo_model(), "-o", folder / "bundle", "--overwrite"};
    call.insert(call.end(), flags.begin(), flags.end());
    REQUIRE(anemone_command(call).status == 0);
    const Json report = Json::parse(anemone_command({"check", folder / "bundle", "--json"}).out);
    CHECK_MESSAGE(report.at("unknown").empty(), report.at("unknown").dump());
    for (const Json& package : report.at("packages"))
      for (const Json& function : package.at("functions")) CHECK(function.at("ops_unknown") == 0);
  }
}

TEST_CASE("check prints a summary, what is found and what to do, in 100 columns") {
  const TempFolder folder;
  const std::string bundle = folder / "demo";
  // One function, so that an operation is there once.
  REQUIRE(
      anemone_command({"convert", demo_model(), "-o", bundle, "--tokens", "1", "--context", "2048"}).status ==
      0);
  const Outcome plain = anemone_command({"check", bundle});
  CHECK(plain.status == 0);
  CHECK(plain.err == "");
  for (const char* text :
       {"2 packages", "layers_00.mlpackage", "head_00.mlpackage", "conv on ANE: 35/35", "clean: ", "K05 C"})
    CHECK_MESSAGE(plain.out.find(text) != std::string::npos, text);
  std::istringstream lines(plain.out);
  for (std::string line; std::getline(lines, line);)
    if (line.find(bundle) == std::string::npos)
      CHECK_MESSAGE(line.size() <= 110, line);  // bytes; a few are not columns
  const Outcome verbose = anemone_command({"check", bundle, "--verbose"});
  CHECK(verbose.out.find("mlp_out_4 ") != std::string::npos);

  const Outcome op = anemone_command({"check", bundle, "--explain-op", "l2_scores"});
  CHECK(op.status == 0);
  for (const char* text : {"matmul 'l2_scores' of layer 2", "CPU, BNNS", "what moves it"})
    CHECK_MESSAGE(op.out.find(text) != std::string::npos, text);
  check_refused(anemone_command({"check", bundle, "--explain-op", "l2_score_"}), {"l2_score_"});
  const Json about =
      Json::parse(anemone_command({"check", bundle, "--explain-op", "l2_scores", "--json"}).out);
  REQUIRE(about.size() == 1);
  CHECK(about[0].at("type") == "matmul");
  CHECK(about[0].at("layer") == 2);
  CHECK(about[0].at("moving_costs_ms") > 0);

  const Outcome page = anemone_command({"check", bundle, "--quiet", "--html", folder / "report.html"});
  CHECK(page.status == 0);
  CHECK(page.out == "clean: 10 hints\n");  // the verdict alone
  CHECK(slurp(folder / "report.html").find("\"layers_00.mlpackage\"") != std::string::npos);

  // A bundle where a package is meant.
  CHECK(anemone_command({"inspect", bundle}).out.find("a bundle of kind generate") != std::string::npos);
  check_refused(anemone_command({"predict", bundle}),
                {bundle + "/layers_00.mlpackage, " + bundle + "/head_00.mlpackage"});

  const Outcome phone = anemone_command({"check", bundle, "--target", "iPhone 15 Pro", "--json"});
  CHECK(phone.status == 1);  // ten states
  const Json report = Json::parse(phone.out);
  CHECK(report.at("chip") == "a17-pro");
  CHECK(report.at("findings").at(0).at("rule") == "K02");
  CHECK(report.at("findings").at(0).at("grade") == "B");
  CHECK(report.at("packages").at(0).at("functions").at(0).at("operations").size() == 419);

  const Outcome health = anemone_command({"doctor", "--bundle", bundle, "--json"});
  CHECK(Json::parse(health.out).size() >= 4);
  std::filesystem::remove(folder / "demo/embedding.bin");
  const Outcome hurt = anemone_command({"doctor", "--bundle", bundle});
  CHECK(hurt.status == 1);
  CHECK(hurt.out.find("embedding.bin is missing") != std::string::npos);
}

TEST_CASE("what bundle.json names must be there, for check and for inspect") {
  const TempFolder folder;
  const std::string bundle = folder / "demo";
  REQUIRE(anemone_command({"convert", demo_model(), "-o", bundle, "--tokens", "1"}).status == 0);
  const std::string good = slurp(folder / "demo/bundle.json");
  const auto refused = [&](const std::function<void(Json&)>& change,
                           const std::vector<std::string>& must_say) {
    Json json = Json::parse(good);
    change(json);
    spill(folder / "demo/bundle.json", json.dump(1));
    for (const char* verb : {"check", "inspect"}) {
      CAPTURE(verb);
      check_refused(anemone_command({verb, bundle}), must_say);
      check_refused(anemone_command({verb, bundle, "--json"}), must_say);
    }
  };
  const auto stage = [](Json& json) -> Json& { return json.at("stages").at(0); };
  const auto port = [&](Json& json, const char* side) -> Json& {
    return stage(json).at("functions").at(0).at(side).at(0);
  };
  refused([&](Json& j) { stage(j)["package"] = "absent.mlpackage"; }, {"absent.mlpackage"});
  refused([&](Json& j) { stage(j)["functions"][0]["name"] = "decode"; }, {"layers_00.mlpackage", "'decode'"});
  for (const char* side : {"inputs", "outputs", "states"})
    refused([&](Json& j) { port(j, side)["name"] = "nobody"; }, {"layers_00.mlpackage", "'nobody'"});
  spill(folder / "demo/bundle.json", good);
  CHECK(anemone_command({"check", bundle}).status == 0);
  CHECK(anemone_command({"inspect", bundle}).status == 0);
  // A package without what Core ML needs: a finding of check, a note of inspect.
  Package package = read_package(folder / "demo/layers_00.mlpackage");
  package.description.main.states.clear();
  write_package(package, folder / "changed.mlpackage");
  std::filesystem::remove_all(folder / "demo/layers_00.mlpackage");
  std::filesystem::rename(folder / "changed.mlpackage", folder / "demo/layers_00.mlpackage");
  const Outcome checked = anemone_command({"check", bundle, "--json"});
  CHECK(checked.status == 1);
  CHECK(Json::parse(checked.out).at("findings").at(0).at("rule") == "T06");
  const Json notes = Json::parse(anemone_command({"inspect", bundle, "--json"}).out).at("notes");
  REQUIRE(notes.size() == 10);  // a state each
  CHECK(notes.at(0).get<std::string>().find("Core ML would refuse the package") != std::string::npos);
  CHECK(anemone_command({"inspect", bundle}).out.find("note: layers_00.mlpackage: ") != std::string::npos);
}

TEST_CASE("rules and messages are explained") {
  const Outcome rule = anemone_command({"check", "--explain", "q02"});
  CHECK(rule.status == 0);
  for (const char* text : {"Q02", "evidence  A", "ct#2510", "cosine of 0.367", "cadamcat"})
    CHECK_MESSAGE(rule.out.find(text) != std::string::npos, text);
  const Json same = Json::parse(anemone_command({"check", "--explain", "q02", "--json"}).out);
  CHECK(same.at("rule") == "Q02");
  CHECK(same.at("grade") == "A");
  CHECK(same.at("sources").get<std::string>().find("cadamcat") != std::string::npos);
  CHECK(anemone_command({"check", "--explain", "H07"}).out.find("contradict") != std::string::npos);
  const Outcome known = anemone_command({"doctor", "Error: error code: -14"});
  CHECK(known.status == 0);
  CHECK(known.out.find("K02 to") != std::string::npos);
  CHECK(known.out.find("AB = videlalvaro/ane-book") != std::string::npos);
  CHECK(anemone_command({"doctor", "something", "else"}).status == 1);
}

TEST_CASE("wrong calls of check are refused") {
  const TempFolder folder;
  check_refused(anemone_command({"check"}), {"nothing to check"});
  check_refused(anemone_command({"check", "--explain", "Z99"}),
                {"Z99", "S01 to S13", "Z01 to Z10, T01 to T07"});
  check_refused(anemone_command({"check", folder / "absent"}), {"absent"});
  check_refused(anemone_command({"check", recall_package(), "--target", "pentium"}), {"pentium", "m4"});
  check_refused(anemone_command({"check", recall_package(), "--os", "200"}), {"200"});
  check_refused(anemone_command({"check", recall_package(), "--golden", folder / "g.npz"}), {"g.npz"});
  check_refused(anemone_command({"check", recall_package(), "--html", folder / "no/where.html"}), {"no"});
  check_refused(anemone_command({"doctor", "--bundle", folder / "absent"}), {"absent"});
  check_refused(anemone_command({"doctor", "--bundle", recall_package(), "error", "-14"}), {"one at a time"});
}
