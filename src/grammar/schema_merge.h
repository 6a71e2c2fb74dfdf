// Two schemas that hold at once, as one.
//     Json both = merge_schemas(base, branch);
#pragma once

#include <nlohmann/json.hpp>

namespace anemone {

// Keywords that say nothing about what is valid.
bool is_annotation(const std::string& keyword);
// Error names the keyword whose two values cannot be combined.
nlohmann::ordered_json merge_schemas(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);
// True when no value fits both, as far as that can be seen at once: other types, other constants.
bool are_disjoint(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);
// The name of a JSON value's type, as `type` writes it; "integer" for whole numbers.
std::string schema_type_of(const nlohmann::ordered_json& value);

}  // namespace anemone
