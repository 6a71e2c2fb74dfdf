// What every verb has in common: help, version, completion, wrong calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "e2e/calls.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

TEST_CASE("the help lists the verbs, and each one's help ends with two examples of it") {
  CHECK(verbs().size() >= 3);
  for (const std::string& verb : verbs()) {
    CAPTURE(verb);
    const Outcome help = anemone_command({verb, "--help"});
    CHECK(help.status == 0);
    CHECK(help.err == "");
    const size_t examples = help.out.find("\nExamples:\n");
    REQUIRE(examples != std::string::npos);
    std::istringstream lines(help.out.substr(examples + 11));
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += line.starts_with("  anemone " + verb + " ");
    CHECK(count == 2);
  }
}

TEST_CASE("the help fits into 100 columns and shows names of values, not choices or ranges") {
  std::vector<std::string> all = verbs();
  all.push_back("--help");
  for (const std::string& verb : all) {
    CAPTURE(verb);
    std::istringstream lines(anemone_command({verb, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      CHECK(columns <= 100);
      CHECK(line.find(":{") == std::string::npos);
      CHECK(line.find(":INT") == std::string::npos);
    }
  }
}

TEST_CASE("every flag of every verb stands in the guide") {
  std::string guide = slurp(source_dir() / "README.md");
  for (const auto& page : files_ending(source_dir() / "docs", ".md")) guide += slurp(page);
  const auto shown = [&](const std::string& flag) {
    for (size_t at = guide.find(flag); at != std::string::npos; at = guide.find(flag, at + 1)) {
      const char next = at + flag.size() < guide.size() ? guide[at + flag.size()] : ' ';
      if (next != '-' && !std::isalnum(static_cast<unsigned char>(next))) return true;
    }
    return false;
  };
  for (const auto& verb : nlohmann::json::parse(anemone_command({"help", "--json"}).out)) {
    CAPTURE(verb["verb"]);
    for (const auto& flag : verb["flags"]) CHECK_MESSAGE(shown(flag["names"].back()), flag["names"].back());
  }
}

TEST_CASE("help says the same as --help, and the flags that matter most are ten at most") {
  CHECK(anemone_command({"help"}).out == anemone_command({"--help"}).out);
  CHECK(anemone_command({"-h"}).out == anemone_command({"--help"}).out);
  for (const std::string& verb : verbs()) {
    CAPTURE(verb);
    const std::string help = anemone_command({"help", verb}).out;
    CHECK(help == anemone_command({verb, "--help"}).out);
    CHECK(help == anemone_command({verb, "-h", "--no-such-flag"}).out);
    CHECK(anemone_command({"--help"}).out.find("\n  " + verb + " ") != std::string::npos);
    std::istringstream lines(help);
    int first = 0;
    bool counting = false;
    for (std::string line; std::getline(lines, line);) {
      if (line == "Flags:")
        counting = true;
      else if (line.empty())
        counting = false;
      else if (counting && line.starts_with("  -"))
        ++first;
    }
    CHECK(first <= 10);
    CHECK(help.find("\nCommon:\n  --json ") != std::string::npos);
  }
  check_refused(anemone_command({"help", "covnert"}), {"did you mean 'convert'?"});
}

TEST_CASE("the version is the project's") {
  const Outcome version = anemone_command({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out.starts_with("anemone 0."));
}

TEST_CASE("a wrong call is one error line and status 2") {
  const Outcome alone = anemone_command({});  // the help, and still no success
  CHECK(alone.status == 2);
  CHECK(alone.out == "");
  CHECK(alone.err == anemone_command({"--help"}).out);
  check_refused(anemone_command({"frobnicate"}), {"frobnicate"});
  check_refused(anemone_command({"inspct", recall_package()}), {"did you mean 'inspect'?"});
  check_refused(anemone_command({"inspect"}), {"MODEL", "'anemone inspect --help'"});
  check_refused(anemone_command({"inspect", recall_package(), "more"}), {"'more' is one argument too many"});
  check_refused(anemone_command({"convert", "--contxt", "5"}), {"'--contxt'", "did you mean '--context'?"});
  check_refused(anemone_command({"run", "a", "b", "--seed", "x"}),
                {"--seed takes a whole number; found 'x'"});
  check_refused(anemone_command({"run", "a", "b", "--seed", "12x"}),
                {"--seed takes a whole number; found '12x'"});
  check_refused(anemone_command({"run", "a", "b", "--seed", "99999999999999999999"}), {"as large as that"});
  check_refused(anemone_command({"run", "a", "b", "--top-p", "half"}),
                {"--top-p takes a number; found 'half'"});
  check_refused(anemone_command({"run", "a", "b", "--top-k"}), {"--top-k takes a value"});
  check_refused(anemone_command({"check", "a", "--os", "18", "--os", "17"}),
                {"--os is given more than once"});
  check_refused(anemone_command({"inspect", "--no-such-flag", recall_package()}), {"--no-such-flag"});
  check_refused(anemone_command({"predict", recall_package(), "--arith", "fp8"}),
                {"one of fp32, fp16", "'fp8'"});
  check_refused(anemone_command({"predict", recall_package(), "--repeat", "0"}), {"--repeat"});
  check_refused(anemone_command({"predict", recall_package(), "--input", "letter"}), {"NAME=FILE"});
}

TEST_CASE("the completion script for bash sources without a word and completes verbs and flags") {
  const Outcome sourced =
      shell(std::string("bash -c 'set -eu; source <(\"$0\" completion bash); COMP_WORDS=(anemone ins); "
                        "COMP_CWORD=1; _anemone; echo \"${COMPREPLY[@]}\"; "
                        "COMP_WORDS=(anemone predict --out); COMP_CWORD=2; _anemone; "
                        "echo \"${COMPREPLY[@]}\"; "
                        "COMP_WORDS=(anemone predict --arith fp); COMP_CWORD=3; _anemone; "
                        "echo \"${COMPREPLY[@]}\"' ") +
            ANEMONE_BINARY);
  CHECK(sourced.err == "");
  CHECK(sourced.out == "inspect\n--outputs\nfp32 fp16\n");
  CHECK(sourced.status == 0);
  const Outcome zsh = anemone_command({"completion", "zsh"});
  CHECK(zsh.out.starts_with("#compdef anemone\n"));
  check_refused(anemone_command({"completion", "tcsh"}), {"tcsh"});
}

TEST_CASE("the completion scripts for fish and zsh complete verbs, flags, values and files") {
  const TempFolder folder;
  folder.write("letter.txt", "");
  if (shell("command -v fish").status == 0) {
    spill(folder / "a.fish", anemone_command({"completion", "fish"}).out);
    const auto completed = [&](const std::string& line) {
      const Outcome said = shell("cd '" + folder.path().string() + "' && HOME='" + folder.path().string() +
                                 "' fish --no-config -c \"source a.fish; complete -C '" + line + "'\"");
      CHECK(said.err == "");
      return said.out;
    };
    CHECK(completed("anemone insp").starts_with("inspect\tShow what"));
    CHECK(completed("anemone predict --outp").starts_with("--outputs\t"));
    CHECK(completed("anemone predict --arith ").starts_with("fast"));
    CHECK(completed("anemone help insp").starts_with("inspect"));
    CHECK(completed("anemone run demo --file let").starts_with("letter.txt"));
    CHECK(completed("anemone run demo --max-new ") == "");
    CHECK(completed("anemone plan run --outp") == "");  // of plan, not of run
  } else {
    MESSAGE("skipped: fish is not installed");
  }
  if (shell("command -v zsh").status == 0)
    CHECK(shell("zsh -fc 'autoload -U compinit && compinit -D; source <(" + std::string(ANEMONE_BINARY) +
                " completion zsh); whence -w _anemone'")
              .out == "_anemone: function\n");
  else
    MESSAGE("skipped: zsh is not installed");
}
