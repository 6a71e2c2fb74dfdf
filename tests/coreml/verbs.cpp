// The verbs with --backend coreml, on the double: the command that users have, linked with another Core ML.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

const std::string kModel = (source_dir() / "examples/demo_model/demo.gguf").string();

// A folder with a bundle and a cache of its own; the switches of the double for what is called.
struct Place {
  TempFolder folder;
  std::string bundle = (folder / "bundle").string();

  explicit Place(const std::vector<std::string>& more = {}) {
    ::setenv("ANEMONE_COREML_CACHE", (folder / "cache").c_str(), 1);
    std::vector<std::string> call{"convert", kModel, "-o", bundle, "--quiet"};
    call.insert(call.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--context") == more.end()) call.insert(call.end(), {"--context", "96"});
    REQUIRE(anemone_command(call).status == 0);
  }
  ~Place() {
    ::unsetenv("ANEMONE_COREML_CACHE");
    ::unsetenv("ANEMONE_DOUBLE");
  }
  void set(const std::string& switches) const { ::setenv("ANEMONE_DOUBLE", switches.c_str(), 1); }
};

// The same call on both backends must print the same.
void same_output(std::vector<std::string> call) {
  CAPTURE(call.front());
  call.insert(call.end(), {"--backend", "coreml", "--quiet"});
  const Outcome own = anemone_command(call);
  CAPTURE(own.err);
  CHECK(own.status == 0);
  call.resize(call.size() - 3);
  call.insert(call.end(), {"--backend", "cpu", "--arith", "fp16", "--quiet"});
  const Outcome cpu = anemone_command(call);
  CHECK(own.out == cpu.out);
  CHECK(!own.out.empty());
}

}  // namespace

TEST_CASE("verbs give with Core ML what they give with the CPU engine") {
  const Place place({"--tokens", "1,4"});
  place.folder.write("text.txt", "One morning Mara went to the tide pool with her brother.");
  const std::string text = (place.folder / "text.txt").string();
  same_output({"run", place.bundle, "Once upon a time", "--max-new", "24"});
  same_output(
      {"run", place.bundle, "Once upon a time", "--max-new", "12", "--temperature", "0.9", "--seed", "3"});
  same_output({"run", place.bundle, "One day one day one day", "--max-new", "12", "--speculate", "3"});
  same_output({"perplexity", place.bundle, "--text", text});
  same_output({"golden", place.bundle, "--text", text, "-o", (place.folder / "g.npz").string(), "--steps",
               "3", "--json"});
  const Outcome stats = anemone_command({"run", place.bundle, "Once", "--max-new", "4", "--stats"});
  CHECK(stats.err.find("backend      coreml, fp16 arithmetic\n") !=
        std::string::npos);  // auto, where there is one
  CHECK(stats.err.find("output buffers: 0 of") != std::string::npos);
  CHECK(anemone_command({"run", place.bundle, "Once", "--max-new", "4", "--stats", "--arith", "fp32"})
            .err.find("backend      cpu, fp32") != std::string::npos);
  const Json json =
      Json::parse(anemone_command({"run", place.bundle, "Once", "--max-new", "4", "--json"}).out);
  CHECK(json["backend"] == "coreml");
  CHECK(json["backend_remarks"].size() >= 2);
  check_refused(anemone_command({"run", place.bundle, "Once", "--backend", "coreml", "--arith", "fp16"}),
                {"--arith is for the CPU engine"});
  check_refused(anemone_command({"perplexity", kModel, "--text", text, "--backend", "coreml"}),
                {"is for bundles"});
}

