// What a grammar costs per token: bytes of JSON texts go through a schema's automaton, and the mask of every token's
// state is asked for, fresh (the first answer to a schema) and again (the next ones).
//     bench_grammar TOKENIZER [SCHEMA.json TEXT.json]
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "grammar/json_schema.h"
#include "grammar/token_masks.h"
#include "text/tokenizer.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "title": {"type": "string"}, "author": {"type": "string"}, "year": {"type": "integer", "minimum": 1400, "maximum": 2100},
  "tags": {"type": "array", "items": {"type": "string"}}, "price": {"type": "number"},
  "kind": {"enum": ["novel", "essay", "poems"]}, "extra": {}}, "required": ["title", "author", "year", "tags"]})";
constexpr const char* kText =
    R"({"title": "The Sea Around Us and other tales of the tide pools", "author": "Rachel Carson", "year": 1951, )"
    R"("tags": ["ocean", "natural history", "science writing", "classics"], "price": 12.5, "kind": "essay", )"
    R"("extra": {"pages": [1, 2, 3], "note": "second edition, revised", "deep": {"x": {"y": null}}}})";

double milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: bench_grammar TOKENIZER\n"), 2;
  const auto tokenizer = Tokenizer::load(argv[1]);
  auto start = std::chrono::steady_clock::now();
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(*tokenizer, tokenizer->end_of_generation());
  fmt::print("vocabulary {:>8} tokens  {:8.2f} ms, once per model\n", vocabulary->size(),
             milliseconds(start));
  start = std::chrono::steady_clock::now();
  auto grammar = std::make_shared<const Grammar>(schema_grammar(Json::parse(kSchema)));
  auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
  fmt::print("schema                      {:8.2f} ms, once per schema\n", milliseconds(start));
  const std::vector<int32_t> ids = tokenizer->encode(kText);
  std::vector<float> logits(vocabulary->size(), 1.0f);
  for (const char* round : {"first answer", "next answer"}) {
    GrammarMatcher matcher(masks);
    double sum = 0, most = 0;
    for (const int32_t id : ids) {
      std::fill(logits.begin(), logits.end(), 1.0f);
      start = std::chrono::steady_clock::now();
      matcher.mask(logits);
      const bool allowed = matcher.allows(id);
      matcher.take(id);
      const double ms = milliseconds(start);
      sum += ms;
      most = std::max(most, ms);
      if (!allowed) return fmt::print(stderr, "the text leaves the grammar at '{}'\n", matcher.text()), 1;
    }
    fmt::print("{:<12} {:>4} tokens  {:8.3f} ms per token, at most {:.3f} ms\n", round, ids.size(),
               sum / static_cast<double>(ids.size()), most);
  }
  fmt::print("memory                      {:8.2f} MB\n", static_cast<double>(masks->bytes()) / 1e6);
}
