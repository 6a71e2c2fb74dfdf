#include "cli/ink.h"

#include <unistd.h>

#include <cstdlib>

namespace anemone::cli {
namespace {

// The colors of the terminal's own palette, so that they fit light and dark ones.
const char* code(Ink ink) {
  switch (ink) {
    case Ink::bad: return "1;31";
    case Ink::doubtful: return "33";
    case Ink::good: return "1;32";
    case Ink::advice: return "36";
    case Ink::heading: return "1";
    case Ink::faint: return "2";
  }
  return "0";
}

// What a line of a report begins with, and how much of it is colored.
struct Mark {
  std::string_view start;
  Ink ink;
  size_t from;      // bytes that stay as they are
  bool whole_line;  // or the start alone
};

constexpr Mark kMarks[] = {
    {"  ✓ ", Ink::good, 2, false},  // verify's rungs
    {"  ✗ ", Ink::bad, 2, false},
    {"  ! ", Ink::doubtful, 2, false},
    {"PASSED", Ink::good, 0, false},
    {"FAILED", Ink::bad, 0, false},
    {"WARNING", Ink::doubtful, 0, false},
    {"errors", Ink::bad, 0, true},  // check's findings
    {"warnings", Ink::doubtful, 0, true},
    {"hints", Ink::advice, 0, true},
    {"         do: ", Ink::advice, 9, false},
    {"clean:", Ink::good, 0, false},
    {"passed:", Ink::good, 0, false},
    {"failed:", Ink::bad, 0, false},
    {"  ok   ", Ink::good, 2, false},  // doctor's list
    {"  bad  ", Ink::bad, 2, false},
    {"  try      ", Ink::advice, 2, false},
    {"note:", Ink::doubtful, 0, false},
    {"warning ", Ink::doubtful, 0, false},
};

}  // namespace

std::string Inks::operator()(Ink ink, std::string_view text) const {
  if (!on || text.empty()) return std::string(text);
  return std::string("\x1b[") + code(ink) + "m" + std::string(text) + "\x1b[0m";
}

std::string Inks::painted(const std::string& report) const {
  if (!on) return report;
  std::string out;
  for (size_t at = 0; at < report.size();) {
    const size_t end = std::min(report.find('\n', at), report.size() - 1);
    const std::string_view line = std::string_view(report).substr(at, end + 1 - at);
    const std::string_view words = line.ends_with('\n') ? line.substr(0, line.size() - 1) : line;
    size_t done = 0;
    for (const Mark& mark : kMarks)
      if (mark.whole_line ? words == mark.start : words.starts_with(mark.start)) {
        const size_t last = mark.start.find_last_not_of(' ') + 1;
        out += std::string(line.substr(0, mark.from)) +
               (*this)(mark.ink, line.substr(mark.from, last - mark.from));
        done = last;
        break;
      }
    out += line.substr(done);
    at = end + 1;
  }
  return out;
}

Inks choose_inks(const std::string& when, int descriptor) {
  if (when != "auto") return {when == "always"};
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool dumb = !terminal || std::string_view(terminal) == "dumb";
  return {::isatty(descriptor) && !dumb && !(no_color && *no_color)};
}

}  // namespace anemone::cli
