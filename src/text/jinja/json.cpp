// json.dumps for values, and values from nlohmann's JSON.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"
#include "text/jinja/builtins.h"
#include "text/jinja/from_json.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  void write(const Value& v, int level) {
    rt_.step();
    rt_.check_size(out.size());
    switch (v.type()) {
      case Type::none: out += "null"; break;
      case Type::boolean: out += v.as_bool() ? "true" : "false"; break;
      case Type::integer: out += fmt::format("{}", v.as_int()); break;
      case Type::floating: out += number(v.as_double()); break;
      case Type::string: quote(v.text()); break;
      case Type::sequence: write_array(v.items(), level); break;
      case Type::dict: write_object(v.dict(), level); break;
      default: throw errorf("object of type {} is not JSON serializable", v.type_name());
    }
  }

  std::string out;

 private:
  static std::string number(double d) {
    const std::string s = float_repr(d);
    if (s == "nan") return "NaN";
    if (s == "inf") return "Infinity";
    return s == "-inf" ? "-Infinity" : s;
  }

  void new_line(int level) {
    if (!style_.multiline) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += style_.indent;
    rt_.charge(style_.indent.size() * static_cast<size_t>(level));
  }

  void write_array(const std::vector<Value>& items, int level) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    out += ']';
  }

  std::string key_text(const Value& key) {
    switch (key.type()) {
      case Type::string: return key.text();
      case Type::none: return "null";
      case Type::boolean: return key.as_bool() ? "true" : "false";
      case Type::integer: return fmt::format("{}", key.as_int());
      case Type::floating: return number(key.as_double());
      default:
        throw errorf("keys of JSON must be strings, numbers, booleans or none, not {}", key.type_name());
    }
  }

  void write_object(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return rt_.less(a->first, b->first); });
    }
    out += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(level + 1);
      quote(key_text(entries[i]->first));
      out += style_.key_separator;
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    out += '}';
  }

  void quote(std::string_view text) {
    rt_.step(text.size() / 16);
    out += '"';
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = decode_at(text, i);
      if (!short_escape(c.value)) {
        if (c.value < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.value));
        } else if (c.value > 0x7e && style_.ensure_ascii && c.value <= 0x10ffff) {
          ascii_escape(c.value);
        } else {
          out.append(text, i, c.bytes);
        }
      }
      i += c.bytes;
    }
    out += '"';
  }

  bool short_escape(char32_t c) {
    switch (c) {
      case '"': out += "\\\""; return true;
      case '\\': out += "\\\\"; return true;
      case '\n': out += "\\n"; return true;
      case '\r': out += "\\r"; return true;
      case '\t': out += "\\t"; return true;
      case '\b': out += "\\b"; return true;
      case '\f': out += "\\f"; return true;
      default: return false;
    }
  }

  void ascii_escape(char32_t c) {
    if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }

  Runtime& rt_;
  const JsonStyle& style_;
};

Value convert(const nlohmann::ordered_json& j, int depth) {
  if (depth > kMaxNesting) throw errorf("the JSON nests more than {} levels deep", kMaxNesting);
  using Json = nlohmann::ordered_json;
  switch (j.type()) {
    case Json::value_t::boolean: return Value(j.get<bool>());
    case Json::value_t::number_integer: return Value(j.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto u = j.get<uint64_t>();
      if (u > static_cast<uint64_t>(INT64_MAX)) throw errorf("the integer {} does not fit 64 bits", u);
      return Value(static_cast<int64_t>(u));
    }
    case Json::value_t::number_float: return Value(j.get<double>());
    case Json::value_t::string: return Value(j.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : j) items.push_back(convert(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : j.items()) dict.set(Value(key), convert(item, depth + 1));
      return Value(std::make_shared<const Dict>(std::move(dict)));
    }
    default: return Value();
  }
}

}  // namespace

std::string dump_json(Runtime& rt, const Value& v, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  writer.write(v, 0);
  return std::move(writer.out);
}

Value from_json(const nlohmann::ordered_json& j) { return convert(j, 1); }

Value parse_json(std::string_view text) {
  try {
    return from_json(nlohmann::ordered_json::parse(text));
  } catch (const nlohmann::json::exception& e) {
    throw json_error(e, text, "cannot be read as JSON");
  }
}

}  // namespace anemone::jinja
