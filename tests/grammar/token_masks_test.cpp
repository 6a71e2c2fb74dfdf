// Masks over a vocabulary: which tokens may come next.
#include "grammar/token_masks.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "grammar/json_schema.h"
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
