#include "mil/text_literal.h"

#include <cstring>

#include "base/half.h"
#include "base/shape.h"

namespace anemone {
namespace {

// Appends elements of one dtype, packed as a Constant holds them.
class ElementWriter {
 public:
  explicit ElementWriter(DType dtype) : dtype_(dtype), bits_(dtype_bits(dtype)) {}

  void add_float(double v) {
    if (dtype_ == DType::fp16) return put(half_from_float(static_cast<float>(v)));
    if (dtype_ == DType::bf16) return put(bfloat16_from_float(static_cast<float>(v)));
    if (dtype_ == DType::fp64) return put(v);
    put(static_cast<float>(v));
  }

  void add_int(uint64_t v) {
    if (bits_ >= 8) {
      const size_t n = static_cast<size_t>(bits_ / 8), at = bytes.size();
      bytes.resize(at + n);
      std::memcpy(bytes.data() + at, &v, n);
      return;
    }
    for (int b = 0; b < bits_; ++b, ++bit_) {
      if (bit_ % 8 == 0) bytes.push_back(std::byte{0});
      bytes.back() |= static_cast<std::byte>(((v >> b) & 1) << (bit_ % 8));
    }
  }

  Constant::Bytes bytes;

 private:
  template <class T>
  void put(T v) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof v);
    std::memcpy(bytes.data() + at, &v, sizeof v);
  }

  DType dtype_;
  int bits_;
  uint64_t bit_ = 0;
};

}  // namespace

Dim MilLiterals::dim() {
  if (accept('?')) return Dim::unknown();
  const uint64_t n = integer(DType::int64);
  if (n > INT64_MAX) throw at_here(errorf("a dimension is negative"));
  return static_cast<int64_t>(n);
}

Shape MilLiterals::shape() {
  Shape out;
  expect('[');
  if (accept(']')) return out;
  do out.push_back(dim());
  while (accept(','));
  expect(']');
  return out;
}

DType MilLiterals::dtype(const std::string& name) {
  const DType out = dtype_from_name(name);
  if (out == DType::none) throw at_here(errorf("unknown type '{}'", name));
  return out;
}

Type MilLiterals::type() {
  const Nest nest(*this);
  const std::string kind = word();
  Type out;
  if (kind == "tensor") {
    expect('<');
    const DType element = dtype(word());
    expect(',');
    out = Type::tensor(element, shape());
  } else if (kind == "state") {
    expect('<');
    const Type content = type();
    if (!content.is_tensor()) throw at_here(errorf("a state holds a tensor"));
    out = Type::state(content.dtype, content.shape);
  } else if (kind == "list") {
    expect('<');
    Type element = type();
    expect(',');
    out = Type::list(std::move(element), dim());
  } else if (kind == "dict" || kind == "tuple") {
    out.kind = kind == "dict" ? Type::Kind::dict : Type::Kind::tuple;
    expect('<');
    if (peek() != '>') {
      do out.items.push_back(type());
      while (accept(','));
    }
    if (kind == "dict" && out.items.size() != 2) throw at_here(errorf("a dict has two types"));
  } else {
    return Type::tensor(dtype(kind));  // a scalar by its bare name
  }
  expect('>');
  return out;
}

Constant MilLiterals::literal() {
  Type t = type();
  expect('(');
  Constant out = value(std::move(t));
  expect(')');
  return out;
}

Constant MilLiterals::value(Type t) {
  const Nest nest(*this);
  if (at_word("BLOBFILE")) return blob(std::move(t));
  return t.kind == Type::Kind::tensor ? tensor(std::move(t)) : compound(std::move(t));
}

Constant MilLiterals::compound(Type t) {
  Constant out;
  Constant::Items items;
  if (t.kind == Type::Kind::tuple) {
    expect('(');
    // A tuple is written with or without parentheses of its own inside the literal's.
    for (size_t i = 0; i < t.items.size(); ++i) {
      if (i) expect(',');
      items.push_back(value(t.items[i]));
    }
    expect(')');
  } else if (t.kind == Type::Kind::list) {
    expect('[');
    if (peek() != ']') {
      do items.push_back(value(t.items[0]));
      while (accept(','));
    }
    expect(']');
  } else if (t.kind == Type::Kind::dict) {
    expect('{');
    if (peek() != '}') {
      do {
        expect('{');
        items.push_back(value(t.items[0]));
        expect(',');
        items.push_back(value(t.items[1]));
        expect('}');
      } while (accept(','));
    }
    expect('}');
  } else {
    throw at_here(errorf("no literal of type {} exists", t.text()));
  }
  out.type = std::move(t);
  out.data = std::move(items);
  return out;
}

Constant MilLiterals::blob(Type t) {
  expect_word("BLOBFILE");
  expect('(');
  Blob b;
  for (int i = 0; i < 2; ++i) {
    if (i) expect(',');
    const std::string key = word();
    expect('=');
    const Constant c = literal();
    if (key == "path" && c.is_strings() && std::get<Constant::Strings>(c.data).size() == 1)
      b.file_name = std::get<Constant::Strings>(c.data)[0];
    else if (key == "offset" && c.type == Type::tensor(DType::uint64))
      std::memcpy(&b.record_offset, c.bytes().data(), 8);
    else
      throw at_here(errorf("a BLOBFILE has a path and an offset").found(key));
  }
  expect(')');
  if (resolve_) resolve_(b, t);
  return Constant::from_blob(std::move(t), std::move(b));
}

// One element, or elements in brackets nested to any depth.
template <class Element>
void MilLiterals::elements(const Element& element) {
  const Nest nest(*this);
  if (!accept('[')) return element();
  if (accept(']')) return;
  do elements(element);
  while (accept(','));
  expect(']');
}

Constant MilLiterals::tensor(Type t) {
  if (t.dtype == DType::string) {
    Constant out;
    Constant::Strings strings;
    elements([&] { strings.push_back(string()); });
    out.type = std::move(t);
    check_count(out.type, static_cast<int64_t>(strings.size()));
    out.data = std::move(strings);
    return out;
  }
  if (!t.fixed() && dtype_bits(t.dtype) < 8)  // packed: the bytes do not give the number of elements
    throw at_here(errorf("a literal of type {} needs a known size", t.text()));
  if (t.is_float() && dtype_bits(t.dtype) < 16)
    throw at_here(errorf("a literal of type {} cannot be read", t.text()).expected("it in a weight file"));
  ElementWriter writer(t.dtype);
  int64_t count = 0;
  elements([&] {
    ++count;
    if (t.dtype == DType::boolean)
      writer.add_int(boolean());
    else if (t.is_float())
      writer.add_float(floating());
    else
      writer.add_int(integer(t.dtype));
  });
  check_count(t, count);
  return Constant::from_bytes(std::move(t), std::move(writer.bytes));
}

void MilLiterals::check_count(const Type& t, int64_t count) {
  if (t.fixed() && t.size() != count)
    throw at_here(errorf("a literal of type {} has {} elements", t.text(), count));
}

}  // namespace anemone
