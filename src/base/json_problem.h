// json_problem: what is wrong with a JSON text, in our words and not in those of the library that reads it.
//     catch (const nlohmann::json::exception& e) { throw json_error(e, text, "is not a recipe").at(path); }
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "anemone/error.h"

namespace anemone {

// "is not valid JSON: line 3, column 7": of every file alike. Reads the text again to find the place.
Error invalid_json(std::string_view text);

// The same for a text that could not be parsed; for other problems `otherwise`, with json_problem() as what was found.
Error json_error(const std::exception& problem, std::string_view text, const std::string& otherwise);

// "no key 'role'", "a number where a string is needed", "no valid JSON at line 3, column 7".
// `problem` is an exception of nlohmann's; it is not named here so that few files have to read its headers.
std::string json_problem(const std::exception& problem, std::string_view text);

}  // namespace anemone
