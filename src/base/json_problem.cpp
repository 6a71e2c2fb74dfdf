#include "base/json_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace anemone {
namespace {

// The numbers that the library gives its exceptions; its manual lists them.
constexpr int kWrongType = 302, kNoKey = 403, kNumberTooLarge = 406;

std::string place(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // 0 in the first line
  return fmt::format("line {}, column {}", line, before.size() - start + 1);
}

std::string between(const std::string& text, std::string_view left, std::string_view right) {
  const size_t from = text.find(left), begin = from + left.size();
  if (from == std::string::npos) return "";
  return text.substr(begin, text.find(right, begin) - begin);
}

}  // namespace

std::string json_problem(const std::exception& problem, std::string_view text) {
  if (const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&problem)) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "nothing";
    return "no JSON at " + place(text, parse->byte);
  }
  const std::string said = problem.what();
  const auto* known = dynamic_cast<const nlohmann::json::exception*>(&problem);
  const int id = known ? known->id : 0;
  if (id == kNoKey) return fmt::format("no key '{}'", between(said, "key '", "'"));
  if (id == kNumberTooLarge) return "a number that is too large";
  const std::string needed = between(said, "must be ", ","), is = between(said, "but is ", "\n");
  if (id == kWrongType && !needed.empty() && !is.empty())
    return fmt::format("a value of type {} where {} is needed", is, needed);
  return "a value of another kind than is needed";
}

}  // namespace anemone
