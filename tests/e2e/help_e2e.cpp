// What every verb has in common: help, version, completion, wrong calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

// The verbs, as --help lists them: two spaces, a name, its summary.
std::vector<std::string> verbs() {
  std::istringstream lines(anemone_command({"--help"}).out);
  std::vector<std::string> out;
  bool listing = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Subcommands:")) {
      listing = true;
    } else if (listing && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      out.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (listing) {
      break;
    }
  }
  return out;
}

}  // namespace

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
  for (const std::string& verb : verbs()) {
    CAPTURE(verb);
    std::istringstream lines(anemone_command({verb, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find("--");
      if (!line.starts_with("  -") || at > 5) continue;
      const std::string flag = line.substr(at, line.find_first_of(" ,", at) - at);
      CHECK_MESSAGE(shown(flag), flag);
    }
  }
}

TEST_CASE("the version is the project's") {
  const Outcome version = anemone_command({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out.starts_with("anemone 0."));
}

TEST_CASE("a wrong call is one error line and status 2") {
  check_refused(anemone_command({}), {"--help"});
  check_refused(anemone_command({"frobnicate"}), {"frobnicate"});
  check_refused(anemone_command({"inspct", recall_package()}), {"did you mean 'inspect'?"});
  check_refused(anemone_command({"inspect"}), {"PACKAGE", "'anemone inspect --help'"});
  check_refused(anemone_command({"inspect", recall_package(), "more"}), {"'more' is one argument too many"});
  check_refused(anemone_command({"convert", "--contxt", "5"}), {"'--contxt'", "did you mean '--context'?"});
  check_refused(anemone_command({"run", "a", "b", "--seed", "x"}), {"--seed takes a number; found 'x'"});
  check_refused(anemone_command({"run", "a", "b", "--top-k"}), {"--top-k takes a value"});
  check_refused(anemone_command({"check", "a", "--os", "18", "--os", "17"}),
                {"--os is given more than once"});
  check_refused(anemone_command({"inspect", "--no-such-flag", recall_package()}), {"--no-such-flag"});
  check_refused(anemone_command({"predict", recall_package(), "--arith", "fp8"}),
                {"one of fp32, fp16", "'fp8'"});
  check_refused(anemone_command({"predict", recall_package(), "--threads", "0"}), {"1 to 1024; found 0"});
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
