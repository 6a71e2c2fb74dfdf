#include "base/json_problem.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace anemone {

TEST_CASE("what is wrong with JSON is said without the words of the library that reads it") {
  const auto problem = [](const std::string& text) {
    try {
      const auto j = nlohmann::json::parse(text);
      (void)j.at("role").get<std::string>();
    } catch (const std::exception& e) {
      return json_problem(e, text);
    }
    return std::string("nothing");
  };
  CHECK(problem("{\"a\": 1,\n  oops}") == "no valid JSON at line 2, column 3");
  CHECK(problem(" \n") == "nothing");
  CHECK(problem("{}") == "no key 'role'");
  CHECK(problem("{\"role\": 7}") == "a value of type number where string is needed");
  CHECK(problem("[1]").find("exception") == std::string::npos);
  CHECK(problem("[1]") == "a value of another kind than is needed");
}

TEST_CASE("broken JSON is said alike everywhere, with line and column") {
  CHECK(std::string(invalid_json("{\"a\": 1,\n  oops}").what()) == "is not valid JSON: line 2, column 3");
  CHECK(std::string(invalid_json("{\n\"a\": [1, 2\n").what()) == "is not valid JSON: line 3, column 1");
  CHECK(std::string(invalid_json(" \n").what()) == "is not valid JSON: it is empty");
  CHECK(std::string(invalid_json("{}").what()) == "is not valid JSON");
  const auto error = [](const std::string& text) {
    try {
      (void)nlohmann::json::parse(text).at("role").get<std::string>();
    } catch (const std::exception& e) {
      return std::string(json_error(e, text, "is not a message").what());
    }
    return std::string();
  };
  CHECK(error("{") == "is not valid JSON: line 1, column 2");
  CHECK(error("{}") == "is not a message; found no key 'role'");
}

}  // namespace anemone
