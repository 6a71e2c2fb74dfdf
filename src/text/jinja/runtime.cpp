#include "text/jinja/runtime.h"

#include "base/error.h"
#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

constexpr uint64_t kElementBytes = 16;

Error limit_error(std::string_view limit, uint64_t value) {
  return errorf("the template hit the limit on {} ({})", limit, value)
      .hint("the template does not end, or asks for too much");
}

}  // namespace

std::string Object::repr(Runtime&) const { return fmt::format("<{} object>", type_name()); }

Value Object::call(Runtime&, const Args&) { throw errorf("'{}' object is not callable", type_name()); }

Iter::Iter(Runtime& rt, const Value& source) : rt_(rt), source_(source) {
  if (!rt.is_iterable(source)) throw errorf("'{}' object is not iterable", source.type_name());
}

bool Iter::next(Value& out) {
  rt_.step();
  switch (source_.type()) {
    case Type::sequence:
      if (at_ >= source_.items().size()) return false;
      out = source_.items()[at_++];
      return true;
    case Type::dict:
      if (at_ >= source_.dict().entries.size()) return false;
      out = source_.dict().entries[at_++].first;
      return true;
    case Type::string: {
      if (at_ >= source_.text().size()) return false;
      const size_t n = decode_at(source_.text(), at_).bytes;
      out = rt_.str(source_.text().substr(at_, n));
      at_ += n;
      return true;
    }
    case Type::object: {
      if (source_.object()->is_iterator()) return source_.object()->next(rt_, out);
      const std::vector<Value>& elements = *source_.object()->elements();
      if (at_ >= elements.size()) return false;
      out = elements[at_++];
      return true;
    }
    default: return false;  // undefined: empty
  }
}

Runtime::Deeper::Deeper(Runtime& rt) : rt_(rt) {
  if (++rt.depth_ > rt.limits_.depth) {
    --rt.depth_;
    throw limit_error("recursion depth", static_cast<uint64_t>(rt.limits_.depth));
  }
}

void Runtime::out_of_steps() const { throw limit_error("steps", limits_.steps); }

void Runtime::charge(uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.total_bytes) throw limit_error("bytes of all values together", limits_.total_bytes);
  step(1 + bytes / 64);
}

void Runtime::check_size(uint64_t bytes) const {
  if (bytes > limits_.value_bytes) throw limit_error("bytes of one value", limits_.value_bytes);
}

Value Runtime::str(std::string text, bool markup) {
  check_size(text.size());
  charge(text.size() + 48);
  return Value(std::move(text), markup);
}

Value Runtime::sequence(std::vector<Value> items, Sequence::Kind kind) {
  check_size(items.size() * kElementBytes);
  charge(items.size() * kElementBytes + 48);
  return Value::sequence(std::move(items), kind);
}

Value Runtime::dict(Dict dict) {
  check_size(dict.entries.size() * 2 * kElementBytes);
  charge(dict.entries.size() * 2 * kElementBytes + 48);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

void Runtime::push(std::vector<Value>& items, Value v) {
  items.push_back(std::move(v));
  check_size(items.size() * kElementBytes);
  charge(kElementBytes);
}

void Runtime::set(Dict& dict, const Value& key, Value value) {
  if (!hashable(key)) throw errorf("a {} cannot be the key of a dict", key.type_name());
  dict.set(key, std::move(value));
  check_size(dict.entries.size() * 2 * kElementBytes);
  charge(2 * kElementBytes);
}

Value Runtime::generator(std::function<bool(Value&)> next) { return Value(make<Generator>(std::move(next))); }

Value Runtime::call(const Value& callee, const Args& args) {
  refuse_undefined(callee);
  if (!callee.is_object() || !callee.object()->is_callable()) {
    throw errorf("'{}' object is not callable", callee.type_name());
  }
  const Deeper deeper(*this);
  return callee.object()->call(*this, args);
}

void refuse_undefined(const Value& v) {
  if (v.is_undefined()) throw Error(v.undefined_message());
}

std::string object_type(const Value& v) {
  if (v.is_none()) return "None";
  return fmt::format("{} object", v.type_name());
}

}  // namespace anemone::jinja
