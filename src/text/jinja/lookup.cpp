// a.b, a["b"], a[1:2]: Jinja's rules on top of Python's, inside the immutable sandbox.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

std::optional<size_t> wrapped_index(int64_t i, size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return std::nullopt;
  return static_cast<size_t>(i);
}

Value no_such(Runtime& rt, const Value& v, const Value& key) {
  if (key.is_string()) {
    return Value::undefined(fmt::format("'{}' has no attribute {}", object_type(v), rt.repr(key)));
  }
  return Value::undefined(fmt::format("{} has no element {}", object_type(v), rt.repr(key)));
}

struct SliceRange {
  int64_t start, stop, step;
  size_t count;
};

// Python's slice.indices().
SliceRange slice_range(const Value& start, const Value& stop, const Value& step, size_t size) {
  const auto index = [](const Value& v, int64_t absent) {
    refuse_undefined(v);
    if (v.is_none()) return absent;
    if (!v.is_integral()) throw errorf("slice indices must be integers or none, not {}", v.type_name());
    return v.as_int();
  };
  const auto n = static_cast<int64_t>(size);
  const int64_t by = std::clamp<int64_t>(index(step, 1), -n - 1, n + 1);
  if (by == 0 && index(step, 1) == 0) throw errorf("slice step cannot be zero");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  const auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? std::max(i, -n - 1) + n : i, low, high); };
  const int64_t from = start.is_none() ? (by > 0 ? low : high) : clamp(index(start, 0));
  const int64_t to = stop.is_none() ? (by > 0 ? high : low) : clamp(index(stop, 0));
  const int64_t distance = by > 0 ? to - from : from - to;
  const int64_t width = by > 0 ? by : -by;
  return {from, to, by, distance > 0 ? static_cast<size_t>((distance + width - 1) / width) : 0};
}

Value slice_string(Runtime& rt, const Value& v, const SliceRange& r) {
  const std::string& s = v.text();
  std::string out;
  if (v.str().ascii) {
    if (r.step == 1)
      return rt.str(s.substr(static_cast<size_t>(r.count ? r.start : 0), r.count), v.str().markup);
    int64_t at = r.start;
    for (size_t i = 0; i < r.count; ++i, at += r.step) out += s[static_cast<size_t>(at)];
    return rt.str(std::move(out), v.str().markup);
  }
  rt.step(s.size() / 8);
  if (r.step == 1) {
    const size_t begin = byte_offset(s, static_cast<size_t>(r.start));
    const size_t size = byte_offset(std::string_view(s).substr(begin), r.count);
    return rt.str(s.substr(begin, size), v.str().markup);
  }
  rt.charge(s.size() * 8);
  std::vector<size_t> offsets;
  for (size_t i = 0; i < s.size(); i += decode_at(s, i).bytes) offsets.push_back(i);
  int64_t at = r.start;
  for (size_t i = 0; i < r.count; ++i, at += r.step) {
    const size_t offset = offsets[static_cast<size_t>(at)];
    out.append(s, offset, decode_at(s, offset).bytes);
  }
  return rt.str(std::move(out), v.str().markup);
}

}  // namespace

Value Runtime::slice(const Value& v, const Value& start, const Value& stop, const Value& step_value) {
  refuse_undefined(v);
  const bool subscriptable =
      v.is_string() || v.is_sequence() || (v.is_object() && v.object()->is_subscriptable());
  if (!subscriptable) throw errorf("'{}' object cannot be sliced", v.type_name());
  const SliceRange r = slice_range(start, stop, step_value, need_length(v));
  if (v.is_string()) return slice_string(*this, v, r);
  const std::vector<Value>& items = v.is_sequence() ? v.items() : *v.object()->elements();
  std::vector<Value> out;
  out.reserve(r.count);
  int64_t at = r.start;
  for (size_t i = 0; i < r.count; ++i, at += r.step) out.push_back(items[static_cast<size_t>(at)]);
  if (const auto* range = v.as<Range>())
    return Value(range->part(*this, r.start, r.stop, r.step, std::move(out)));
  return sequence(std::move(out), v.is_tuple() ? Sequence::Kind::tuple : Sequence::Kind::list);
}

