// Standard output of every verb: nothing is lost silently, --json is JSON, and --quiet leaves the verdict.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "e2e/calls.h"
#include "e2e/command.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// Of chat with a question piped in.
std::string line(const std::string& verb, const std::vector<std::string>& arguments) {
  std::string out = (verb == "chat" ? "echo Once | " : "") + quoted(ANEMONE_BINARY) + " " + verb;
  for (const std::string& argument : arguments) out += " " + quoted(argument);
  return out;
}

// The verbs that end by themselves and work on every system: not those that serve, or ask Core ML.
std::vector<std::string> ending_verbs() {
  std::vector<std::string> out = verbs();
  std::erase_if(out, [](const std::string& verb) { return verb == "serve" || verb == "warm"; });
  return out;
}

// Outputs of an earlier call go.
void tidy(const Calls& calls) {
  for (const auto& entry : std::filesystem::directory_iterator(calls.folder().path()))
    if (entry.path().filename().string().starts_with("new")) std::filesystem::remove_all(entry.path());
}

}  // namespace

TEST_CASE("every verb says that standard output could not be written, and ends with status 2") {
  const Calls calls;
  for (const std::string& verb : ending_verbs()) {
    CAPTURE(verb);
    REQUIRE(calls.all().contains(verb));
    const std::vector<std::string>& arguments = calls.all().at(verb);
    tidy(calls);
    const Outcome works = shell(line(verb, arguments));
    CHECK_MESSAGE(works.status <= 1, works.err);
    CHECK(works.out != "");
    for (const std::string target : {"> /dev/full", ">&-"}) {
      CAPTURE(target);
      tidy(calls);
      const Outcome full = shell(line(verb, arguments) + " " + target);
      CHECK(full.status == 2);
      const size_t said = full.err.find("error: standard output cannot be written");
      CHECK_MESSAGE(said != std::string::npos, full.err);
      CHECK_MESSAGE(full.err.find("error:", said + 1) == std::string::npos, full.err);  // once
      if (target == "> /dev/full")
        CHECK_MESSAGE(full.err.find("cannot be written: No space left on device") != std::string::npos,
                      full.err);
      const Outcome help = shell(line(verb, {"--help"}) + " " + target);
      CHECK(help.status == 2);
      CHECK(help.err.starts_with("error: standard output cannot be written"));
    }
  }
  for (const char* flag : {"--help", "--version"})
    CHECK(shell(quoted(ANEMONE_BINARY) + " " + flag + " > /dev/full").status == 2);
}

TEST_CASE("a reader that has enough ends the command quietly, as other programs do") {
  const Calls calls;
  // More than a pipe holds, so that the write happens when nobody reads.
  const std::string many =
      line("run", {calls.path("demo"), "Once", "--max-new", "100000", "--ignore-eos", "--slide"});
  const Outcome cut =
      shell("{ " + many + "; echo $? > " + quoted(calls.path("status")) + "; } | head -c 5 > /dev/null");
  CHECK(cut.err == "");
  CHECK(slurp(calls.folder() / "status") == "141\n");
  const Outcome list =
      shell(line("inspect", {calls.path("demo/layers_00.mlpackage"), "--mil"}) + " | head -1");
  CHECK(list.err == "");
  CHECK(std::count(list.out.begin(), list.out.end(), '\n') == 1);
  // Also where whoever started it ignores the signal.
  const Outcome ignoring =
      shell("trap '' PIPE; " + line("inspect", {calls.path("demo/layers_00.mlpackage"), "--mil"}) +
            " | head -1 > /dev/null");
  CHECK(ignoring.err == "");
}

TEST_CASE("--json of every verb is JSON, and no notes stand in it") {
  const Calls calls;
  for (const std::string& verb : ending_verbs()) {
    CAPTURE(verb);
    REQUIRE(calls.all().contains(verb));
    std::vector<std::string> arguments = calls.all().at(verb);
    arguments.push_back("--json");
    tidy(calls);
    const Outcome outcome = shell(line(verb, arguments));
    CHECK_MESSAGE(outcome.status <= 1, outcome.err);
    if (Json::accept(outcome.out)) continue;
    std::istringstream lines(outcome.out);  // or one a line
    int count = 0;
    for (std::string one; std::getline(lines, one); ++count) CHECK_MESSAGE(Json::accept(one), one);
    CHECK(count > 0);
  }
}

TEST_CASE("--quiet leaves the verdict of a verb that judges, and one line of a plan") {
  const Calls calls;
  const auto quiet = [&](std::vector<std::string> arguments) {
    arguments.push_back("--quiet");
    return anemone_command(arguments);
  };
  const Outcome check = quiet({"check", calls.path("demo")});
  CHECK(check.out.starts_with("clean: "));
  CHECK(std::count(check.out.begin(), check.out.end(), '\n') == 1);
  const Outcome plan = quiet({"plan", calls.path("demo.gguf")});
  CHECK(plan.out.find("tok/s predicted for M4 at context ") != std::string::npos);
  CHECK(std::count(plan.out.begin(), plan.out.end(), '\n') == 1);
  const Outcome verify =
      quiet({"verify", calls.path("demo"), "--source", calls.path("demo.gguf"), "--steps", "2"});
  CHECK(verify.out.starts_with("PASSED"));
  CHECK(quiet({"doctor", "--bundle", calls.path("demo")}).out != "");
}

TEST_CASE("a file that is no conversation is refused in our words, not in those of the template") {
  const Calls calls;
  for (const auto& [text, found] :
       {std::pair(R"({"role": "user"})", "a value of type object"),
        std::pair(R"([{"content": 3}])", "no key 'role' in message 1"),
        std::pair(R"([{"role": "user", "content": 3}])", "a content of type number in message 1"),
        std::pair(R"([{"role": "user"}])", "no key 'content' in message 1"),
        std::pair("[1]", "a value of type number")})
    check_refused(anemone_command({"template", calls.path("words"), "--messages",
                                   calls.folder().write("bad.json", text).string()}),
                  {"bad.json: is not a conversation; found ", found,
                   "expected a JSON list of {\"role\", \"content\"}"});
  check_refused(anemone_command({"template", calls.path("words"), "--messages",
                                 calls.folder().write("broken.json", "[\n{,").string()}),
                {"broken.json: is not valid JSON: line 2, column 2"});
}

TEST_CASE("a template and logits answer in JSON") {
  const Calls calls;
  const Outcome text =
      anemone_command({"template", calls.path("words"), "--messages", calls.path("chat.json"), "--json"});
  CHECK(Json::parse(text.out) == Json{{"text", "Hello"}});
  const Outcome logits = anemone_command(
      {"logits", calls.path("demo"), "--ids", calls.path("ids.npy"), "-o", calls.path("new.npy"), "--json"});
  const Json said = Json::parse(logits.out);
  CHECK(said.at("shape") == Json{4, 2048});
  CHECK(said.at("tokens") == 4);
  CHECK(said.at("vocabulary") == 2048);
}
