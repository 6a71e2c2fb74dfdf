// JSON of strangers: read within bounds.
#include "serve/fields.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

using namespace anemone::serve;

namespace {

std::string object_of(int members) {
  std::string out = "{";
  for (int i = 0; i < members; ++i) out += fmt::format("{}\"k{}\":0", i ? "," : "", i);
  return out + "}";
}

std::string refusal(const std::string& body) {
  try {
    parse_body(body);
    return "";
  } catch (const ApiError& e) {
    CHECK(e.status() == 400);
    return e.what();
  }
}

}  // namespace

TEST_CASE("a body that nests too deep or has far too many members is refused soon") {
  CHECK(refusal(object_of(5000)) == "");
  CHECK(refusal(std::string(190, '[') + std::string(190, ']')) == "");
  CHECK(refusal("[" + object_of(3) + "," + object_of(3) + "]") == "");
  const auto start = std::chrono::steady_clock::now();
  CHECK(refusal(object_of(500'000)).find("too many members") != std::string::npos);
  CHECK(refusal(std::string(1'000'000, '[')).find("too deep") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(refusal("{\"a\": ").find("not valid JSON") != std::string::npos);
}

TEST_CASE("JSON inside of a text has the same bounds, and what is no JSON is nothing") {
  CHECK(parse_inner(R"({"a": [1]})") == Json{{"a", {1}}});
  CHECK(!parse_inner("{\"a\": "));
  CHECK(!parse_inner(std::string(1000, '[') + std::string(1000, ']')));
  CHECK(!parse_inner(object_of(200'000)));
}
