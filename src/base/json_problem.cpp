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

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Keeps nothing but the place of the first fault.
class FaultFinder : public nlohmann::json::json_sax_t {
 public:
  size_t byte = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    byte = at;
    return false;
  }
};

}  // namespace

Error invalid_json(std::string_view text) {
  if (is_blank(text)) return Error("is not valid JSON: it is empty");
  FaultFinder finder;
  if (nlohmann::json::sax_parse(text, &finder)) return Error("is not valid JSON");
  return Error("is not valid JSON: " + place(text, finder.byte));
}

Error json_error(const std::exception& problem, std::string_view text, const std::string& otherwise) {
  if (dynamic_cast<const nlohmann::json::parse_error*>(&problem)) return invalid_json(text);
  return Error(otherwise).found(json_problem(problem, text));
}

std::string json_problem(const std::exception& problem, std::string_view text) {
  if (const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&problem)) {
    if (is_blank(text)) return "nothing";
    return "no valid JSON at " + place(text, parse->byte);
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
