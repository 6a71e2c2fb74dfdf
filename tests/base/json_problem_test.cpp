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
  CHECK(problem("{\"a\": 1,\n  oops}") == "no JSON at line 2, column 3");
  CHECK(problem(" \n") == "nothing");
  CHECK(problem("{}") == "no key 'role'");
  CHECK(problem("{\"role\": 7}") == "a value of type number where string is needed");
  CHECK(problem("[1]").find("exception") == std::string::npos);
  CHECK(problem("[1]") == "a value of another kind than is needed");
}

}  // namespace anemone
