// Value: what a template computes with, shaped after Python's objects because templates rely on their details.
//     Value v = Value::list({Value(1), Value("two")});
//     v.is_list() and v.items()[1].text() == "two";
// Values are immutable and cheap to copy. What can change during a rendering (namespaces, loops, iterators) is an
// Object. The Runtime owns it and values hold its address, so that cycles do not leak and destructors do not recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace anemone::jinja {

class Object;
class Value;
struct Dict;

// Containers nest at most this deep; keeps every recursive walk and destruction off the end of the stack.
inline constexpr int kMaxNesting = 128;

struct Str {
  std::string text;     // UTF-8
  bool ascii = true;    // bytes are code points
  bool markup = false;  // made by `safe` or `escape`: is not escaped again
};

struct Sequence {
  std::vector<Value> items;
  int depth = 1;
  enum class Kind : uint8_t {
    list,
    tuple,
    group
  } kind = Kind::list;  // group: the (grouper, list) of groupby
};

enum class Type : uint8_t { undefined, none, boolean, integer, floating, string, sequence, dict, object };

class Value {
 public:
  Value() : data_(None{}) {}
  Value(const Value&);  // in the .cpp file: inlined, g++ 12 takes the variant for uninitialised
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  explicit Value(bool b) : data_(b) {}
  explicit Value(int64_t i) : data_(i) {}
  explicit Value(int i) : data_(int64_t{i}) {}
  explicit Value(double d) : data_(d) {}
  explicit Value(std::string text, bool markup = false);
  explicit Value(const char* text) : Value(std::string(text)) {}
  explicit Value(Object* object) : data_(object) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}

  // The message is what an operation on it will fail with: "'x' is undefined".
  static Value undefined(std::string message);
  static Value list(std::vector<Value> items) { return sequence(std::move(items), Sequence::Kind::list); }
  static Value tuple(std::vector<Value> items) { return sequence(std::move(items), Sequence::Kind::tuple); }
  static Value sequence(std::vector<Value> items, Sequence::Kind kind);

  Type type() const { return static_cast<Type>(data_.index()); }
  bool is_undefined() const { return type() == Type::undefined; }
  bool is_none() const { return type() == Type::none; }
  bool is_bool() const { return type() == Type::boolean; }
  bool is_int() const { return type() == Type::integer; }
  bool is_float() const { return type() == Type::floating; }
  bool is_string() const { return type() == Type::string; }
  bool is_sequence() const { return type() == Type::sequence; }
  bool is_list() const { return is_sequence() && seq().kind == Sequence::Kind::list; }
  bool is_tuple() const { return is_sequence() && seq().kind != Sequence::Kind::list; }
  bool is_dict() const { return type() == Type::dict; }
  bool is_object() const { return type() == Type::object; }
  bool is_integral() const { return is_int() || is_bool(); }  // a bool is an int, as in Python
  bool is_number() const { return is_integral() || is_float(); }

  const std::string& undefined_message() const { return *std::get<0>(data_); }
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? int64_t{as_bool()} : std::get<int64_t>(data_); }
  double as_double() const { return is_float() ? std::get<double>(data_) : static_cast<double>(as_int()); }
  const Str& str() const { return *std::get<std::shared_ptr<const Str>>(data_); }
  const std::string& text() const { return str().text; }
  const Sequence& seq() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const std::vector<Value>& items() const { return seq().items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object* object() const { return std::get<Object*>(data_); }
  template <class T>
  T* as() const {  // the object if it is a T, else null
    return is_object() ? dynamic_cast<T*>(object()) : nullptr;
  }

  int depth() const;                   // levels of containers
  const void* identity() const;        // address of the shared part, null for plain values
  std::string_view type_name() const;  // Python's: "str", "NoneType"

 private:
  struct None {};
  std::variant<std::shared_ptr<const std::string>, None, bool, int64_t, double, std::shared_ptr<const Str>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Object*>
      data_;
};

// A dict in insertion order. Keys are hashable values; 1, 1.0 and true are the same key.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;

  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

 private:
  size_t position(const Value& key, size_t hash) const;  // entries.size() where absent

  std::unordered_multimap<size_t, size_t> index_;  // hash → entry; filled once there are more than a few
};

// False for what Python would refuse as a key: lists, dicts.
bool hashable(const Value& v);
size_t hash(const Value& v);
// Equality of keys: as ==, for hashable values.
bool same_key(const Value& a, const Value& b);

}  // namespace anemone::jinja
