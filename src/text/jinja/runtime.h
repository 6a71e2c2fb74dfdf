// Runtime: what one rendering may use up, and the Python semantics of its values: text, truth, operators, look-ups.
//     Runtime rt(limits, clock);
//     Value sum = rt.binary(Op::add, Value(1), Value(2.5));   // 3.5
// Everything that takes time or memory in proportion to a template's wishes goes through step() or charge().
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace anemone::jinja {

class Runtime;

struct Limits {
  uint64_t steps = 50'000'000;               // operations, loop turns, elements looked at
  uint64_t output_bytes = 64 << 20;          // the rendered text
  uint64_t value_bytes = 64 << 20;           // one string; a list counts 16 bytes an element
  uint64_t total_bytes = uint64_t{1} << 30;  // all values ever made, dead or alive
  int depth = 400;                           // expressions, statements, macro calls inside each other
};

using Clock = std::function<std::tm()>;  // local time

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Something with behaviour: a method, a macro, a namespace, an iterator. Owned by its Runtime.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::string repr(Runtime& rt) const;
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime& rt, const Args& args);
  // A one-pass iterator answers next(); what can be walked again gives its elements.
  virtual bool is_iterator() const { return false; }
  virtual bool next(Runtime&, Value&) { return false; }
  virtual const std::vector<Value>* elements() const { return nullptr; }
  virtual bool is_subscriptable() const { return false; }  // elements by index
  virtual bool is_hashable() const { return true; }
};

// Walks whatever Python can iterate over.
class Iter {
 public:
  Iter(Runtime& rt, const Value& source);  // throws where it cannot be walked
  bool next(Value& out);

 private:
  Runtime& rt_;
  Value source_;
  size_t at_ = 0;
};

class Runtime {
 public:
  Runtime(const Limits& limits, Clock clock) : limits_(limits), clock_(std::move(clock)) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  const Clock& clock() const { return clock_; }
  void step(uint64_t n = 1) {
    if ((steps_ += n) > limits_.steps) out_of_steps();
  }
  void charge(uint64_t bytes);            // memory that a template made us allocate
  void check_size(uint64_t bytes) const;  // of one value, before it is made
  class Deeper {
   public:
    explicit Deeper(Runtime& rt);
    ~Deeper() { --rt_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Runtime& rt_;
  };

  // Values, charged for.
  Value str(std::string text, bool markup = false);
  Value list(std::vector<Value> items) { return sequence(std::move(items), Sequence::Kind::list); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), Sequence::Kind::tuple); }
  Value sequence(std::vector<Value> items, Sequence::Kind kind);
  Value dict(Dict dict);
  void push(std::vector<Value>& items, Value v);        // append and charge
  void set(Dict& dict, const Value& key, Value value);  // refuses keys that cannot be hashed
  template <class T, class... A>
  T* make(A&&... args) {
    charge(sizeof(T) + 64);
    auto owned = std::make_unique<T>(std::forward<A>(args)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }
  // A one-pass iterator over what `next` yields until it returns false.
  Value generator(std::function<bool(Value&)> next);

  // repr.cpp
  std::string text(const Value& v);  // str(v)
  std::string repr(const Value& v);

  // ops.cpp
  bool truth(const Value& v) const;
  bool equal(const Value& a, const Value& b);
  bool less(const Value& a, const Value& b, std::string_view op = "<");
  bool contains(const Value& container, const Value& v);
  bool compare(Op op, const Value& a, const Value& b);
  Value binary(Op op, const Value& a, const Value& b);
  Value negate(const Value& v, bool minus);
  std::optional<size_t> length(const Value& v) const;
  size_t need_length(const Value& v) const;
  bool is_iterable(const Value& v) const;
  std::vector<Value> to_vector(const Value& v);

  // lookup.cpp
  Value attribute(const Value& v, std::string_view name);  // v.name: attribute, then item
  Value item(const Value& v, const Value& key);            // v[key]: item, then attribute
  Value slice(const Value& v, const Value& start, const Value& stop, const Value& step);
  std::optional<Value> own_attribute(const Value& v, std::string_view name);
  Value call(const Value& callee, const Args& args);
  Value call_method(const Value& v, std::string_view name, const Value& key, const Args& args);

 private:
  friend class Iter;
  [[noreturn]] void out_of_steps() const;
  void repr_into(std::string& out, const Value& v);
  void repr_items(std::string& out, const std::vector<Value>& items);
  std::optional<Value> subscript(const Value& v, const Value& key);

  Limits limits_;
  Clock clock_;
  uint64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

// "'x' is undefined" and its kin become an Error here: any use that Python's Undefined refuses.
void refuse_undefined(const Value& v);
// How Jinja calls a value in messages: "dict object", "None".
std::string object_type(const Value& v);

}  // namespace anemone::jinja
