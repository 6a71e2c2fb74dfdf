// What was meant by a word that is not known: a name near it, or what another program's flag is called here.
//     throw unknown_flag("run", options, "--temprature");     // did you mean '--temperature'?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anemone/error.h"
#include "cli/options.h"

namespace anemone::cli {

// "'anemone run --help' shows what there is"; without a verb that of all.
std::string help_hint(std::string_view verb);

// What a flag of llama.cpp, transformers or coremltools is here, for a verb; empty for one that is none.
std::string other_program_hint(std::string_view verb, std::string_view flag);

Error unknown_verb(const std::string& name);
Error unknown_flag(std::string_view verb, const Options& options, const std::string& name);

}  // namespace anemone::cli