TEST_CASE("chat and translate give with Core ML what they give with the CPU engine") {
  const Place place({"--tokens", "1,4", "--context", "256"});
  const std::string form = place.folder.write(
      "form.jinja",
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}Question: {{ m.content }}\nAnswer:"
      "{% else %}{{ m.content }}\n{% endif %}{% endfor %}");
  place.folder.write("lines", "Hi.\n\nThe tide comes in.\n");
  same_output({"translate", place.bundle, "--to", "fr", "--template", form, "Hi.", "--max-new", "8"});
  same_output({"translate", place.bundle, "--to", "fr", "--template", form, "--file",
               (place.folder / "lines").string(), "--lines", "--max-new", "8", "--stop", "\\n"});
  // A conversation: the second prompt goes on from the first answer, /undo goes back behind it.
  place.folder.write("talk", "What does a crab eat?\nAnd a gull?\n/undo\nAnd a seal?\n/history\n");
  place.folder.write("rest", "And a gull?\n/undo\nAnd a seal?\n/history\n");
  const auto talk = [&](const char* lines, const std::string& flags) {
    return shell(std::string("cat '") + (place.folder / lines).string() + "' | '" + ANEMONE_BINARY +
                 "' chat '" + place.bundle + "' --template '" + form + "' --max-new 12 --quiet " + flags);
  };
  const Outcome own = talk("talk", "--backend coreml"), cpu = talk("talk", "--backend cpu --arith fp16");
  CAPTURE(own.err);
  CHECK(own.status == 0);
  CHECK(own.out == cpu.out);
  CHECK(own.out.find("user: And a seal?") != std::string::npos);
  CHECK(own.out.find("user: And a gull?") == std::string::npos);
  // A prediction that fails ends the answer, not the conversation: it goes on as if the question had not been asked.
  place.set("fail_at=30");
  const Outcome failed = talk("talk", "--backend coreml");
  CHECK(failed.status == 0);
  CHECK(failed.err.find("a prediction failed") != std::string::npos);
  CHECK(failed.out.ends_with(talk("rest", "--backend cpu --arith fp16").out));
}

TEST_CASE("texts that are seen whole: embed, classify and redact, many at once") {
  const Place place;
  test::TinyEncoder("BertModel", "bert").write(place.folder / "embedder");
  test::TinyEncoder("BertForSequenceClassification", "bert", 3).write(place.folder / "classifier");
  Array ids(DType::int32, {6, 7});
  for (size_t i = 0; i < 42; ++i) ids.values<int32_t>()[i] = static_cast<int32_t>(3 + i * 7 % 30);
  const std::string file = (place.folder / "ids.npy").string();
  write_npy(file, ids);
  for (const std::string verb : {"embed", "classify"}) {
    const std::string bundle = (place.folder / ("b_" + verb)).string();
    REQUIRE(
        anemone_command({"convert", (place.folder / (verb == "embed" ? "embedder" : "classifier")).string(),
                         "-o", bundle, "--tokens", "8,16", "--precision", "fp16", "--quiet"})
            .status == 0);
    same_output({verb, bundle, "--ids", file, "--json"});
  }
  place.folder.write("letter.txt", "Anna Berg, call me at +49 30 1234567 or anna@example.org.\n");
  same_output({"redact", (place.folder / "letter.txt").string()});
}

TEST_CASE("predict: a package with a state, step by step") {
  const Place place;
  const auto last = [&](const std::vector<std::string>& more) {
    const std::string state = (place.folder / "state.npz").string();
    std::filesystem::remove(state);
    std::string out;
    for (size_t i = 0; i < 5; ++i) {
      std::vector<std::string> call{
          "predict", recall_package().string(), "--inputs", recall_steps()[i].string(), "--state", state};
      call.insert(call.end(), more.begin(), more.end());
      const Outcome step = anemone_command(call);
      CAPTURE(step.err);
      CHECK(step.status == 0);
      out += step.out;
    }
    return out;
  };
  const std::string own = last({"--backend", "coreml"});
  CHECK(!own.empty());
  CHECK(own == last({"--backend", "cpu", "--arith", "fp16"}));
}

