// The names of the arithmetics, in one place: for flags, reports and messages.
//     arithmetic_name(Arithmetic::fp16)            // "fp16"
//     parse_arithmetic("fp16")
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anemone/predictor.h"

namespace anemone {

const char* arithmetic_name(Arithmetic arithmetic);
// Error, with the names that there are, for another one.
Arithmetic parse_arithmetic(std::string_view name);
// All of them, the default first.
std::vector<std::string> arithmetic_names();

}  // namespace anemone
