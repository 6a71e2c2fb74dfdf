// Types and constants into protobuf, in the forms that coremltools writes.
#include <algorithm>
#include <cstring>

#include "base/shape.h"
#include "package/value_codec.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::Message;

Message dim_message(const Dim& dim) {
  Message out;
  if (dim.known()) {
    Message size;
    size.unsigned_integer(1, static_cast<uint64_t>(dim.size()));
    out.message(1, size);
  } else {
    out.data(2, "");
  }
  return out;
}

Message tensor_type(const Type& type) {
  Message out;
  const int64_t code = dtype_code(type.dtype);
  if (code == 0) throw errorf("the type {} cannot be written", type.text());
  out.integer(1, code);
  out.integer(2, type.rank());
  for (const Dim& dim : type.shape) out.message(3, dim_message(dim));
  return out;
}

Message type_message(const Type& type) {
  Message out;
  Message inner;
  switch (type.kind) {
    case Type::Kind::none: throw Error("a value has no type");
    case Type::Kind::tensor: out.message(1, tensor_type(type)); break;
    case Type::Kind::list:
      inner.message(1, type_message(type.items[0]));
      inner.message(2, dim_message(type.length));
      out.message(2, inner);
      break;
    case Type::Kind::tuple:
      for (const Type& item : type.items) inner.message(1, type_message(item));
      out.message(3, inner);
      break;
    case Type::Kind::dict:
      inner.message(1, type_message(type.items[0]));
      inner.message(2, type_message(type.items[1]));
      out.message(4, inner);
      break;
    case Type::Kind::state: {
      Message wrapped;
      wrapped.message(1, tensor_type(type));
      inner.message(1, wrapped);
      out.message(5, inner);
      break;
    }
  }
  return out;
}

template <class T>
std::vector<int64_t> widen(std::span<const std::byte> bytes) {
  std::vector<int64_t> out(bytes.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int64_t>(value);
  }
  return out;
}

// Which member of TensorValue holds a dtype, and its content.
Message tensor_value(const Constant& constant) {
  Message out, values;
  if (const auto* strings = std::get_if<Constant::Strings>(&constant.data)) {
    for (const std::string& text : *strings) values.data(1, text);
    out.message(4, values);
    return out;
  }
  Constant::Bytes made;
  std::span<const std::byte> bytes;
  if (const auto* source = std::get_if<Constant::Source>(&constant.data)) {
    // Too small for the weight file: made here.
    const Type& type = (*source)->type();
    made.resize(packed_bytes(type.size(), dtype_bits(type.dtype)));
    (*source)->rows(0, type.rank() == 0 ? 1 : type.dim(0).size(), made);
    bytes = made;
  } else {
    bytes = constant.bytes();
  }
  const std::string_view raw(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (constant.type.dtype) {
    case DType::fp32: values.text(1, raw), out.message(1, values); break;
    case DType::int32: values.integers(1, widen<int32_t>(bytes)), out.message(2, values); break;
    case DType::int16: values.integers(1, widen<int16_t>(bytes)), out.message(2, values); break;
    case DType::uint16: values.integers(1, widen<uint16_t>(bytes)), out.message(2, values); break;
    case DType::boolean: values.text(1, raw), out.message(3, values); break;
    case DType::int64:
    case DType::uint64: values.integers(1, widen<int64_t>(bytes)), out.message(5, values); break;
    case DType::fp64: values.text(1, raw), out.message(6, values); break;
    default: values.text(1, raw), out.message(7, values);
  }
  return out;
}

Message constant_message(const Constant& constant, const BlobPlacer& place);

Message immediate(const Constant& constant, const BlobPlacer& place) {
  Message out;
  const auto* items = std::get_if<Constant::Items>(&constant.data);
  if (!items) {
    constant.check_size();
    out.message(1, tensor_value(constant));
    return out;
  }
  Message list;
  if (constant.type.kind != Type::Kind::dict) {
    for (const Constant& item : *items) list.message(1, constant_message(item, place));
    out.message(constant.type.kind == Type::Kind::tuple ? 2 : 3, list);
    return out;
  }
  if (items->size() % 2 != 0) throw Error("a dictionary constant has a key without a value");
  for (size_t i = 0; i < items->size(); i += 2) {
    Message pair;
    pair.message(1, constant_message((*items)[i], place));
    pair.message(2, constant_message((*items)[i + 1], place));
    list.message(1, pair);
  }
  out.message(4, list);
  return out;
}

// A constant's `extra`, taken apart: fields of the Value itself, and what belongs inside its value.
struct Extra {
  std::string fields;                         // of the Value
  std::optional<std::string_view> immediate;  // the immediate value as it was
  std::string_view blob;                      // further fields of the blob reference
};

Extra split_extra(const Constant& constant) {
  Extra out;
  for (wire::Fields f(constant.extra); f.next();) switch (f.key()) {
      case wire::bytes(3): out.immediate = f.view(); break;
      case wire::bytes(5): out.blob = f.view(); break;
      default: f.keep(out.fields);
    }
  return out;
}

bool same_items(const Constant& a, const Constant& b) {
  const auto* x = std::get_if<Constant::Items>(&a.data);
  const auto* y = std::get_if<Constant::Items>(&b.data);
  if (a.type != b.type || (x != nullptr) != (y != nullptr)) return false;
  if (x) return std::equal(x->begin(), x->end(), y->begin(), y->end(), same_items);
  // A blob inside a tuple may move, so the message as it was no longer holds.
  if (a.is_blob() || b.is_blob() || a.is_strings() != b.is_strings()) return false;
  if (a.is_strings()) return std::get<Constant::Strings>(a.data) == std::get<Constant::Strings>(b.data);
  return std::ranges::equal(a.bytes(), b.bytes());
}

// Whether an immediate value kept from the file still says what the constant says.
bool still_holds(std::string_view original, const Constant& constant) {
  Message value;
  value.data(2, encode_type(constant.type));
  value.data(3, original);
  try {
    const auto no_blobs = [](const std::string&, uint64_t, const Type&) -> Blob {
      throw Error("no blobs here");
    };
    return same_items(decode_constant(value.bytes(), no_blobs), constant);
  } catch (const Error&) {
    return false;
  }
}

Message constant_message(const Constant& constant, const BlobPlacer& place) {
  const auto* source = std::get_if<Constant::Source>(&constant.data);
  const Extra extra = split_extra(constant);
  Message out;
  out.data(2, encode_type(source ? (*source)->type() : constant.type));
  if (const std::optional<uint64_t> offset = place(constant)) {
    Message blob;
    blob.text(1, kWeightFileName);
    blob.unsigned_integer(2, *offset);
    blob.raw(extra.blob);
    out.message(5, blob);
  } else if (extra.immediate && still_holds(*extra.immediate, constant)) {
    out.data(3, *extra.immediate);
  } else {
    out.message(3, immediate(constant, place));
  }
  out.raw(extra.fields);
  return out;
}

}  // namespace

std::string encode_type(const Type& type) {
  if (!type.extra.empty()) {
    try {
      if (decode_type(type.extra) == type) return type.extra;
    } catch (const std::exception&) {  // changed by hand: written from its members
    }
  }
  return type_message(type).bytes();
}

std::string encode_constant(const Constant& constant, const BlobPlacer& place) {
  return constant_message(constant, place).bytes();
}

}  // namespace anemone
