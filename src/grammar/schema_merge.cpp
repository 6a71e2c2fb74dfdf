#include "grammar/schema_merge.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> types_of(const Json& type) {
  if (type.is_string()) return {type.get<std::string>()};
  return type.get<std::vector<std::string>>();
}

Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const auto add = [&](const std::string& type) {
    if (std::find(out.begin(), out.end(), Json(type)) == out.end()) out.push_back(type);
  };
  for (const std::string& x : types_of(a))
    for (const std::string& y : types_of(b)) {
      if (x == y) add(x);
      if ((x == "integer" && y == "number") || (x == "number" && y == "integer")) add("integer");
    }
  if (out.empty()) throw errorf("the schema has parts that no value fits: two types at once");
  return out;
}

bool closed(const Json& schema) {
  const auto more = schema.find("additionalProperties");
  return more != schema.end() && *more != Json(true);
}

// `additionalProperties` of one part speaks of that part's own properties.
void check_closed(const Json& a, const Json& b) {
  if (!closed(a) || !b.contains("properties")) return;
  for (const auto& [name, unused] : b["properties"].items())
    if (!a.contains("properties") || !a["properties"].contains(name))
      throw errorf("'additionalProperties' beside parts with other properties is not supported")
          .found(fmt::format("'{}'", name));
}

Json merged_values(const std::string& key, const Json& a, const Json& b, SchemaWork& work) {
  static constexpr std::array<const char*, 4> kLargest = {"minimum", "minLength", "minItems",
                                                          "exclusiveMinimum"};
  static constexpr std::array<const char*, 4> kSmallest = {"maximum", "maxLength", "maxItems",
                                                           "exclusiveMaximum"};
  if (a == b || is_annotation(key)) return b;
  const auto is = [&](const char* name) { return key == name; };
  if (std::any_of(kLargest.begin(), kLargest.end(), is)) return std::max(a, b);
  if (std::any_of(kSmallest.begin(), kSmallest.end(), is)) return std::min(a, b);
  if (key == "type") return common_types(a, b);
  work.add(a.size() * b.size());
  Json out = a;
  if (key == "required") {
    for (const Json& name : b)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    return out;
  }
  if (key == "properties" || key == "$defs" || key == "definitions") {
    for (const auto& [name, value] : b.items())
      out[name] = out.contains(name) ? merge_schemas(out[name], value, work) : value;
    return out;
  }
  if (key == "items") return merge_schemas(a, b, work);
  if (key == "enum") {
    out = Json::array();
    for (const Json& value : a)
      if (std::find(b.begin(), b.end(), value) != b.end()) out.push_back(value);
    return out;
  }
  throw errorf("two values of '{}' that hold at once are not supported", key);
}

const Json* constants(const Json& schema, Json& own) {
  if (schema.contains("const")) return &(own = Json::array({schema["const"]}));
  if (schema.contains("enum")) return &(own = schema["enum"]);
  return nullptr;
}

bool requires_name(const Json& schema, const std::string& name) {
  const auto list = schema.find("required");
  return list != schema.end() && std::find(list->begin(), list->end(), Json(name)) != list->end();
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  static constexpr std::array<const char*, 13> kNames = {
      "title",     "description",     "default",         "examples",   "$schema",
      "$id",       "$comment",        "$anchor",         "deprecated", "readOnly",
      "writeOnly", "contentEncoding", "contentMediaType"};
  return std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return keyword == name; });
}

std::string schema_type_of(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_number_integer() ? "integer" : "number";
}

void SchemaWork::add(size_t values) {
  if ((done_ += values) > kMost)
    throw errorf("the schema takes too much work").hint("fewer branches, shorter lists, less text");
}

// A long text counts for more: it is copied, too.
size_t SchemaWork::count(const Json& json) {
  if (json.is_string()) return 1 + json.get_ref<const std::string&>().size() / 64;
  size_t out = 1;
  if (json.is_structured())
    for (const Json& part : json) out += count(part);
  return out;
}

Json merge_schemas(const Json& a, const Json& b, SchemaWork& work) {
  work.add(a);
  work.add(b);
  if (a == Json(true)) return b;
  if (b == Json(true)) return a;
  if (!a.is_object() || !b.is_object()) throw errorf("the schema has parts that no value fits: false");
  check_closed(a, b);
  check_closed(b, a);
  Json out = a;
  for (const auto& [key, value] : b.items())
    out[key] = out.contains(key) ? merged_values(key, out[key], value, work) : value;
  return out;
}

bool are_disjoint(const Json& a, const Json& b, SchemaWork& work) {
  work.add(a);
  work.add(b);
  if (!a.is_object() || !b.is_object()) return false;
  Json own_a, own_b;
  const Json *in_a = constants(a, own_a), *in_b = constants(b, own_b);
  if (in_a && in_b) work.add(in_a->size() * in_b->size());
  if (in_a && in_b)
    return std::none_of(in_a->begin(), in_a->end(), [&](const Json& v) {
      return std::find(in_b->begin(), in_b->end(), v) != in_b->end();
    });
  if (a.contains("type") && b.contains("type")) {
    const auto kinds_a = types_of(a["type"]), kinds_b = types_of(b["type"]);
    const bool meet = std::any_of(kinds_a.begin(), kinds_a.end(), [&](const std::string& x) {
      return std::any_of(kinds_b.begin(), kinds_b.end(), [&](const std::string& y) {
        return x == y || (x == "integer" && y == "number") || (x == "number" && y == "integer");
      });
    });
    if (!meet) return true;
  }
  if (!a.contains("properties") || !b.contains("properties")) return false;
  work.add(a["properties"].size() * b["properties"].size());
  for (const auto& [name, schema] : a["properties"].items())
    if (b["properties"].contains(name) && requires_name(a, name) && requires_name(b, name) &&
        are_disjoint(schema, b["properties"][name], work))
      return true;
  return false;
}

}  // namespace anemone
