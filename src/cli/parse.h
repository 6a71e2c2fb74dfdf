// Reads a verb's part of the command line into the targets of its options, as people know it from other programs:
//     --flag value, --flag=value, -o value, -ovalue; -- ends the flags; - is an argument.
//     parse_arguments("run", options, {"demo", "--max-new", "20", "--", "-5 degrees"});
// What begins with - and cannot be the name of a flag (a number, a text with spaces) is an argument as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace anemone::cli {

// Error, in one line with what was meant perhaps, for a call that does not fit the options.
void parse_arguments(std::string_view verb, const Options& options, std::span<const std::string> arguments);

// Whether -h or --help stands among the flags.
bool asks_for_help(std::span<const std::string> arguments);

}  // namespace anemone::cli
