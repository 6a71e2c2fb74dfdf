// JSON Schema as a grammar: every text that the grammar allows is JSON that the schema accepts (2020-12).
//     Grammar g = schema_grammar(schema);                       // Error names a keyword that is not supported
//     Grammar any = json_grammar();                             // any JSON object
// The grammar may allow less than the schema. Properties come in the order of the schema, those that it does not list
// only where `additionalProperties` asks for them, and whole numbers have at most 15 digits unless bounds say more.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "grammar/grammar.h"

namespace anemone {

Grammar schema_grammar(const nlohmann::ordered_json& schema);
// Any object, of any depth that the automaton follows.
Grammar json_grammar();

// For grammars that hold JSON among other things: the calls of tools, say.
class JsonText;
class SchemaWork;
Symbol schema_rule(GrammarBuilder& builder, JsonText& json, const nlohmann::ordered_json& schema,
                   SchemaWork& work);

}  // namespace anemone
