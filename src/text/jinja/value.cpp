#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "text/jinja/runtime.h"

namespace anemone::jinja {
namespace {

constexpr size_t kLinearEntries = 8;  // below this a scan beats a hash table

int nested(int depth) {
  if (depth >= kMaxNesting) {
    throw errorf("a value nests more than {} containers deep", kMaxNesting).hint("limit: value nesting");
  }
  return depth + 1;
}

}  // namespace

Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value::Value(std::string text, bool markup) {
  const bool ascii = std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
  data_ = std::make_shared<const Str>(Str{std::move(text), ascii, markup});
}

Value Value::undefined(std::string message) {
  Value v;
  v.data_ = std::make_shared<const std::string>(std::move(message));
  return v;
}

Value Value::sequence(std::vector<Value> items, Sequence::Kind kind) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  Value v;
  v.data_ = std::make_shared<const Sequence>(Sequence{std::move(items), nested(depth), kind});
  return v;
}

int Value::depth() const {
  if (is_sequence()) return seq().depth;
  return is_dict() ? dict().depth : 0;
}

const void* Value::identity() const {
  switch (type()) {
    case Type::string: return &str();
    case Type::sequence: return &seq();
    case Type::dict: return &dict();
    case Type::object: return object();
    case Type::undefined: return &undefined_message();
    default: return nullptr;
  }
}

std::string_view Value::type_name() const {
  switch (type()) {
    case Type::undefined: return "Undefined";
    case Type::none: return "NoneType";
    case Type::boolean: return "bool";
    case Type::integer: return "int";
    case Type::floating: return "float";
    case Type::string: return str().markup ? "Markup" : "str";
    case Type::sequence: return is_list() ? "list" : "tuple";
    case Type::dict: return "dict";
    case Type::object: break;
  }
  return object()->type_name();
}

size_t Dict::position(const Value& key, size_t hash_of_key) const {
  if (index_.empty()) {
    size_t i = 0;
    while (i < entries.size() && !same_key(entries[i].first, key)) ++i;
    return i;
  }
  const auto [begin, end] = index_.equal_range(hash_of_key);
  for (auto it = begin; it != end; ++it) {
    if (same_key(entries[it->second].first, key)) return it->second;
  }
  return entries.size();
}

void Dict::set(Value key, Value value) {
  depth = std::max(depth, nested(std::max(key.depth(), value.depth())));
  const size_t h = hash(key);
  const size_t at = position(key, h);
  if (at < entries.size()) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (!index_.empty()) {
    index_.emplace(h, at);
  } else if (entries.size() > kLinearEntries) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(hash(entries[i].first), i);
  }
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(key, index_.empty() ? 0 : hash(key));
  return at < entries.size() ? &entries[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(Value(std::string(key)));
  for (const auto& [k, v] : entries) {
    if (k.is_string() && k.text() == key) return &v;
  }
  return nullptr;
}

bool hashable(const Value& v) {
  if (v.is_dict() || v.is_list()) return false;
  if (v.is_object()) return v.object()->is_hashable();
  if (!v.is_tuple()) return true;
  return std::all_of(v.items().begin(), v.items().end(), hashable);
}

size_t hash(const Value& v) {
  switch (v.type()) {
    case Type::undefined: return 1;
    case Type::none: return 2;
    case Type::boolean:
    case Type::integer:
    case Type::floating: return std::hash<double>()(v.as_double());
    case Type::string: return std::hash<std::string>()(v.text());
    case Type::sequence: {
      size_t h = 3;
      for (const Value& item : v.items()) h = h * 1000003 + hash(item);
      return h;
    }
    default: return std::hash<const void*>()(v.identity());
  }
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_string()) return b.is_string() && a.text() == b.text();
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_number()) return b.is_number() && a.as_double() == b.as_double();
  if (a.type() != b.type()) return false;
  if (a.is_sequence()) {
    return a.is_tuple() == b.is_tuple() &&
           std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same_key);
  }
  return a.is_none() || a.is_undefined() || a.identity() == b.identity();
}

}  // namespace anemone::jinja
