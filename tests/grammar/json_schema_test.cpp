// JSON Schema: every text that its grammar takes is valid JSON of that schema; what cannot be promised is refused by
// name. The expected values follow the JSON Schema specification, worked out by hand.
#include "grammar/json_schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammar/automaton.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

bool follows(const Grammar& grammar, std::string_view text) {
  GrammarAutomaton automaton(std::make_shared<const Grammar>(grammar));
  int32_t state = automaton.start();
  for (const char c : text) state = automaton.next(state, static_cast<uint8_t>(c));
  return automaton.accepts(state);
}

struct SchemaCase {
  const char* schema;
  std::vector<std::string> in, out;
};

void check_all(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    CAPTURE(c.schema);
    const Grammar grammar = schema_grammar(Json::parse(c.schema));
    for (const std::string& text : c.in) {
      CHECK_MESSAGE(follows(grammar, text), text);
      CHECK(Json::accept(text));
    }
    for (const std::string& text : c.out) CHECK_MESSAGE(!follows(grammar, text), text);
  }
}

}  // namespace

TEST_CASE("plain types of a schema") {
  check_all({
      {R"({"type": "boolean"})", {"true", "false"}, {"True", "null", "0", ""}},
      {R"({"type": "null"})", {"null"}, {"nul", "\"null\""}},
      {R"({"type": ["string", "null"]})", {"\"a\"", "null"}, {"1"}},
      {R"({"type": "string"})",
       {R"("")", R"("aé🐚")", R"("a\"b\\c\n\u00e9\uD7ff")"},
       {R"(")", R"("a)", "\"\n\"", R"("\x")", R"("\ud83d")", "\"\xff\"", "\"\xc3\""}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é🐚x")", R"("\n\u0041")"},
       {R"("a")", R"("abcd")", R"("")"}},
      {R"({"enum": ["a", 1, null, {"k": [1, 2]}]})",
       {"\"a\"", "1", "null", R"({"k":[1,2]})"},
       {"\"b\"", "2"}},
      {R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}},
      {R"({"const": "x\"y"})", {R"("x\"y")"}, {R"("x")"}},
  });
}

TEST_CASE("numbers of a schema, with their bounds") {
  check_all({
      {R"({"type": "integer"})",
       {"0", "-1", "120", "999999999999999"},
       {"01", "-0", "1.0", "1e3", "+1", "-"}},
      {R"({"type": "number"})", {"0", "-1.5", "1e3", "2.5E-7", "10.25"}, {".5", "1.", "01", "1e", "NaN"}},
      {R"({"type": "integer", "minimum": 7, "maximum": 123})",
       {"7", "9", "10", "99", "100", "119", "123"},
       {"6", "124", "0", "-7", "1000", "70000"}},
      {R"({"type": "integer", "minimum": -12, "maximum": 3})",
       {"-12", "-1", "0", "3", "-10"},
       {"-13", "4", "-0"}},
      {R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10})", {"1", "9"}, {"0", "10"}},
      {R"({"type": "integer", "minimum": 18})", {"18", "19", "100", "20000"}, {"17", "2", "-18"}},
      {R"({"type": "integer", "maximum": -5})", {"-5", "-60"}, {"-4", "0", "5"}},
      {R"({"type": "integer", "minimum": 1.5, "maximum": 2.5})", {"2"}, {"1", "3"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "0.5", "1", "0.999"}, {"1.1", "-0.5", "2"}},
      {R"({"type": "number", "exclusiveMinimum": 0})", {"0.5", "1", "3.25", "0.001"}, {"0", "0.0", "-1"}},
      {R"({"type": "number", "maximum": -1.5})", {"-2", "-2.5", "-10"}, {"-1", "0", "2", "-1.4"}},
      {R"({"type": "number", "minimum": -2, "maximum": 2})",
       {"-2", "-1.5", "-0.5", "0", "1.5", "2"},
       {"-2.5", "2.1"}},
  });
}

TEST_CASE("objects of a schema: required and optional members in order, others only where asked for") {
  check_all({
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
           "required": ["b"]})",
       {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({ "a": 1, "b": "x", "c": [1, {}] })",
        "{\n  \"b\": \"x\"\n}"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})", R"({"b":1})"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}}})",
       {"{}", "{ }", R"({"a":null})"},
       {R"({"b":1})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {R"({"ab":null,"a":1,"abc":2,"":3})", R"({"x":1})", "{}"},
       {R"({"ab":1})", R"({"a":1,"ab":1})", R"({"a":null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "boolean"}})",
       {"{}", R"({"x":true})"},
       {R"({"x":1})"}},
      {R"({"required": ["k"]})", {R"({"k":[]})"}, {"{}", "1"}},
  });
}

TEST_CASE("arrays of a schema: counts and places") {
  check_all({
      {R"({"type": "array", "items": {"type": "integer"}})",
       {"[]", "[1]", "[1, 2,3]"},
       {"[1,]", "[,]", "[\"a\"]"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 1})",
       {"[null]", "[null,null,null]"},
       {"[]"}},
      {R"({"type": "array", "items": {"type": "null"}, "maxItems": 0})", {"[]"}, {"[null]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",2]"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2})",
       {"[1,null]", "[1,null,null]"},
       {"[1]", "[null,null]"}},
  });
}

