// Two schemas that hold at once, as one.
//     SchemaWork work;
//     Json both = merge_schemas(base, branch, work);
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace anemone {

// What reading a schema has cost so far, in values that were copied or compared. A schema of a stranger costs no more
// than half a second.
class SchemaWork {
 public:
  static constexpr size_t kMost = 5'000'000;

  // Error when it becomes too much.
  void add(size_t values);
  // All values of these, as deep as they go.
  void add(const nlohmann::ordered_json& a) { add(count(a)); }

 private:
  static size_t count(const nlohmann::ordered_json& json);

  size_t done_ = 0;
};

// Keywords that say nothing about what is valid.
bool is_annotation(const std::string& keyword);
// Error names the keyword whose two values cannot be combined.
nlohmann::ordered_json merge_schemas(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b,
                                     SchemaWork& work);
// True when no value fits both, as far as that can be seen at once: other types, other constants.
bool are_disjoint(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b, SchemaWork& work);
// The name of a JSON value's type, as `type` writes it; "integer" for whole numbers.
std::string schema_type_of(const nlohmann::ordered_json& value);

}  // namespace anemone
