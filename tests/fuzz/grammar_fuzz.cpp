// Schemas and grammars from strangers: compiled within bounds or refused, and what a schema's grammar lets through is
// JSON. The first byte chooses: a GBNF text, or a JSON schema; the rest is tried as a text, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "anemone/error.h"
#include "grammar/automaton.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

// Writes a text of the grammar, with choices that the input makes; false when it does not end soon.
bool write_text(GrammarAutomaton& automaton, std::string_view choices, std::string& out) {
  int32_t state = automaton.start();
  for (size_t i = 0; i < 400; ++i) {
    const auto wish = choices.empty() ? size_t{7} : static_cast<unsigned char>(choices[i % choices.size()]);
    if (automaton.accepts(state) && (wish % 3 == 0 || i > 200)) return true;
    size_t byte = 0;
    int32_t next = GrammarAutomaton::kDead;
    for (size_t b = 0; b < 256 && next == GrammarAutomaton::kDead; ++b) {
      // Late in the text those that close something come first.
      byte = i < 100 ? (wish * 7 + b) % 256 : 255 - b;
      next = automaton.next(state, static_cast<uint8_t>(byte));
    }
    if (next == GrammarAutomaton::kDead) return automaton.accepts(state);
    out += static_cast<char>(byte);
    state = next;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4000) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool schema = data[0] % 2 == 0;
  try {
    Grammar grammar;
    if (schema) {
      const Json json = Json::parse(text, nullptr, false);
      if (json.is_discarded()) return 0;
      grammar = schema_grammar(json);
    } else {
      grammar = parse_gbnf(text);
    }
    GrammarAutomaton automaton(std::make_shared<const Grammar>(std::move(grammar)));
    std::string written;
    if (write_text(automaton, text, written) && schema && !Json::accept(written)) std::abort();
  } catch (const Error&) {
  } catch (const Json::exception&) {
    std::abort();  // a schema of any shape is refused in our words
  }
  return 0;
}