TEST_CASE("bench measures Core ML as it measures the CPU engine") {
  const Place place;
  const Outcome text = anemone_command({"bench", place.bundle, "--fill", "3,40", "--tokens", "4"});
  CAPTURE(text.err);
  CHECK(text.status == 0);
  CHECK(text.out.find("coreml, fp16 arithmetic; load ") != std::string::npos);
  CHECK(text.out.find("predicted for the M4") != std::string::npos);
  place.folder.write("power.txt", "ANE Power: 812 mW\nCombined Power (CPU + GPU + ANE): 1000 mW\n");
  const Json cpu =
      Json::parse(anemone_command({"bench", place.bundle, "--fill", "3", "--tokens", "2", "--backend", "cpu",
                                   "--json", "--powermetrics", (place.folder / "power.txt").string()})
                      .out);
  CHECK(cpu["backend"] == "cpu");
  CHECK(cpu["rows"].size() == 1);
  CHECK(cpu["joules_per_token"].get<double>() > 0);
  const std::string page = (place.folder / "bench.html").string();
  CHECK(anemone_command({"bench", place.bundle, "--fill", "3,40", "--tokens", "3", "--html", page}).status ==
        0);
  const std::string html = slurp(page);
  for (const char* part : {"prediction for the M4", "Time to the first token", "first load"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  check_refused(anemone_command({"bench", place.bundle, "--fill", "90", "--tokens", "30"}),
                {"has no room for 30"});
  check_refused(anemone_command({"bench", place.bundle, "--fill", "0", "--tokens", "3"}), {"at least one"});
  check_refused(anemone_command({"bench", place.bundle, "--tokens", "0"}), {"found 0, expected 1 to 95"});
  check_refused(anemone_command({"bench", place.bundle, "--fill", "x"}), {"--fill takes numbers"});
}

TEST_CASE("verify climbs the ladder on the device") {
  const Place place;
  const Outcome good =
      anemone_command({"verify", place.bundle, "--source", kModel, "--steps", "4", "--backend", "coreml"});
  CAPTURE(good.out);
  CHECK(good.status == 0);
  CHECK(good.out.find("PASSED") != std::string::npos);
}

TEST_CASE("warm compiles and loads, and doctor shows and cleans what it made") {
  const Place place({"--tokens", "1,4"});
  const Outcome warm = anemone_command({"warm", place.bundle});
  CHECK(warm.status == 0);
  CHECK(warm.out.find("4 functions warm") != std::string::npos);
  const Json shown = Json::parse(anemone_command({"doctor", "--cache", "--json"}).out);
  CHECK(shown["folder"] == (place.folder / "cache").string());
  CHECK(shown["packages"].size() == 2);
  CHECK(shown["bytes"].get<int64_t>() > 1'000'000);
  CHECK(anemone_command({"run", place.bundle, "Once", "--max-new", "2", "--stats"})
            .err.find("0 of them compiled") != std::string::npos);
  place.set("build=25B1");
  CHECK(anemone_command({"doctor", "--cache"}).out.find("not in use") != std::string::npos);
  const Outcome clean = anemone_command({"doctor", "--cache", "--clean"});
  CHECK(clean.out.find("MB removed") != std::string::npos);
  CHECK(clean.out.find("0 compiled packages") != std::string::npos);
  check_refused(anemone_command({"doctor", "--clean"}), {"--clean goes with --cache"});
}

TEST_CASE("warm and doctor say so where the cache cannot be used") {
  const Place place;
  place.folder.write("file", "x");
  ::setenv("ANEMONE_COREML_CACHE", (place.folder / "file/cache").c_str(), 1);
  const Outcome warm = anemone_command({"warm", place.bundle});
  CHECK(warm.status == 1);
  CHECK(warm.out.find("functions tried in") != std::string::npos);
  CHECK(warm.out.find("nothing is kept in") != std::string::npos);
  CHECK(warm.out.find("compiled anew each time") != std::string::npos);
  CHECK(warm.err.find("the cache cannot be written") != std::string::npos);
  const Outcome json = anemone_command({"warm", place.bundle, "--json"});
  CHECK(json.status == 1);
  CHECK(Json::parse(json.out)["kept"] == false);
  const Outcome run = anemone_command({"run", place.bundle, "Once", "--max-new", "2", "--stats"});
  CHECK(run.status == 0);
  CHECK(run.err.find("compiled anew each time") != std::string::npos);
  ::setenv("ANEMONE_COREML_CACHE", (place.folder / "file").c_str(), 1);
  check_refused(anemone_command({"doctor", "--cache"}), {"file", "is no folder"});
  check_refused(anemone_command({"doctor", "--cache", "some text"}), {"without a message"});
  check_refused(anemone_command({"doctor", "--cache", "--bundle", place.bundle}), {"without --bundle"});
  ::setenv("ANEMONE_COREML_CACHE", (place.folder / "none").c_str(), 1);
  CHECK(anemone_command({"doctor", "--cache"}).out.find("0 compiled packages") != std::string::npos);
}

TEST_CASE("warm tries the variants of a bundle and sessions use the better one") {
  const Place place({"--tokens", "1,4", "--kv-write", "both"});
  const auto stats = [&] {
    return anemone_command({"run", place.bundle, "Once", "--max-new", "2", "--stats"}).err;
  };
  CHECK(stats().find("variant mask: the cache is written by mask") != std::string::npos);
  place.set("slow_function=mask,on_cpu=slice_update");
  const Outcome warm = anemone_command({"warm", place.bundle});
  CAPTURE(warm.out);
  CHECK(warm.status == 0);
  CHECK(warm.out.find("sessions use slice from now on") != std::string::npos);
  CHECK(warm.out.find("results equal") != std::string::npos);
  CHECK(stats().find("variant slice: the cache is written by slice") != std::string::npos);
  const Json json = Json::parse(anemone_command({"warm", place.bundle, "--json"}).out);
  CHECK(json["best"] == "slice");
  CHECK(json["variants"][1]["on_ane"].get<int>() < json["variants"][1]["operations"].get<int>());
  CHECK(json["functions"].size() == 6);
  place.set("refused_function=slice");
  const Outcome refused = anemone_command({"warm", place.bundle});
  CHECK(refused.status == 0);
  CHECK(refused.out.find("is left out: ") != std::string::npos);
  CHECK(stats().find("variant mask:") != std::string::npos);
  // All that a bundle has is judged.
  place.set("on_cpu=conv");
  CHECK(anemone_command({"check", place.bundle, "--device"}).out.find("t1_slice") != std::string::npos);
}

TEST_CASE("predict runs many inputs, some of them at once, and answers in their order") {
  const Place place;
  std::vector<std::string> call{"predict", recall_package().string()};
  for (size_t i = 0; i < 4; ++i) call.insert(call.end(), {"--inputs", recall_steps()[i].string()});
  // With a state each file is a step: as one call after the other.
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all = call;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome out = anemone_command(all);
    CAPTURE(out.err);
    CHECK(out.status == 0);
    return out.out;
  };
  const std::string own = run({"--backend", "coreml"});
  CHECK(own.find(recall_steps()[3].string()) != std::string::npos);
  CHECK(own == run({"--backend", "cpu", "--arith", "fp16"}));
  run({"--backend", "coreml", "--outputs", (place.folder / "out").string()});
  CHECK(std::filesystem::exists(place.folder / "out" / (recall_steps()[2].stem().string() + ".npz")));
  check_refused(
      anemone_command({"predict", recall_package().string(), "--inputs", recall_steps()[0].string(),
                       "--inputs", recall_steps()[0].string(), "-o", (place.folder / "two").string()}),
      {"two files of inputs"});
}

TEST_CASE("errors of Core ML are one line, with what the doctor knows") {
  const Place place;
  place.set("fail_at=9");
  const Outcome failed = anemone_command({"run", place.bundle, "Once upon a time", "--max-new", "20"});
  CHECK(failed.status == 2);
  CHECK(failed.err.find("error: ") != std::string::npos);
  CHECK(failed.err.find("a prediction failed") != std::string::npos);
  CHECK(failed.err.find("error code: -14") != std::string::npos);
  place.set("macos_major=14");
  check_refused(anemone_command({"run", place.bundle, "Once", "--backend", "coreml"}),
                {"macOS 15", "--backend cpu"});
  CHECK(anemone_command({"run", place.bundle, "Once", "--max-new", "2", "--stats"})
            .err.find("backend      cpu") != std::string::npos);
}

TEST_CASE("check --device: agreement, differences, exit status; --save and --compare") {
  const Place place;
  const std::string report = (place.folder / "report.json").string();
  // Everything on the engine: what the prediction puts on the CPU differs.
  const Outcome all = anemone_command({"check", place.bundle, "--device", "--save", report});
  CAPTURE(all.out);
  CHECK(all.status == 0);
  CHECK(all.out.find("On Apple M4 (macOS 15.4, build 24E248), compute units ane:") != std::string::npos);
  CHECK(all.out.find("agreement: ") != std::string::npos);
  CHECK(all.out.find("conv on ANE: ") != std::string::npos);
  const Json saved = Json::parse(slurp(report));
  CHECK(saved["format"] == "anemone-device-report");
  CHECK(saved["functions"].size() == 4);
  // The same anywhere else, from the file.
  const auto tail = [](const std::string& text) { return text.substr(text.find("\nOn Apple")); };
  CHECK(tail(anemone_command({"check", place.bundle, "--compare", report}).out) == tail(all.out));
  const Json json = Json::parse(anemone_command({"check", place.bundle, "--compare", report, "--json"}).out);
  CHECK(json["device"]["chip"] == "Apple M4");
  CHECK(json["device"]["convs"] == json["device"]["convs_on_ane"]);
  CHECK(json["device"]["agreement"].get<double>() > 0.1);
  place.set("on_cpu=conv");
  const Outcome none = anemone_command({"check", place.bundle, "--device"});
  CHECK(none.status == 1);
  CHECK(none.out.find("conv on ANE: 0/") != std::string::npos);
  const Outcome brief = anemone_command({"check", place.bundle, "--device", "--quiet"});
  CHECK(brief.status == 1);
  CHECK(brief.out.find("\nconv on ANE: 0/") != std::string::npos);
  place.set("");
  CHECK(anemone_command({"check", place.bundle, "--device", "--compute-units", "cpu"}).status == 1);
  check_refused(anemone_command({"check", place.bundle, "--save", report}), {"--save goes with --device"});
  check_refused(anemone_command({"check", place.bundle, "--compare", kModel}), {"is no report of a device"});
  // Of functions that are not in a report nothing is known: that is no success.
  Json less = saved;
  less["functions"].erase(0);
  place.folder.write("less.json", less.dump());
  const Outcome unknown =
      anemone_command({"check", place.bundle, "--compare", (place.folder / "less.json").string()});
  CHECK(unknown.status == 1);
  CHECK(unknown.out.find("not in the report, which is of 'bundle': 1 function") != std::string::npos);
  // Nor where the report says nothing of a convolution.
  less = saved;
  Json& operations = less["functions"][0]["operations"];
  for (size_t i = 0; i < operations.size(); ++i)
    if (operations[i]["type"] == "conv") {
      operations.erase(i);
      break;
    }
  place.folder.write("less.json", less.dump());
  const Outcome silent =
      anemone_command({"check", place.bundle, "--compare", (place.folder / "less.json").string()});
  CHECK(silent.status == 1);
  CHECK(silent.out.find(" (the report says nothing of 1)\n") != std::string::npos);
  less["compute_units"] = "quantum";
  place.folder.write("less.json", less.dump());
  check_refused(anemone_command({"check", place.bundle, "--compare", (place.folder / "less.json").string()}),
                {"less.json", "'quantum'"});
}
