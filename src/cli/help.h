// The texts of --help: all verbs by purpose, or one verb with its arguments, flags by purpose and examples.
//     std::fputs(help_text(*find_command("run"), inks).c_str(), stdout);
#pragma once

#include <string>

#include "cli/command.h"

namespace anemone::cli {

// Lines of at most 100 columns, counted as characters and not as bytes.
std::string help_text(const Inks& inks);
std::string help_text(const Command& command, const Inks& inks);

}  // namespace anemone::cli
