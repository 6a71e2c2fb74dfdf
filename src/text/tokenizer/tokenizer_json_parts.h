// The parts of tokenizer.json around its model; only its reader uses them.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "text/tokenizer/spec.h"

namespace anemone::tokenizer_json {

using Value = simdjson::dom::element;

// The value under a key; throws Error when the key is missing or holds another type.
Value member(Value object, std::string_view key);
std::string_view text(Value object, std::string_view key);
std::string_view text(Value object, std::string_view key, std::string_view otherwise);  // also for null
bool flag(Value object, std::string_view key, bool otherwise);
int64_t number(Value object, std::string_view key, int64_t otherwise);
std::string_view type_of(Value object);
bool is_absent(Value object, std::string_view key);  // missing or null

void read_normalizer(Value value, TokenizerSpec& spec);
void read_pre_tokenizer(Value value, TokenizerSpec& spec);
void read_post_processor(Value value, TokenizerSpec& spec);
void read_detokenizer(Value value, TokenizerSpec& spec);

}  // namespace anemone::tokenizer_json
