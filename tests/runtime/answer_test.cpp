// Answers held to a grammar, with biases, penalties and probabilities: what OpenAI's API promises about them.
#include "runtime/answer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "runtime/demo.h"
#include "runtime/prompt.h"

using namespace anemone;
using namespace anemone::test;

namespace {

struct DemoModel {
  std::shared_ptr<const Bundle> bundle =
      demo_bundle({.context = {256}, .tokens = {{1, 1}, {4, 4}}}, {.threads = 1});
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(*bundle);

  std::shared_ptr<TokenMasks> masks(Grammar grammar) const {
    return std::make_shared<TokenMasks>(
        std::make_shared<const Grammar>(std::move(grammar)),
        std::make_shared<const GrammarVocabulary>(*tokenizer, end_tokens(*bundle, tokenizer.get())));
  }
  Generation ask(GenerateOptions options, const std::string& prompt = "Once upon a time") const {
    Session session(bundle);
    return Generator(tokenizer, std::move(options)).run(session, PromptFormat(tokenizer).plain(prompt));
  }
};

}  // namespace

TEST_CASE("an answer under a grammar is a text of the grammar, greedy or sampled, and ends by itself") {
  const DemoModel demo;
  const auto schema = nlohmann::ordered_json::parse(R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
      "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}},
      "required": ["name", "age", "tags"]})");
  const auto masks = demo.masks(schema_grammar(schema));
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    GenerateOptions options{.max_new = 200};
    options.sampling = {.temperature = seed == 1 ? 0.0 : 1.5, .seed = seed};
    options.grammar = masks;
    const Generation g = demo.ask(options);
    CAPTURE(g.text);
    REQUIRE(g.why == StopReason::end_of_text);
    const auto value = nlohmann::ordered_json::parse(g.text);
    CHECK(value.size() == 3);
    CHECK(value["name"].get<std::string>().size() <= 12 * 4);
    CHECK(value["age"].get<int>() <= 120);
    CHECK(value["tags"].size() <= 3);
  }
}

TEST_CASE("a grammar allows a token exactly when its bytes go on with the text") {
  const DemoModel demo;
  const auto masks = demo.masks(parse_gbnf("root ::= [a-z ]{3,6} (\"!\" | \"?\" [0-9]+)"));
  GrammarMatcher matcher(masks);
  const GrammarVocabulary& vocabulary = *masks->vocabulary();
  for (const char* text : {"", "t", "the", "the ca", "the!", "the?", "the?12"}) {
    // The mask against the automaton read from the start, for every token.
    CAPTURE(text);
    int32_t state = masks->automaton().start();
    for (const char* c = text; *c; ++c) state = masks->automaton().next(state, static_cast<uint8_t>(*c));
    const TokenMask& mask = masks->mask(state);
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.size()); ++id) {
      int32_t after = state;
      for (const char c : vocabulary.bytes(id))
        after = masks->automaton().next(after, static_cast<uint8_t>(c));
      const bool ends = vocabulary.ends(id);
      const bool expected = ends ? masks->automaton().accepts(state)
                                 : !vocabulary.bytes(id).empty() && after != GrammarAutomaton::kDead;
      const bool allowed = mask[static_cast<size_t>(id) / 64] >> (static_cast<size_t>(id) % 64) & 1;
      REQUIRE(allowed == expected);
    }
  }
}

TEST_CASE("biases and penalties change the choice, and probabilities are those of the model") {
  const DemoModel demo;
  GenerateOptions options{.max_new = 8};
  options.chances = 5;
  const Generation plain = demo.ask(options);
  REQUIRE(plain.chances.size() == plain.ids.size());
  for (size_t i = 0; i < plain.ids.size(); ++i) {
    const TokenChance& c = plain.chances[i];
    CHECK(c.id == plain.ids[i]);
    REQUIRE(c.top.size() == 5);
    CHECK(c.top[0].first == c.id);  // greedy
    CHECK(c.top[0].second == c.log);
    double sum = 0;
    for (size_t k = 0; k < 5; ++k) {
      sum += std::exp(static_cast<double>(c.top[k].second));
      if (k) CHECK(c.top[k].second <= c.top[k - 1].second);
    }
    CHECK(sum <= 1 + 1e-6);
  }
  options.sampling.biases = {{plain.ids[0], -std::numeric_limits<float>::infinity()}};
  const Generation other = demo.ask(options);
  CHECK(other.ids[0] == plain.chances[0].top[1].first);
  // What the model thought of it stays the same.
  CHECK(other.chances[0].log == plain.chances[0].top[1].second);
  for (const int32_t id : other.ids) CHECK(id != plain.ids[0]);
}

TEST_CASE("presence and frequency penalties count the answer alone, as OpenAI's formula says") {
  // logit − presence·[seen] − frequency·count: by hand.
  Sampler sampler({.presence_penalty = 1, .frequency_penalty = 0.5});
  const std::vector<float> logits = {3.0f, 2.0f, 1.25f};
  const std::vector<int32_t> history = {0, 0, 0, 0}, once = {0}, more = {0, 1, 0};
  CHECK(sampler.pick(logits, history) == 0);        // the prompt does not count
  CHECK(sampler.pick(logits, history, once) == 1);  // 1.5, 2, 1.25
  CHECK(sampler.pick(logits, history, more) == 2);  // 1, 0.5, 1.25
}