// v[key], or nothing where Python would raise TypeError or LookupError.
std::optional<Value> Runtime::subscript(const Value& v, const Value& key) {
  if (v.is_dict()) {
    if (!hashable(key)) return std::nullopt;
    const Value* found = v.dict().find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  const std::vector<Value>* items = v.is_sequence() ? &v.items() : nullptr;
  if (v.is_object() && v.object()->is_subscriptable()) items = v.object()->elements();
  if (items) {
    const std::optional<size_t> i = wrapped_index(key.as_int(), items->size());
    return i ? std::optional((*items)[*i]) : std::nullopt;
  }
  if (!v.is_string()) return std::nullopt;
  const std::optional<size_t> i = wrapped_index(key.as_int(), need_length(v));
  if (!i) return std::nullopt;
  if (!v.str().ascii) step(v.text().size() / 8);
  const size_t at = v.str().ascii ? *i : byte_offset(v.text(), *i);
  return str(v.text().substr(at, decode_at(v.text(), at).bytes), v.str().markup);
}

// getattr(v, name): methods, and what objects offer.
std::optional<Value> Runtime::own_attribute(const Value& v, std::string_view name) {
  const bool internal = name.starts_with("__") && name.ends_with("__") && name.size() > 4;
  if (is_mutating_method(v, name) || internal) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, v.type_name()));
  }
  if (v.is_object()) return v.object()->attribute(*this, name);
  if (const Method method = find_method(v, name))
    return Value(make<BoundMethod>(v, std::string(name), method));
  if (v.is_sequence() && v.seq().kind == Sequence::Kind::group) {
    if (name == "grouper") return v.items()[0];
    if (name == "list") return v.items()[1];
  }
  if (v.is_number()) {
    if (name == "real" || (name == "numerator" && v.is_integral())) return negate(v, false);
    if (name == "imag") return v.is_float() ? Value(0.0) : Value(0);
    if (name == "denominator" && v.is_integral()) return Value(1);
  }
  return std::nullopt;
}

Value Runtime::attribute(const Value& v, std::string_view name) {
  step();
  refuse_undefined(v);
  if (std::optional<Value> found = own_attribute(v, name)) return *std::move(found);
  if (v.is_dict()) {
    if (const Value* found = v.dict().find(name)) return *found;
  }
  return no_such(*this, v, Value(std::string(name)));
}

Value Runtime::item(const Value& v, const Value& key) {
  step();
  refuse_undefined(v);
  if (std::optional<Value> found = subscript(v, key)) return *std::move(found);
  if (key.is_string()) {
    if (std::optional<Value> found = own_attribute(v, key.text())) return *std::move(found);
  }
  return no_such(*this, v, key);
}

// v.name(args) without making an object for the method.
Value Runtime::call_method(const Value& v, std::string_view name, const Value&, const Args& args) {
  refuse_undefined(v);
  if (!v.is_object() && !is_mutating_method(v, name)) {
    if (const Method method = find_method(v, name)) {
      step();
      return method(*this, v, args);
    }
  }
  return call(attribute(v, name), args);
}

std::vector<Value> attribute_path(const Value& attribute) {
  if (attribute.is_none()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> path;
  const std::string& s = attribute.text();
  for (size_t begin = 0; begin <= s.size();) {
    const size_t end = std::min(s.find('.', begin), s.size());
    const std::string part = s.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string::npos;
    path.push_back(digits ? Value(static_cast<int64_t>(std::stoll(part))) : Value(part));
    begin = end + 1;
  }
  return path;
}

Value follow_path(Runtime& rt, Value v, const std::vector<Value>& path) {
  for (const Value& part : path) v = rt.item(v, part);
  return v;
}

}  // namespace anemone::jinja
