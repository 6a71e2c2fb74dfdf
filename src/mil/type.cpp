#include "mil/type.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {

int64_t Dim::size() const {
  ANEMONE_CHECK(known());
  return factor_;
}

Dim Dim::times(Dim other) const {
  if ((known() && factor_ == 0) || (other.known() && other.factor_ == 0)) return Dim(0);
  if (is_unknown() || other.is_unknown()) return unknown();
  Dim out;
  if (__builtin_mul_overflow(factor_, other.factor_, &out.factor_)) return unknown();
  std::array<uint16_t, 8> all{};
  std::copy(symbols_.begin(), symbols_.end(), all.begin());
  std::copy(other.symbols_.begin(), other.symbols_.end(), all.begin() + 4);
  std::sort(all.begin(), all.end(), std::greater<>());
  if (all[4] != 0) return unknown();
  std::copy(all.begin(), all.begin() + 4, out.symbols_.begin());
  return out;
}

std::optional<Dim> Dim::over(Dim other) const {
  if (is_unknown() || other.is_unknown()) return unknown();
  if (other.factor_ == 0 || factor_ % other.factor_ != 0) return std::nullopt;
  Dim out = *this;
  out.factor_ /= other.factor_;
  for (const uint16_t symbol : other.symbols_) {
    if (symbol == 0) break;
    const auto it = std::find(out.symbols_.begin(), out.symbols_.end(), symbol);
    if (it == out.symbols_.end()) return unknown();  // whether it divides is known only at run time
    std::copy(it + 1, out.symbols_.end(), it);
    out.symbols_.back() = 0;
  }
  return out;
}

std::string Dim::text() const {
  if (known()) return fmt::format("{}", factor_);
  if (is_unknown()) return "?";
  std::string out = factor_ == 1 ? "" : fmt::format("{}", factor_);
  for (const uint16_t symbol : symbols_)
    if (symbol != 0) out += fmt::format("{}s{}", out.empty() ? "" : "*", symbol);
  return out;
}

Type Type::tensor(DType dtype, Shape shape) {
  Type t;
  t.kind = Kind::tensor;
  t.dtype = dtype;
  t.shape = std::move(shape);
  return t;
}

Type Type::tensor(DType dtype, std::span<const int64_t> shape) { return tensor(dtype, to_shape(shape)); }

Type Type::state(DType dtype, Shape shape) {
  Type t = tensor(dtype, std::move(shape));
  t.kind = Kind::state;
  return t;
}

Type Type::list(Type element, Dim length) {
  Type t;
  t.kind = Kind::list;
  t.items.push_back(std::move(element));
  t.length = length;
  return t;
}

bool Type::fixed() const {
  if (kind == Kind::list) return items[0].fixed();
  return std::all_of(shape.begin(), shape.end(), [](Dim d) { return d.known(); });
}

std::vector<int64_t> Type::dims() const {
  std::vector<int64_t> out(shape.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = shape[i].size();
  return out;
}

int64_t Type::size() const { return element_count(dims()); }

std::string Type::text() const {
  switch (kind) {
    case Kind::none: return "none";
    case Kind::tensor: return fmt::format("tensor<{}, {}>", dtype_name(dtype), shape_text(shape));
    case Kind::state: return fmt::format("state<tensor<{}, {}>>", dtype_name(dtype), shape_text(shape));
    case Kind::list: return fmt::format("list<{}, {}>", items[0].text(), length.text());
    case Kind::dict: return fmt::format("dict<{}, {}>", items[0].text(), items[1].text());
    case Kind::tuple: {
      std::string out = "tuple<";
      for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + items[i].text();
      return out + ">";
    }
  }
  return "";
}

bool Type::operator==(const Type& other) const {
  return kind == other.kind && dtype == other.dtype && shape == other.shape && items == other.items &&
         (kind != Kind::list || length == other.length);
}

bool compatible(const Type& a, const Type& b) {
  const bool sized = a.kind != Type::Kind::dict;  // a file does not say how many values a dict has
  if (a.kind != b.kind || a.dtype != b.dtype || a.items.size() != b.items.size() ||
      (sized && a.shape.size() != b.shape.size()))
    return false;
  for (size_t i = 0; sized && i < a.shape.size(); ++i)
    if (a.shape[i].known() && b.shape[i].known() && a.shape[i] != b.shape[i]) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!compatible(a.items[i], b.items[i])) return false;
  return true;
}

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].text();
  return out + "]";
}

Shape to_shape(std::span<const int64_t> dims) { return {dims.begin(), dims.end()}; }

}  // namespace anemone
