// What a grammar costs per token: the mask of each token's state is asked for and applied, and a token is taken. Texts
// are the given one, and random walks: any allowed token may come, so the states are new ones far more often than in
// what a model writes.
//     bench_grammar TOKENIZER [MILLISECONDS OF A TOKEN]
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/token_masks.h"
#include "text/tokenizer.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kBook = R"({"type": "object", "properties": {
  "title": {"type": "string"}, "author": {"type": "string"}, "year": {"type": "integer", "minimum": 1400, "maximum": 2100},
  "tags": {"type": "array", "items": {"type": "string"}}, "price": {"type": "number"},
  "kind": {"enum": ["novel", "essay", "poems"]}, "extra": {}}, "required": ["title", "author", "year", "tags"]})";
constexpr const char* kText =
    R"({"title": "The Sea Around Us and other tales of the tide pools", "author": "Rachel Carson", "year": 1951, )"
    R"("tags": ["ocean", "natural history", "science writing", "classics"], "price": 12.5, "kind": "essay", )"
    R"("extra": {"pages": [1, 2, 3], "note": "second edition, revised", "deep": {"x": {"y": null}}}})";

struct Case {
  std::string name;
  Grammar grammar;
};

Json many_names() {
  Json names = Json::array();
  for (int i = 0; i < 1000; ++i) names.push_back(fmt::format("item_{:03}_{}", i, i * 7919 % 1000));
  return {{"type", "array"}, {"items", {{"enum", names}}}};
}

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&](const char* name, const Json& schema) {
    out.push_back({name, schema_grammar(schema)});
  };
  add("a book", Json::parse(kBook));
  out.push_back({"any JSON", json_grammar()});
  add("a text of at most 300 characters", {{"type", "string"}, {"maxLength", 300}});
  add("one of 1,000 names, again and again", many_names());
  add("a tree of objects",
      Json::parse(R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
      "v": {"type": "integer"}, "l": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
      "r": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "l", "r"]}}})"));
  add("a pattern that can be read in many ways",
      {{"type", "string"}, {"pattern", "^([a-z]+ ?)+(ing|ed|s)?( [a-z ]*)?$"}});
  add("eight alternatives that begin alike", Json::parse(R"({"anyOf": [
      {"type": "object", "properties": {"kind": {"const": "aa"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
      {"type": "object", "properties": {"kind": {"const": "ab"}, "x": {"type": "number"}}, "required": ["kind", "x"]},
      {"type": "object", "properties": {"kind": {"const": "ac"}, "y": {"type": "string"}}, "required": ["kind", "y"]},
      {"type": "object", "properties": {"kind": {"const": "ad"}, "z": {"type": "array"}}, "required": ["kind", "z"]},
      {"type": "object", "properties": {"kind": {"type": "string"}, "x": {"type": "string"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"type": "string"}, "q": {"type": "string"}}, "required": ["kind"]},
      {"type": "array", "items": {"type": "string"}}, {"type": "string"}]})"));
  out.push_back(
      {"GBNF: words, some of them long", parse_gbnf("root ::= (word \" \")+\nword ::= [a-zA-Z]{1,60}")});
  return out;
}

double milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

struct Cost {
  double sum = 0, most = 0;
  int64_t tokens = 0;
  void add(double ms) {
    sum += ms;
    most = std::max(most, ms);
    ++tokens;
  }
};

// One answer: `choose` picks a token of the masked logits; below 0 ends it.
template <class Choose>
Cost answer(const std::shared_ptr<TokenMasks>& masks, size_t vocabulary, const Choose& choose) {
  Cost out;
  GrammarMatcher matcher(masks);
  std::vector<float> logits(vocabulary);
  for (;;) {
    std::fill(logits.begin(), logits.end(), 1.0f);
    auto start = std::chrono::steady_clock::now();
    matcher.mask(logits);
    double ms = milliseconds(start);
    const int32_t id = choose(logits);
    if (id < 0) return out;
    start = std::chrono::steady_clock::now();
    matcher.take(id);
    out.add(ms + milliseconds(start));
  }
}

void print(const std::string& name, const char* when, const Cost& cost, double token_ms) {
  const double mean = cost.sum / static_cast<double>(std::max<int64_t>(cost.tokens, 1));
  fmt::print("{:<40} {:<6} {:>5} tokens {:8.3f} ms each, at most {:7.3f}", name, when, cost.tokens, mean,
             cost.most);
  if (token_ms > 0) fmt::print("  {:5.1f}% of a token", 100 * mean / token_ms);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: bench_grammar TOKENIZER [MILLISECONDS]\n"), 2;
  const double token_ms = argc > 2 ? std::atof(argv[2]) : 0;
  const auto tokenizer = Tokenizer::load(argv[1]);
  auto start = std::chrono::steady_clock::now();
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(*tokenizer, tokenizer->end_of_generation());
  fmt::print("vocabulary of {} tokens: {:.1f} ms, once per model\n", vocabulary->size(), milliseconds(start));
  const std::vector<int32_t> ids = tokenizer->encode(kText);
  for (Case& c : cases()) {
    start = std::chrono::steady_clock::now();
    auto masks =
        std::make_shared<TokenMasks>(std::make_shared<const Grammar>(std::move(c.grammar)), vocabulary);
    if (c.name == "a book")
      for (const char* when : {"first", "again"}) {
        size_t at = 0;
        print("a book, as a model writes it", when,
              answer(masks, vocabulary->size(),
                     [&](const std::vector<float>&) { return at < ids.size() ? ids[at++] : -1; }),
              token_ms);
      }
    for (const char* when : {"first", "again"}) {
      std::mt19937 random(1);
      int left = 200;
      print(c.name + ", a walk", when,
            answer(masks, vocabulary->size(),
                   [&](const std::vector<float>& logits) {
                     std::vector<int32_t> allowed;
                     for (size_t i = 0; i < logits.size(); ++i)
                       if (std::isfinite(logits[i]) && !vocabulary->ends(static_cast<int32_t>(i)))
                         allowed.push_back(static_cast<int32_t>(i));
                     return left-- == 0 || allowed.empty() ? -1 : allowed[random() % allowed.size()];
                   }),
            token_ms);
    }
  }
}
