#include "e2e/command.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include "support/data.h"

#include <algorithm>
#include <cstdlib>

#include "support/temp_folder.h"

namespace anemone::e2e {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Outcome shell(const std::string& line) {
  const TempFolder folder;
  const std::string streams =
      " >" + quoted((folder / "out").string()) + " 2>" + quoted((folder / "err").string()) + " </dev/null";
  const int status = std::system(("{ " + line + "\n}" + streams).c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  outcome.out = slurp(folder / "out");
  outcome.err = slurp(folder / "err");
  return outcome;
}

Outcome anemone_command(const std::vector<std::string>& arguments) {
  std::string line = quoted(ANEMONE_BINARY);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  return shell(line);
}

void check_refused(const Outcome& outcome, const std::vector<std::string>& must_say) {
  CAPTURE(outcome.err);
  CHECK(outcome.status == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.starts_with("error: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  for (const std::string& text : must_say) CHECK_MESSAGE(outcome.err.find(text) != std::string::npos, text);
}

std::filesystem::path recall_package() { return source_dir() / "examples/recall/recall.mlpackage"; }

std::vector<std::filesystem::path> recall_steps() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(recall_package().parent_path() / "steps"))
    out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace anemone::e2e