TEST_CASE("choices, references and recursion in a schema") {
  check_all({
      {R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"1", "\"x\""}, {"\"y\""}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"y\""}, {"null"}},
      {R"({"oneOf": [{"properties": {"k": {"const": "a"}, "n": {"type": "integer"}}, "required": ["k"]},
                     {"properties": {"k": {"const": "b"}}, "required": ["k"]}]})",
       {R"({"k":"a","n":1})", R"({"k":"b"})"},
       {R"({"k":"b","n":1})", R"({"k":"c"})"}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                     {"properties": {"b": {"type": "integer"}}, "required": ["b"]}], "type": "object"})",
       {R"({"a":1,"b":2})"},
       {R"({"a":1})", R"({"b":2})"}},
      {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
           "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
           "required": ["v", "next"]}}})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
  });
}

TEST_CASE("patterns and formats of strings") {
  check_all({
      {R"({"pattern": "^[A-Z]{2}-\\d+$"})",
       {R"("AB-1")", R"("XY-009")"},
       {R"("A-1")", R"("AB-")", R"("xAB-1")"}},
      {R"({"pattern": "ab|c$"})", {R"("ab")", R"("xxabyy")", R"("yc")"}, {R"("a")", R"("cy")"}},
      {R"({"pattern": "^(?:a|b.)*$"})", {R"("")", R"("aabé")", R"("b\"a")"}, {R"("b")", R"("c")"}},
      {R"({"pattern": "^[^a-z\"]$"})", {R"("A")", R"("\n")", R"("\\")"}, {R"("a")", R"("\"")", R"("AA")"}},
      {R"({"pattern": "^\\s\\w\\S\\u00e9?$"})", {R"(" a!")", R"("\tZ\"é")"}, {R"("aa!")", R"(" !!")"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-28")", R"("1999-12-31")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("2024-04-31")", R"("24-01-01")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-05-31T23:59:59Z")"},
       {R"("2024-05-31 23:59:59Z")"}},
      {R"({"type": "string", "format": "uuid"})",
       {R"("01234567-89ab-cdef-0123-456789abcdef")"},
       {R"("0123")"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("127.0.0.1")", R"("255.255.255.255")"},
       {R"("256.0.0.1")"}},
  });
}

TEST_CASE("what a schema asks for and a grammar cannot promise is refused by name") {
  struct Case {
    const char *schema, *says;
  };
  for (
      const Case& c : std::vector<Case>{
          {R"({"type": "array", "uniqueItems": true})", "'uniqueItems'"},
          {R"({"type": "integer", "multipleOf": 5})", "'multipleOf'"},
          {R"({"not": {"type": "string"}})", "'not'"},
          {R"({"if": {}})", "'if'"},
          {R"({"patternProperties": {}})", "'patternProperties'"},
          {R"({"type": "strin"})", "unknown type"},
          {R"({"type": 5})", "'type'"},
          {R"({"$ref": "http://example.com/x"})", "another document"},
          {R"({"$ref": "#/$defs/none"})", "names nothing"},
          {R"({"$ref": "#"})", "can never end|begins with itself"},
          {R"({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 2}]})", "both fit"},
          {R"({"enum": []})", "no values"},
          {R"({"type": "string", "enum": [1]})", "no value of its 'type'"},
          {R"({"type": "string", "format": "color"})", "color"},
          {R"j({"type": "string", "pattern": "(?=a)"})j", "looking ahead"},
          {R"({"type": "string", "pattern": "(a)\\1"})", "not supported"},
          {R"({"type": "string", "pattern": "(a"})", "')'"},
          {R"({"type": "string", "minLength": 5, "maxLength": 2})", "below"},
          {R"({"type": "string", "maxLength": 1000000})", "too large"},
          {R"({"type": "integer", "minimum": 5, "maximum": 2})", "cannot be met"},
          {R"({"type": "number", "minimum": 0.2, "maximum": 0.7})", "no whole number"},
          {R"({"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
           "'b'"},
          {R"(5)", "not an object"},
          {R"({"properties": {"a": false}})", "not an object"},
          {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "'pattern'"},
      }) {
    CAPTURE(c.schema);
    std::string said;
    try {
      schema_grammar(Json::parse(c.schema));
    } catch (const Error& e) {
      said = e.what();
    }
    CAPTURE(said);
    bool found = false;
    for (std::string_view says = c.says; !says.empty();) {
      const size_t bar = std::min(says.find('|'), says.size());
      found |= said.find(says.substr(0, bar)) != std::string::npos;
      says.remove_prefix(std::min(bar + 1, says.size()));
    }
    CHECK(found);
  }
}

TEST_CASE("any JSON object, to a depth that ends") {
  const Grammar grammar = json_grammar();
  for (const char* text :
       {"{}", R"({"a": [1, -2.5e3, "x", null, true, {"b": {}}]})", "{\n  \"a\": 1,\n  \"b\": 2\n}"})
    CHECK_MESSAGE(follows(grammar, text), text);
  for (const char* text : {"[]", "1", "{", "{]", R"({"a" 1})", R"({a: 1})", R"({"a": 1}})", "{}\n", "\n{}"})
    CHECK_MESSAGE(!follows(grammar, text), text);
  std::string deep = R"({"a":)";
  CHECK(follows(grammar, deep + std::string(100, '[') + std::string(100, ']') + "}"));
  CHECK(!follows(grammar, deep + std::string(5000, '[') + std::string(5000, ']') + "}"));
}
