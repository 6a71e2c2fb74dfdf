// Models by name, from a hub of our own on 127.0.0.1.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "e2e/command.h"
#include "support/data.h"
#include "support/loopback_hub.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::e2e;
using anemone::test::LoopbackHub;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A hub with the demo model, and calls of the command that know no other.
struct Hub {
  LoopbackHub hub;
  TempFolder folder;
  std::string demo = slurp(source_dir() / "examples/demo_model/demo.gguf");

  Hub() { hub.add("tiny/demo", "demo.gguf", demo, LoopbackHub::large); }

  std::string environment() const {
    return "cd '" + folder.path().string() + "' && export HF_ENDPOINT=" + hub.endpoint() + " HF_HOME='" +
           folder.path().string() + "/hf' XDG_CACHE_HOME='" + folder.path().string() +
           "/cache' && unset HF_TOKEN HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE; ";
  }
  Outcome call(const std::string& arguments) const {
    return shell(environment() + "'" ANEMONE_BINARY "' " + arguments);
  }
  fs::path repo() const { return folder / "hf/hub/models--tiny--demo"; }
};

std::string line(const Outcome& o) { return o.out.substr(0, o.out.find('\n')); }

}  // namespace

TEST_CASE("fetch downloads a model and prints where it is, and nothing else") {
  Hub h;
  const Outcome first = h.call("fetch tiny/demo");
  CHECK(first.status == 0);
  CHECK(first.err == "");
  CHECK(first.out == line(first) + "\n");
  CHECK(slurp(line(first)) == h.demo);
  h.hub.forget();
  const Outcome json = h.call("fetch tiny/demo/demo.gguf --json");
  const Json said = Json::parse(json.out);
  CHECK(said["path"] == line(first));
  CHECK(said["repository"] == "tiny/demo");
  CHECK(said["commit"] == h.hub.commit("tiny/demo"));
  CHECK(said["files"] == Json::parse(R"([{"name": "demo.gguf", "bytes": )" + std::to_string(h.demo.size()) +
                                     R"(, "downloaded": false}])"));
  const Outcome copied = h.call("fetch tiny/demo --output mine --offline");
  CHECK(copied.out == "mine/demo.gguf\n");
  CHECK(slurp(h.folder / "mine/demo.gguf") == h.demo);
  CHECK(!fs::is_symlink(h.folder / "mine/demo.gguf"));
  check_refused(h.call("fetch tiny/demo --output mine"), {"mine: is there already"});
  check_refused(h.call("fetch nothing-here"), {"there is no such file or folder"});
  CHECK(h.hub.seen().size() == 1);
}

TEST_CASE("hf: names a model of the hub in every verb, also where a folder is called like its owner") {
  Hub h;
  fs::create_directories(h.folder / "tiny");
  check_refused(h.call("fetch tiny/demo"), {"a folder 'tiny' exists here; for the hub write hf:tiny/demo"});
  const Outcome made = h.call("convert hf:tiny/demo --context 64 --tokens 1");
  CHECK_MESSAGE(made.status == 0, made.err);
  CHECK(made.out.find("\ndemo written in ") != std::string::npos);
  CHECK(made.out.find("--source hf:tiny/demo/demo.gguf") != std::string::npos);
  spill(h.folder / "text", "Once upon a time there was an octopus.");
  for (const char* call :
       {"fetch hf:tiny/demo", "plan hf:tiny/demo", "inspect hf:tiny/demo", "tokenize hf:tiny/demo Hi",
        "perplexity hf:tiny/demo --text text", "verify demo --source hf:tiny/demo --steps 1 --arith fp32"})
    CHECK_MESSAGE(h.call(call).status == 0, call);
  check_refused(h.call("run hf:tiny/demo Hi"),
                {"run takes what convert writes", "anemone convert hf:tiny/demo -o "});
  check_refused(h.call("fetch hf:tiny/other --offline"),
                {"is not in the cache, and --offline downloads nothing"});
}

