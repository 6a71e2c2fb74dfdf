#include "grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "grammar/json_text_grammar.h"
#include "grammar/schema_merge.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostSchemaDepth = 64;
constexpr size_t kMostSchemaBytes = 1u << 20;

struct Format {
  const char *name, *pattern;
};
constexpr std::array<Format, 9> kFormats = {{
    {"date",
     R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))$)"},
    {"time", R"(^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"date-time",
     R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
     R"(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"duration",
     R"(^P(\d{1,5}W|(\d{1,5}Y)?\d{1,5}M|\d{1,5}[YD]|(\d{1,5}D)?T(\d{1,5}H)?(\d{1,5}M)?\d{1,5}S)$)"},
    {"email",
     R"(^[A-Za-z0-9_%+-]+(\.[A-Za-z0-9_%+-]+)*@([A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.)+[A-Za-z]{2,20}$)"},
    {"hostname",
     R"(^[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?){0,5}$)"},
    {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
    {"uri", R"(^https?://[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\.[A-Za-z0-9-]{1,30}){0,5})"
            R"((:\d{1,4})?(/[A-Za-z0-9._~-]*)*$)"},
    {"uuid", R"(^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$)"},
}};

// Which keywords belong to values of a type.
const std::vector<std::string>& keywords_of(const std::string& type) {
  static const std::vector<std::string> object = {"properties", "required", "additionalProperties"},
                                        array = {"items", "prefixItems", "minItems", "maxItems"},
                                        string = {"minLength", "maxLength", "pattern", "format"},
                                        number = {"minimum", "maximum", "exclusiveMinimum",
                                                  "exclusiveMaximum"},
                                        none;
  if (type == "object") return object;
  if (type == "array") return array;
  if (type == "string") return string;
  return type == "number" || type == "integer" ? number : none;
}

bool is_known(const std::string& key) {
  static const std::vector<std::string> general = {"type",  "enum", "const", "anyOf",       "oneOf",
                                                   "allOf", "$ref", "$defs", "definitions", "nullable"};
  if (is_annotation(key) || std::find(general.begin(), general.end(), key) != general.end()) return true;
  for (const char* type : {"object", "array", "string", "number"}) {
    const auto& own = keywords_of(type);
    if (std::find(own.begin(), own.end(), key) != own.end()) return true;
  }
  return false;
}

int64_t count_of(const Json& schema, const char* key, int64_t otherwise) {
  const auto at = schema.find(key);
  if (at == schema.end()) return otherwise;
  if (!at->is_number_integer() || *at < 0 || *at > 1'000'000)
    throw errorf("'{}' of the schema is out of range", key).found(json_text(*at)).expected("0 to 1000000");
  return at->get<int64_t>();
}

double number_of(const Json& schema, const char* key) {
  if (!schema[key].is_number())
    throw errorf("'{}' of the schema is not a number", key).found(json_text(schema[key]));
  return schema[key].get<double>();
}

std::optional<NumberBound> lower_bound(const Json& schema) {
  std::optional<NumberBound> out;
  if (schema.contains("minimum")) out = {number_of(schema, "minimum"), false};
  if (schema.contains("exclusiveMinimum"))
    if (const double v = number_of(schema, "exclusiveMinimum"); !out || v >= out->value) out = {v, true};
  return out;
}

std::optional<NumberBound> upper_bound(const Json& schema) {
  std::optional<NumberBound> out;
  if (schema.contains("maximum")) out = {number_of(schema, "maximum"), false};
  if (schema.contains("exclusiveMaximum"))
    if (const double v = number_of(schema, "exclusiveMaximum"); !out || v <= out->value) out = {v, true};
  return out;
}

int64_t whole(double value) {
  if (!(std::abs(value) <= 1e18))
    throw errorf("a bound of a whole number is out of range").found(fmt::format("{}", value));
  return static_cast<int64_t>(value);
}

}  // namespace

// Turns schemas into rules; one for each place that a $ref names.
class SchemaRules {
 public:
  SchemaRules(GrammarBuilder& builder, JsonText& json, const Json& root, SchemaWork& work)
      : b_(builder), json_(json), root_(root), work_(work) {
    if (json_text(root).size() > kMostSchemaBytes)
      throw errorf("the schema is too large").expected(fmt::format("at most {} bytes", kMostSchemaBytes));
  }

