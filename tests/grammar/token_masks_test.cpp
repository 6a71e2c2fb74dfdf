// Masks over a vocabulary: which tokens may come next.
#include "grammar/token_masks.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "grammar/json_schema.h"
#include "runtime/sampler.h"
#include "support/data.h"
#include "text/tokenizer.h"

using namespace anemone;

TEST_CASE(
    "the mask of every state is what the bytes of each token say, also near the end of a bounded text") {
  const auto tokenizer = Tokenizer::load(source_dir() / "examples/demo_model/demo.gguf");
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(*tokenizer, tokenizer->end_of_generation());
  for (
      const char* text :
      {R"({"type": "string", "maxLength": 17})", R"({"type": "string", "minLength": 3, "maxLength": 9})",
       R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]})",
       R"({"type": "array", "items": {"enum": ["sea", "seal", "the sea", "then"]}, "maxItems": 4})",
       R"({"type": "string", "pattern": "^[a-z]{2,20}( [a-z]+)?$"})"}) {
    CAPTURE(text);
    const auto masks = std::make_shared<TokenMasks>(
        std::make_shared<const Grammar>(schema_grammar(nlohmann::ordered_json::parse(text))), vocabulary);
    GrammarMatcher matcher(masks);
    uint32_t random = 7;
    for (int step = 0; step < 40; ++step) {
      std::vector<float> logits(vocabulary->size(), 0);
      matcher.mask(logits);
      std::vector<int32_t> allowed;
      bool same = true;
      for (size_t i = 0; i < logits.size(); ++i) {
        const auto id = static_cast<int32_t>(i);
        same &= matcher.allows(id) == (logits[i] == 0);
        if (logits[i] == 0 && !vocabulary->ends(id)) allowed.push_back(id);
      }
      CHECK(same);
      if (allowed.empty()) break;
      random = random * 1664525 + 1013904223;
      matcher.take(allowed[(random >> 8) % allowed.size()]);
    }
  }
}

TEST_CASE("a sampler chooses the same with masks and before there are any") {
  const auto tokenizer = Tokenizer::load(source_dir() / "examples/demo_model/demo.gguf");
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(*tokenizer, tokenizer->end_of_generation());
  const auto grammar = std::make_shared<const Grammar>(schema_grammar(nlohmann::ordered_json::parse(
      R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 60},
          "kind": {"enum": ["sea", "seal", "the sea"]}, "n": {"type": "integer"}},
          "required": ["name", "kind", "n"]})")));
  for (const SamplerOptions& options :
       {SamplerOptions{}, SamplerOptions{.temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05},
        SamplerOptions{.temperature = 1.2, .top_k = 3, .presence_penalty = 0.5},
        SamplerOptions{.temperature = 1, .biases = {{5, -3.0f}}}}) {
    CAPTURE(options.top_k);
    Sampler masked(options), lazy(options);
    GrammarMatcher known(std::make_shared<TokenMasks>(grammar, vocabulary));
    GrammarMatcher fresh(std::make_shared<TokenMasks>(grammar, vocabulary));
    uint32_t random = 11;
    std::vector<int32_t> text;
    int without = 0;
    for (int step = 0; step < 200; ++step) {
      // The vocabulary's logits are noise; those of tokens that may come are often better, as a model has it.
      std::vector<float> logits(vocabulary->size());
      const auto next = [&] { return random = random * 1664525 + 1013904223, random >> 8; };
      for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] = static_cast<float>(next() % 1000) / 100;
        if (step % 3 && known.allows(static_cast<int32_t>(i))) logits[i] += 4;
      }
      std::vector<float> allowed = logits;
      known.mask(allowed);
      without += !fresh.has_mask();
      const int32_t id = masked.pick(allowed, text, text);
      REQUIRE(lazy.pick(logits, text, text, &fresh) == id);
      if (vocabulary->ends(id)) break;
      known.take(id);
      fresh.take(id);
      text.push_back(id);
    }
    CHECK(text.size() > 10);
    CHECK(without > 5);
    CHECK(fresh.text() == known.text());
  }
}
