// Numbers as Python reads and prints them.
//     float_repr(0.1) == "0.1"; float_repr(1e16) == "1e+16"; float_repr(2.0) == "2.0";
//     parse_double("1e3") == 1000.0;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anemone::jinja {

std::string float_repr(double d);

// All of the text, in C's notation; "inf" and "nan" included.
std::optional<double> parse_double(std::string_view text);

// What int(text, base) and float(text) accept: blanks around it, a sign, underscores between digits.
std::optional<int64_t> parse_python_int(std::string_view text, int base);
std::optional<double> parse_python_float(std::string_view text);

// round(d, digits), half to even on the exact decimal value.
double round_decimal(double d, int64_t digits);

}  // namespace anemone::jinja
