// Grammars of strangers: what following them costs is bounded.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/token_masks.h"
#include "support/data.h"
#include "text/tokenizer.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

struct Walk {
  size_t tokens = 0, work = 0;
  std::string refusal;
};

// Any allowed token, again and again, with the mask of every state.
Walk walk(const Grammar& grammar, const std::shared_ptr<const GrammarVocabulary>& vocabulary,
          size_t most = 60) {
  Walk out;
  const auto masks = std::make_shared<TokenMasks>(std::make_shared<const Grammar>(grammar), vocabulary);
  try {
    GrammarMatcher matcher(masks);
    uint32_t random = 7;
    for (; out.tokens < most; ++out.tokens) {
      std::vector<float> logits(vocabulary->size(), 0);
      matcher.mask(logits);
      std::vector<int32_t> allowed;
      for (size_t i = 0; i < logits.size(); ++i)
        if (std::isfinite(logits[i]) && !vocabulary->ends(static_cast<int32_t>(i)))
          allowed.push_back(static_cast<int32_t>(i));
      if (allowed.empty()) break;
      random = random * 1664525 + 1013904223;
      matcher.take(allowed[(random >> 8) % allowed.size()]);
    }
  } catch (const Error& e) {
    out.refusal = e.message();
  }
  out.work = masks->automaton().work();
  return out;
}

std::string schema_refusal(const Json& schema) {
  try {
    schema_grammar(schema);
    return "";
  } catch (const Error& e) {
    return e.message();
  }
}

}  // namespace

TEST_CASE("a grammar that can be read in very many ways costs an answer no more than its share") {
  const auto tokenizer = Tokenizer::load(source_dir() / "examples/demo_model/demo.gguf");
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(*tokenizer, tokenizer->end_of_generation());
  for (const std::string pattern :
       {"^(a+)+$", "^(a|aa|aaa|aaaa)*$", "^([a-z]{1,100}){1,100}$", "^(.|.|.){0,300}.{0,300}.{0,300}$",
        "^(a|b|c|d|e)*a(.){14}$", "^[a-z]{1,900}[a-z ]{1,900}[a-y]{1,900}$", ".*a.{12}$"}) {
    CAPTURE(pattern);
    const Walk w = walk(schema_grammar({{"type", "string"}, {"pattern", pattern}}), vocabulary);
    CHECK(w.work <= GrammarMatcher::kMostWork + 61 * GrammarMatcher::kWorkPerToken + 100'000);
    CHECK(w.tokens > 2);
    CHECK((w.refusal.empty() || w.refusal.find("too many ways") != std::string::npos));
  }
  // Every letter so far may be the one that counts: each text has a state of its own, with hundreds of ways.
  std::string letters;
  for (char c = 'a'; c <= 'z'; ++c) letters += fmt::format("{}{}.{{400}}", c == 'a' ? "" : "|", c);
  const Walk w =
      walk(schema_grammar({{"type", "string"}, {"pattern", "^.*(" + letters + ")$"}}), vocabulary, 2000);
  CHECK(w.refusal.find("too much work") != std::string::npos);
  CHECK(w.work <= GrammarMatcher::kMostWork + w.tokens * GrammarMatcher::kWorkPerToken + 100'000);
  CHECK(w.tokens > 0);
}

TEST_CASE("a schema whose parts are compared or copied far too often is refused") {
  Json ones = Json::array(), twos = Json::array(), branches = Json::array(), names = Json::array();
  for (int i = 0; i < 20'000; ++i) {
    ones.push_back(1);
    twos.push_back(2);
    branches.push_back({{"const", i}});
    names.push_back(fmt::format("n{}", i));
  }
  for (const Json& schema : {Json{{"allOf", {{{"enum", ones}}, {{"enum", twos}}}}}, Json{{"oneOf", branches}},
                             Json{{"type", "object"}, {"required", names}}})
    CHECK(schema_refusal(schema).find("too much work") != std::string::npos);
  CHECK(schema_refusal({{"type", "object"},
                        {"properties", {{std::string(100'000, 'n'), Json::object()}}},
                        {"additionalProperties", true}})
            .find("too long") != std::string::npos);
  // Any shape is refused in our words.
  for (const char* text :
       {R"({"allOf": [{"type": 5}, {"type": 6}]})", R"({"type": "string", "nullable": "x"})",
        R"({"oneOf": [{"$ref": 5}, {"$ref": 6}]})", R"({"allOf": [{"properties": 5}, {"properties": 6}]})"})
    CHECK(schema_refusal(Json::parse(text)) != "");
}

TEST_CASE("rules in any order are read in one go") {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) text += fmt::format("r{} ::= \"a\" r{}\n", i, i + 1);
  const Grammar grammar = parse_gbnf(text + "r20000 ::= \"b\"");
  CHECK(grammar.rules.size() > 20'000);
}