  Symbol value(const Json& schema, int depth = 0) {
    if (depth > kMostSchemaDepth)
      throw errorf("the schema nests too deep").expected(fmt::format("{} levels", kMostSchemaDepth));
    if (schema == Json(true)) return json_.generic_value();
    work_.add(1 + schema.size());
    if (!schema.is_object())
      throw errorf("a part of the schema is not an object").found(json_text(schema).substr(0, 100));
    for (const auto& [key, unused] : schema.items())
      if (!is_known(key)) throw errorf("'{}' of the schema is not supported", key);
    if (schema.contains("$ref")) return reference(schema, depth);
    for (const char* key : {"allOf", "anyOf", "oneOf"})
      if (schema.contains(key)) return combined(schema, key, depth);
    if (schema.contains("const")) return constants(schema, Json::array({schema["const"]}));
    if (schema.contains("enum")) return constants(schema, schema["enum"]);
    std::vector<Symbols> choices;
    for (const std::string& type : types_of(schema)) choices.push_back({typed(schema, type, depth)});
    if (schema.value("nullable", false)) choices.push_back(b_.literal("null"));
    return choices.size() == 1 && choices[0].size() == 1 ? choices[0][0] : b_.choice(choices);
  }

 private:
  static std::vector<std::string> types_of(const Json& schema) {
    const auto type = schema.find("type");
    if (type != schema.end() && type->is_string()) return {type->get<std::string>()};
    if (type != schema.end()) {
      if (!type->is_array() || type->empty())
        throw errorf("'type' of the schema is not a name").found(json_text(*type));
      std::vector<std::string> out;
      for (const Json& t : *type) {
        if (!t.is_string()) throw errorf("'type' of the schema is not a name").found(json_text(*type));
        out.push_back(t.get<std::string>());
      }
      return out;
    }
    for (const char* guess : {"object", "array", "string", "number"})
      for (const std::string& key : keywords_of(guess))
        if (schema.contains(key)) return {guess};
    return {"any"};
  }

