// Inks: colors on a terminal, so that errors, advice and verdicts are told apart at a glance.
//     const Inks inks = choose_inks("auto", STDERR_FILENO);
//     fmt::print(stderr, "{} {}\n", inks(Ink::note, "note:"), text);
// Only cli/ knows of them: the library's reports are plain text, and painted() colors what stands at known places.
#pragma once

#include <string>
#include <string_view>

namespace anemone::cli {

enum class Ink { bad, doubtful, good, advice, heading, faint };

struct Inks {
  bool on = false;

  std::string operator()(Ink ink, std::string_view text) const;
  // A report for people with its verdicts, headings and advice in color.
  std::string painted(const std::string& report) const;
};

// `when`: always, never, or auto: on a terminal that is not dumb, unless NO_COLOR is set (no-color.org).
Inks choose_inks(const std::string& when, int descriptor);

}  // namespace anemone::cli
