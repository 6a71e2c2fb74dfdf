// What a grammar costs per token: the time of the sampler with the grammar, less that without, and of the token that is
// taken. The logits are noise, with the next token of the text far above it. Texts are the given one, and random walks:
// any allowed token may come, so the states are new ones far more often than in what a model writes, and so are the
// tokens that are refused. `masks`: the same with top-k 0, which needs the mask of every state.
//     bench_grammar TOKENIZER [MILLISECONDS OF A TOKEN]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/error.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/token_masks.h"
#include "runtime/sampler.h"
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

// Some noise, the same in every run.
std::vector<float> noise(size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

// One answer: `choose` is the next token, of what the grammar allows; below 0 ends it.
template <class Choose>
Cost answer(const std::shared_ptr<TokenMasks>& masks, const std::shared_ptr<TokenMasks>& judge, int64_t top_k,
            const Choose& choose) {
  Cost out;
  GrammarMatcher matcher(masks), allowed(judge);
  const SamplerOptions options{.temperature = 0.8, .top_k = top_k, .top_p = 0.95, .min_p = 0.05};
  Sampler with(options), without(options);
  std::vector<float> logits = noise(masks->vocabulary()->size());
  std::vector<int32_t> text;
  for (;;) {
    const int32_t id = choose(allowed);
    if (id < 0) return out;
    std::rotate(logits.begin(), logits.begin() + 977,
                logits.end());  // other tokens are the best of the noise
    const float usual = std::exchange(logits[static_cast<size_t>(id)], 40.0f);
    auto start = std::chrono::steady_clock::now();
    without.pick(logits, text, text);
    double ms = -milliseconds(start);
    start = std::chrono::steady_clock::now();
    const int32_t picked = with.pick(logits, text, text, &matcher);
    matcher.take(picked);
    ms += milliseconds(start);
    if (picked != id) throw errorf("another token was picked");
    out.add(ms);
    logits[static_cast<size_t>(id)] = usual;
    allowed.take(id);
    text.push_back(id);
  }
}

void print(const std::string& name, int64_t top_k, const char* when, const Cost& cost, double token_ms) {
  const double mean = cost.sum / static_cast<double>(std::max<int64_t>(cost.tokens, 1));
  fmt::print("{:<48} {:<5} {:<6} {:>4} tokens {:8.3f} ms each, at most {:7.3f}", name,
             top_k > 0 ? "" : "masks", when, cost.tokens, mean, cost.most);
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
    const auto grammar = std::make_shared<const Grammar>(std::move(c.grammar));
    const auto judge = std::make_shared<TokenMasks>(grammar, vocabulary);
    for (const int64_t top_k : {40, 0}) {
      const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
      for (const char* when : {"first", "again"}) {
        size_t at = 0;
        if (c.name == "a book")
          print(
              "a book, as a model writes it", top_k, when,
              answer(masks, judge, top_k, [&](GrammarMatcher&) { return at < ids.size() ? ids[at++] : -1; }),
              token_ms);
      }
      const auto walked = std::make_shared<TokenMasks>(grammar, vocabulary);
      for (const char* when : {"first", "again"}) {
        std::mt19937 random(1);
        int left = 200;
        print(c.name + ", a walk", top_k, when,
              answer(walked, judge, top_k,
                     [&](GrammarMatcher& matcher) {
                       std::vector<float> logits(vocabulary->size(), 0);
                       matcher.mask(logits);
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
}
