// json_problem: what is wrong with a JSON text, in our words and not in those of the library that reads it.
//     catch (const nlohmann::json::exception& e) { throw Error("is not a recipe").found(json_problem(e, text)); }
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace anemone {

// "no JSON at line 3, column 7", "no key 'role'", "a number where a string is needed".
// `problem` is an exception of nlohmann's; it is not named here so that few files have to read its headers.
std::string json_problem(const std::exception& problem, std::string_view text);

}  // namespace anemone