  Symbol reference(const Json& schema, int depth) {
    if (!schema["$ref"].is_string()) throw errorf("'$ref' of the schema is not a text");
    const std::string name = schema["$ref"].get<std::string>();
    if (!name.starts_with("#"))
      throw errorf("'$ref' to another document is not supported").found(name.substr(0, 200));
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(name.substr(1)));
    } catch (const Json::exception&) {
      throw errorf("'$ref' of the schema names nothing").found(name.substr(0, 200));
    }
    Json beside = Json::object();
    for (const auto& [key, v] : schema.items())
      if (key != "$ref" && key != "$defs" && key != "definitions" && !is_annotation(key)) beside[key] = v;
    if (!beside.empty()) return value(merge_schemas(*target, beside, work_), depth + 1);
    if (const auto known = references_.find(name); known != references_.end()) return known->second;
    const Symbol rule = b_.declare(name);
    references_.emplace(name, rule);
    b_.define(rule, {{value(*target, depth + 1)}});
    return rule;
  }

  Json resolved(const Json& schema, int depth) {
    work_.add(schema);
    if (!schema.is_object() || !schema.contains("$ref") || depth > kMostSchemaDepth) return schema;
    const std::string name = schema["$ref"].is_string() ? schema["$ref"].get<std::string>() : "";
    if (!name.starts_with("#")) return schema;
    try {
      return resolved(root_.at(Json::json_pointer(name.substr(1))), depth + 1);
    } catch (const Json::exception&) {
      return schema;
    }
  }

  Symbol combined(const Json& schema, const char* key, int depth) {
    const Json& parts = schema[key];
    if (!parts.is_array() || parts.empty()) throw errorf("'{}' of the schema is not a list", key);
    Json base = schema;
    base.erase(key);
    base.erase("$defs");
    base.erase("definitions");
    const bool bare = std::all_of(base.items().begin(), base.items().end(),
                                  [](const auto& item) { return is_annotation(item.key()); });
    if (std::string_view(key) == "allOf") {
      for (const Json& part : parts) base = merge_schemas(base, resolved(part, 0), work_);
      return value(base, depth + 1);
    }
    std::vector<Symbols> choices;
    const bool one = std::string_view(key) == "oneOf";
    std::vector<Json> known;
    for (const Json& part : parts) known.push_back(bare && !one ? part : resolved(part, 0));
    if (one)
      for (size_t i = 0; i < known.size(); ++i)
        for (size_t j = i + 1; j < known.size(); ++j)
          if (!are_disjoint(known[i], known[j], work_))
            throw errorf("'oneOf' of the schema has branches that may both fit").hint("use 'anyOf'");
    for (size_t i = 0; i < known.size(); ++i)
      choices.push_back({value(bare ? parts[i] : merge_schemas(base, known[i], work_), depth + 1)});
    return b_.choice(choices);
  }

  Symbol constants(const Json& schema, const Json& values) {
    for (const auto& [key, unused] : schema.items())
      if (key != "enum" && key != "const" && key != "type" && key != "nullable" && !is_annotation(key))
        throw errorf("'{}' beside 'enum' or 'const' is not supported", key);
    if (!values.is_array() || values.empty()) throw errorf("'enum' of the schema has no values");
    const std::vector<std::string> types = types_of(schema);
    std::vector<Symbols> choices;
    for (const Json& v : values) {
      const std::string type = schema_type_of(v);
      const bool fits = std::any_of(types.begin(), types.end(), [&](const std::string& t) {
        return t == "any" || t == type || (t == "number" && type == "integer");
      });
      if (fits) choices.push_back(b_.literal(json_text(v)));
    }
    if (choices.empty()) throw errorf("'enum' of the schema has no value of its 'type'");
    return b_.choice(choices);
  }

  Symbol typed(const Json& schema, const std::string& type, int depth) {
    if (type == "any") return json_.generic_value();
    if (type == "object") return object(schema, depth);
    if (type == "array") return array(schema, depth);
    if (type == "string") return string(schema);
    if (type == "integer") return integer(schema);
    if (type == "number") return json_.number(lower_bound(schema), upper_bound(schema));
    if (type == "boolean") return b_.choice({b_.literal("true"), b_.literal("false")});
    if (type == "null") return b_.choice({b_.literal("null")});
    throw errorf("the schema names an unknown type").found(fmt::format("'{}'", type.substr(0, 60)));
  }

  Symbol integer(const Json& schema) {
    const auto low = lower_bound(schema), high = upper_bound(schema);
    std::optional<int64_t> least, most;
    if (low) least = whole(low->exclusive ? std::floor(low->value) + 1 : std::ceil(low->value));
    if (high) most = whole(high->exclusive ? std::ceil(high->value) - 1 : std::floor(high->value));
    return json_.integer(least, most);
  }

  Symbol string(const Json& schema) {
    const bool sized = schema.contains("minLength") || schema.contains("maxLength");
    const bool pattern = schema.contains("pattern"), format = schema.contains("format");
    if (pattern + format + sized > 1)
      throw errorf("'pattern', 'format' and lengths together are not supported").hint("keep one of them");
    if (pattern) {
      if (!schema["pattern"].is_string()) throw errorf("'pattern' of the schema is not a text");
      return json_.pattern(schema["pattern"].get<std::string>());
    }
    if (format) {
      for (const Format& f : kFormats)
        if (schema["format"] == Json(f.name)) return json_.pattern(f.pattern);
      throw errorf("the format {} of the schema is not supported", json_text(schema["format"]).substr(0, 60));
    }
    const int64_t least = count_of(schema, "minLength", 0), most = count_of(schema, "maxLength", -1);
    if (most >= 0 && most < least) throw errorf("'maxLength' of the schema is below 'minLength'");
    return json_.string(least, most);
  }

  Symbol one(char c) { return b_.literal(std::string(1, c))[0]; }

  Symbol array(const Json& schema, int depth) {
    int64_t least = count_of(schema, "minItems", 0), most = count_of(schema, "maxItems", -1);
    std::vector<Symbol> first;
    const Json none;
    const Json* items = schema.contains("items") ? &schema["items"] : &none;
    const Json* prefix = schema.contains("prefixItems") ? &schema["prefixItems"]
                         : items->is_array()            ? items
                                                        : &none;
    if (prefix == items) items = &none;
    for (const Json& part : *prefix) first.push_back(value(part, depth + 1));
    std::optional<Symbol> rest;
    if (items->is_object() || items->is_boolean()) {
      if (*items != Json(false)) rest = value(*items, depth + 1);
    } else if (first.empty()) {
      rest = json_.generic_value();
    }
    const auto listed = static_cast<int64_t>(first.size());
    if (!rest) most = most < 0 ? listed : std::min(most, listed);
    if (most >= 0 && most < least) throw errorf("'minItems' of the schema cannot be met");
    const Symbol comma = one(','), space = json_.space();
    // From the end to the start: what may follow when so many items stand there already.
    const int64_t fixed = std::max(least, most >= 0 ? most : std::max(least, listed));
    Symbol tail = most < 0 ? b_.repeat({comma, space, *rest}, 0) : b_.choice({{}});
    for (int64_t i = fixed; i-- > 0;) {
      const Symbol item = i < listed ? first[static_cast<size_t>(i)] : *rest;
      const Symbols one_more = i == 0 ? Symbols{item, tail} : Symbols{comma, space, item, tail};
      tail = i >= least ? b_.optional(one_more) : b_.choice({one_more});
    }
    if (fixed == 0 && most < 0) tail = b_.optional({*rest, tail});
    return b_.choice({{one('['), space, tail, space, one(']')}});
  }

  Symbol object(const Json& schema, int depth) {
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    if (!properties.is_object()) throw errorf("'properties' of the schema is not an object");
    std::vector<std::string> required;
    if (schema.contains("required"))
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) throw errorf("'required' of the schema is not a list of names");
        required.push_back(name.get<std::string>());
      }
    work_.add(required.size() * (properties.size() + required.size()));
    std::vector<std::pair<std::string, Json>> members;
    for (const auto& [name, part] : properties.items()) members.emplace_back(name, part);
    const auto more = schema.find("additionalProperties");
    const bool open = more != schema.end() ? *more != Json(false) : properties.empty();
    for (const std::string& name : required)
      if (!properties.contains(name)) {
        if (!open && more != schema.end())
          throw errorf("'required' of the schema names '{}', which it does not allow", name);
        members.emplace_back(name, more != schema.end() && more->is_object() ? *more : Json(true));
      }
    const Symbol comma = one(','), space = json_.space();
    Symbol first = b_.choice({{}}), later = b_.choice({{space}});
    if (open) {
      std::vector<std::string_view> names;
      for (const auto& [name, unused] : members) names.push_back(name);
      const Symbol key = names.empty() ? json_.string() : json_.string_but(names);
      const Symbol any = more != schema.end() ? value(*more, depth + 1) : json_.generic_value();
      const Symbol pair = b_.choice({{key, one(':'), space, any}});
      later = b_.choice({{b_.repeat({comma, space, pair}, 0), space}});
      first = b_.optional({pair, later});
    }
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      Symbols pair = json_.quoted(it->first);
      pair.insert(pair.end(), {one(':'), space, value(it->second, depth + 1)});
      const Symbol member = b_.choice({pair});
      const bool must = std::find(required.begin(), required.end(), it->first) != required.end();
      const Symbols here = {member, later}, then = {comma, space, member, later};
      first = must ? b_.choice({here}) : b_.choice({here, {first}});
      later = must ? b_.choice({then}) : b_.choice({then, {later}});
    }
    return b_.choice({{one('{'), space, first, one('}')}});
  }

  GrammarBuilder& b_;
  JsonText& json_;
  const Json& root_;
  std::map<std::string, Symbol> references_;
  SchemaWork& work_;
};

Symbol schema_rule(GrammarBuilder& builder, JsonText& json, const Json& schema, SchemaWork& work) {
  try {
    return SchemaRules(builder, json, schema, work).value(schema);
  } catch (const Json::exception&) {
    throw errorf("a keyword of the schema has a value of the wrong type");
  }
}

Grammar schema_grammar(const Json& schema) {
  GrammarBuilder builder;
  JsonText json(builder);
  SchemaWork work;
  return builder.finish(schema_rule(builder, json, schema, work));
}

Grammar json_grammar() { return schema_grammar(Json{{"type", "object"}}); }

}  // namespace anemone
