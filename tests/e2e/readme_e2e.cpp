// The README shows what really happens: its commands are run and must print what it prints.
#include <doctest/doctest.h>

#include "support/data.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "e2e/command.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

struct Session {
  std::string command;
  std::vector<std::string> lines;
};

// "    $ command", "    > its next line", then what it prints, up to the end of the indented block.
std::vector<Session> sessions(const std::string& text) {
  std::vector<Session> out;
  bool inside = false;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("    $ ")) {
      out.push_back({line.substr(6), {}});
      inside = true;
    } else if (inside && line.starts_with("    > ")) {
      out.back().command += "\n" + line.substr(6);
    } else if (inside && (line.empty() || line.starts_with("    "))) {
      out.back().lines.push_back(line.empty() ? "" : line.substr(4));
    } else {
      inside = false;
    }
  }
  for (Session& s : out)
    while (!s.lines.empty() && s.lines.back().empty()) s.lines.pop_back();
  return out;
}

// Word by word; numbers may differ as sums in another order do: logits reach 8, and 64 products are added.
bool alike(const std::string& shown, const std::string& printed) {
  std::istringstream a(shown), b(printed);
  for (std::string x, y;;) {
    const bool more_x = static_cast<bool>(a >> x), more_y = static_cast<bool>(b >> y);
    if (more_x != more_y) return false;
    if (!more_x) return true;
    char *end_x = nullptr, *end_y = nullptr;
    const double p = std::strtod(x.c_str(), &end_x), q = std::strtod(y.c_str(), &end_y);
    if (x != y && (end_x == x.c_str() || std::string(end_x) != end_y || std::abs(p - q) > 1e-4)) return false;
  }
}

}  // namespace

TEST_CASE("the README's commands print what it shows") {
  const TempFolder folder;
  const std::filesystem::path source = source_dir();
  std::filesystem::create_directory_symlink(source / "examples", folder / "examples");
  std::filesystem::create_directories(folder / "build/release");
  std::filesystem::create_symlink(ANEMONE_BINARY, folder / "build/release/anemone");
  const auto all = sessions(slurp(source / "README.md"));
  CHECK(all.size() >= 3);
  for (const Session& session : all) {
    CAPTURE(session.command);
    const Outcome outcome = shell("cd '" + folder.path().string() + "'\n" + session.command);
    std::istringstream printed(outcome.out + outcome.err);
    for (const std::string& shown : session.lines) {
      if (shown == "…") break;
      std::string line;
      CHECK_MESSAGE(std::getline(printed, line), "nothing more is printed; shown: " << shown);
      CHECK_MESSAGE(alike(shown, line), "shown:   " << shown << "\nprinted: " << line);
    }
  }
}
