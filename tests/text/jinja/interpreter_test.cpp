#include <doctest/doctest.h>

#include "support/data.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

// 2026-11-15 02:31:04, a Sunday: what make_jinja_cases.py fixes strftime_now at.
std::tm fixed_time() {
  std::tm t{};
  t.tm_year = 126, t.tm_mon = 10, t.tm_mday = 15, t.tm_hour = 2, t.tm_min = 31, t.tm_sec = 4;
  t.tm_wday = 0, t.tm_yday = 318;
  return t;
}

std::string render(const std::string& source, const jinja::Limits& limits = {}) {
  ChatInput in;
  in.clock = fixed_time;
  in.limits = limits;
  return ChatTemplate(source).render(in);
}

std::string error_of(const std::string& source, const jinja::Limits& limits = {}) {
  try {
    return "rendered: " + render(source, limits);
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("snippets render as jinja2 renders them") {
  const char* other = std::getenv("ANEMONE_JINJA_CASES");  // more snippets, made by the same script
  std::ifstream file(other ? std::filesystem::path(other) : source_dir() / "tests/data/jinja_cases.json");
  REQUIRE(file.good());
  const Json cases = Json::parse(file);
  ChatInput in;
  in.clock = fixed_time;
  for (const auto& [name, value] : cases["context"].items())
    in.extra.emplace_back(name, jinja::from_json(value));
  for (const Json& c : cases["cases"]) {
    const auto source = c["template"].get<std::string>();
    CAPTURE(source);
    std::string ours, error;
    try {
      ours = ChatTemplate(source).render(in);
    } catch (const Error& e) {
      error = e.message();
    }
    if (c.contains("out")) {
      CHECK_MESSAGE(error.empty(), error);
      CHECK(ours == c["out"].get<std::string>());
    } else {
      CHECK_MESSAGE(!error.empty(), "rendered '" << ours << "', wanted " << c["error"]);
      const auto wanted = c["error"].get<std::string>();
      if (wanted.starts_with("TemplateError: ")) CHECK("TemplateError: " + error == wanted);
    }
  }
}

TEST_CASE("errors name the template's line") {
  CHECK(error_of("a\n{% if %}") ==
        "template line 2: syntax error; found the end of the statement, expected an expression");
  CHECK(error_of("a\n\n{{ x.y }}") == "template line 3: 'x' is undefined");
  CHECK(error_of("{% include 'x' %}").find("template line 1: 'include' is not possible") == 0);
  CHECK(error_of("{% for x in y %}\n").find("template line 1") == 0);
  CHECK(error_of("\n{{ 'abc }}").find("template line 2: the string is not closed") == 0);
  CHECK(error_of("{% set x = [] %}\n{{ x.append(1) }}") ==
        "template line 2: access to attribute 'append' of 'list' object is unsafe");
}

TEST_CASE("a template cannot run, grow or nest without bound") {
  const auto hits = [](const std::string& source, const std::string& limit) {
    const std::string e = error_of(source);
    const bool named = e.find("limit") != std::string::npos && e.find(limit) != std::string::npos;
    CHECK_MESSAGE(named, source.substr(0, 100) << " → " << e.substr(0, 200));
  };
  hits("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", "steps");
  hits("{{ 'x' * 100000000000 }}", "bytes of one value");
  hits("{{ [1] * 1000000000 }}", "bytes of one value");
  hits("{{ range(1000000) }}", "length of a range");
  hits("{{ '%1000000000d' % 1 }}", "bytes of one value");
  hits("{{ '{:1000000000}'.format(1) }}", "bytes of one value");
  hits("{{ 'a'.ljust(10000000000) }}", "bytes of one value");
  hits("{{ 'a'.zfill(10000000000) }}", "bytes of one value");
  hits("{{ 'a' | indent(10000000000, true) }}", "bytes of one value");
  hits("{{ [] | tojson(indent=10000000000) }}", "bytes of one value");
  hits("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth");
  hits("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recursion depth");
  hits("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "recursion depth");
  hits("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "value nesting");
  hits("{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
       "bytes of one value");
  hits(
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x }}",
      "bytes of one value");
  hits(
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "steps");
  hits("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ x }}{% endfor %}", "bytes of output");
  hits("{{ " + std::string(100000, '(') + std::string(100000, ')') + " }}", "syntax nesting");
  hits("{{ " + std::string(100000, '[') + std::string(100000, ']') + " }}", "syntax nesting");
  hits("{{ " + std::string(100000, '-') + "1 }}", "syntax nesting");
  std::string chain = "{{ a", blocks;
  for (int i = 0; i < 100000; ++i) chain += ".b", blocks += "{% if x %}";
  hits(chain + " }}", "expression depth");
  hits(blocks, "syntax nesting");
}

TEST_CASE("a limit can be set for one rendering") {
  CHECK(error_of("{{ 'x' * 100 }}", {.value_bytes = 99}) ==
        "template line 1: the template hit the limit on bytes of one value (99); the template does not end, "
        "or asks for "
        "too much");
}
