#include "serve/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace anemone::serve {
namespace {

constexpr int kMostNesting = 200;
// Each key of an object is looked for among those before it: one object of 20,000 members, or many small ones.
constexpr size_t kMostSearches = 200'000'000;

// Watches a parser: what nests too deep, or has objects of too many members, is not read to its end.
class Bounds {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json&) {
    if (depth > kMostNesting) throw ApiError(400, "the body nests too deep");
    if (event == Json::parse_event_t::object_start) keys_.push_back(0);
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && (searches_ += keys_.back()++) > kMostSearches)
      throw ApiError(400, "the body has objects with too many members");
    return true;
  }

 private:
  std::vector<size_t> keys_;  // of the objects that are open
  size_t searches_ = 0;
};

[[noreturn]] void wrong(const char* name, const std::string& expected) {
  throw ApiError(400, fmt::format("'{}' must be {}", name, expected), name);
}

}  // namespace

Json parse_body(const std::string& text) {
  Bounds bounds;
  try {
    return Json::parse(text, std::ref(bounds));
  } catch (const Json::parse_error& e) {
    throw ApiError(400, fmt::format("the body is not valid JSON: byte {}", e.byte));
  } catch (const Json::exception&) {
    throw ApiError(400, "the body has a number that is out of range");
  }
}

std::optional<Json> parse_inner(std::string_view text) {
  Bounds bounds;
  try {
    Json out = Json::parse(text, std::ref(bounds), false);
    return out.is_discarded() ? std::nullopt : std::optional(std::move(out));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const ApiError&) {
    return std::nullopt;
  }
}

Fields::Fields(const Json& body) : body_(body) {
  if (!body.is_object()) throw ApiError(400, "the body must be a JSON object");
}

const Json* Fields::find(const char* name) const {
  const auto at = body_.find(name);
  return at == body_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<double> Fields::number(const char* name, double least, double most) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const double v = value->is_number() ? value->get<double>() : NAN;
  if (!(v >= least && v <= most)) wrong(name, fmt::format("a number from {} to {}", least, most));
  return v;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t least, int64_t most) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const bool whole = value->is_number_integer() ||
                     (value->is_number_float() && std::floor(value->get<double>()) == value->get<double>() &&
                      std::abs(value->get<double>()) < 1e15);
  const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  const int64_t v = whole && !huge ? value->get<int64_t>() : 0;
  if (!whole || huge || v < least || v > most)
    wrong(name, fmt::format("a whole number from {} to {}", least, most));
  return v;
}

std::optional<bool> Fields::flag(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong(name, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) wrong(name, "a text");
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const char* name) const {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) wrong(name, "a text or a list of texts");
  std::vector<std::string> out;
  for (const Json& item : *value) {
    if (!item.is_string()) wrong(name, "a text or a list of texts");
    out.push_back(item.get<std::string>());
  }
  return out;
}

void Fields::refuse(const char* name, const std::string& why) const {
  const Json* value = find(name);
  if (!value || (value->is_boolean() && !value->get<bool>()) || (value->is_array() && value->empty())) return;
  throw ApiError(400, fmt::format("'{}' is not supported: {}", name, why), name);
}

}  // namespace anemone::serve