TEST_CASE("convert takes the name of a model, and so does verify with the same words") {
  Hub h;
  const Outcome made = h.call("convert tiny/demo -o demo --context 64");
  CHECK_MESSAGE(made.status == 0, made.err);
  CHECK(made.out.find("verify demo --source tiny/demo/demo.gguf") != std::string::npos);
  h.hub.forget();
  CHECK(h.call("verify demo --source tiny/demo/demo.gguf --steps 1 --arith fp32 --offline").status == 0);
  CHECK(h.hub.seen().empty());
  check_refused(h.call("run tiny/demo Hello"),
                {"run takes what convert writes", "anemone convert tiny/demo -o"});
  check_refused(h.call("convert demo.gguf -o x --revision v1"), {"--revision is for models of the hub"});
}

TEST_CASE("planning reads config.json alone, and a bundle is called by the model's name, not by a commit") {
  Hub h;
  test::TinyEncoder("BertForSequenceClassification", "bert", 4).write(h.folder / "made");
  for (const auto& [name, bytes] : all_files(h.folder / "made"))
    h.hub.add("tiny/encoder", name, bytes, bytes.size() > 2000 ? LoopbackHub::large : LoopbackHub::small);
  const Outcome plan = h.call("plan tiny/encoder");
  CHECK_MESSAGE(plan.status == 0, plan.err);
  CHECK(h.hub.count("GET", "/cdn/") == 0);
  const Outcome made = h.call("convert tiny/encoder -o e --tokens 8 --precision fp16");
  CHECK_MESSAGE(made.status == 0, made.err);
  CHECK(made.out.starts_with("encoder (bert"));
}

TEST_CASE("a download that is ended keeps what came, says so, and goes on the next time") {
  Hub h;
  h.hub.trouble({.at = "/cdn/", .kind = LoopbackHub::stall, .after = 100'000});
  const Outcome stopped =
      shell(h.environment() + "'" ANEMONE_BINARY
                              "' fetch tiny/demo & pid=$!; i=0; "
                              "while [ $i -lt 300 ] && [ -z \"$(find hf -name '*.incomplete' -size "
                              "+90k 2>/dev/null)\" ]; do sleep 0.1; i=$((i+1)); done; "
                              "kill -TERM $pid; wait $pid");
  CHECK(stopped.status == 143);
  CHECK(stopped.err ==
        "download stopped: what came so far is kept, and the same command goes on from there\n");
  CHECK(stopped.out == "");
  h.hub.forget();
  const Outcome again = h.call("fetch tiny/demo");
  CHECK(again.status == 0);
  CHECK(slurp(line(again)) == h.demo);
  bool went_on = false;
  for (const auto& seen : h.hub.seen())
    went_on = went_on || (seen.headers.contains("range") && seen.headers.at("range") == "bytes=100000-");
  CHECK(went_on);
}

TEST_CASE("what cannot be had is one error line that says what to do") {
  Hub h;
  check_refused(h.call("fetch tiny/dmo"), {"did you mean 'tiny/demo'?"});
  check_refused(h.call("fetch tiny/demo/dem.gguf"), {"did you mean 'tiny/demo/demo.gguf'?"});
  check_refused(h.call("fetch tiny/demo --offline"), {"not in the cache", "--offline"});
  check_refused(h.call("fetch tiny/demo@v2"), {"no revision 'v2'"});
  check_refused(h.call("fetch http://example.com/x.gguf"), {"https://"});
  h.hub.gate("tiny/demo", "hf_good");
  check_refused(h.call("convert tiny/demo -o x"), {"accept", h.hub.endpoint() + "/tiny/demo", "HF_TOKEN"});
  CHECK(!fs::exists(h.folder / "x"));
  CHECK(shell(h.environment() + "HF_TOKEN=hf_good '" ANEMONE_BINARY "' fetch tiny/demo").status == 0);
}
