// Types and constants out of protobuf: ValueType, Value, TensorValue.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/shape.h"
#include "package/value_codec.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::bytes;
using wire::Fields;
using wire::varint;

struct DTypeCode {
  DType dtype;
  int64_t code;
};
constexpr DTypeCode kCodes[] = {
    {DType::boolean, 1},     {DType::string, 2},    {DType::fp16, 10},   {DType::fp32, 11},
    {DType::fp64, 12},       {DType::bf16, 13},     {DType::int8, 21},   {DType::int16, 22},
    {DType::int32, 23},      {DType::int64, 24},    {DType::int4, 25},   {DType::uint8, 31},
    {DType::uint16, 32},     {DType::uint32, 33},   {DType::uint64, 34}, {DType::uint4, 35},
    {DType::uint2, 36},      {DType::uint1, 37},    {DType::uint6, 38},  {DType::uint3, 39},
    {DType::fp8_e4m3fn, 40}, {DType::fp8_e5m2, 41},
};

void check_depth(int depth, const char* what) {
  if (depth > wire::kMaxDepth)
    throw errorf("{} nest too deep", what).expected(fmt::format("at most {} levels", wire::kMaxDepth));
}

Dim read_dim(std::string_view message, bool& odd) {
  std::optional<Dim> out;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1): {
        uint64_t size = 0;
        for (Fields g(f.view()); g.next();) {
          if (g.key() == varint(1))
            size = g.unsigned_integer();
          else
            g.keep(rest), odd = true;
        }
        if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          throw errorf("a dimension of size {} is too large", size);
        out = Dim(static_cast<int64_t>(size));
        break;
      }
      case bytes(2):
        for (Fields g(f.view()); g.next();) {
          // variadic, 1: any number of dimensions (what `fill` with a computed shape gives). Types have no
          // such thing: it counts as one unknown dimension, and the message is kept as it was.
          g.keep(rest), odd = true;
        }
        out = Dim::unknown();
        break;
      default: f.keep(rest); odd = true;
    }
  if (!out) throw Error("a dimension is neither a size nor unknown");
  return *out;
}

Type read_tensor(std::string_view message, bool& odd) {
  Type out = Type::tensor(DType::none);
  int64_t rank = 0;
  int64_t code = 0;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case varint(1): code = f.integer(); break;
      case varint(2): rank = f.integer(); break;
      case bytes(3): out.shape.push_back(read_dim(f.view(), odd)); break;
      default: f.keep(rest); odd = true;  // attributes, 4, among them
    }
  out.dtype = dtype_from_code(code);
  if (out.dtype == DType::none) throw errorf("the element type code {} is not known", code);
  if (rank < 0) throw Error("a type has a variable rank, which is not supported");
  if (rank != out.rank()) throw errorf("a type of rank {} has {} dimensions", rank, out.rank());
  if (out.fixed()) element_count(out.dims());  // throws where the product overflows
  return out;
}

Type read_type(std::string_view message, int depth, bool& odd);

// The members that list, tuple, dictionary and state types share: value types in fields 1 (and 2).
void read_items(std::string_view message, Type& out, int depth, bool& odd) {
  std::string rest;
  bool has_length = false;
  for (Fields f(message); f.next();) {
    const bool is_item = f.key() == bytes(1) || (f.key() == bytes(2) && out.kind == Type::Kind::dict);
    if (is_item && out.kind == Type::Kind::dict && out.items.size() != f.tag() - 1)
      throw Error("a dictionary type needs one key type and one value type, in this order");
    if (is_item) {
      out.items.push_back(read_type(f.view(), depth + 1, odd));
    } else if (f.key() == bytes(2) && out.kind == Type::Kind::list) {
      out.length = read_dim(f.view(), odd);
      has_length = true;
    } else {
      f.keep(rest), odd = true;
    }
  }
  const size_t want = out.kind == Type::Kind::dict ? 2 : 1;
  if (out.kind != Type::Kind::tuple && out.items.size() != want)
    throw errorf("a list, dictionary or state type has {} inner types", out.items.size())
        .expected(fmt::format("{}", want));
  if (out.kind == Type::Kind::list && !has_length) out.length = Dim::unknown(), odd = true;
}

Type read_type(std::string_view message, int depth, bool& odd) {
  check_depth(depth, "types");
  Type out;
  std::string rest;
  for (Fields f(message); f.next();) {
    const uint32_t tag = f.tag();
    if (tag < 1 || tag > 5 || f.key() != bytes(tag)) {
      f.keep(rest), odd = true;
      continue;
    }
    if (out.kind != Type::Kind::none) throw Error("a value has two types");
    if (tag == 1) {
      out = read_tensor(f.view(), odd);
      continue;
    }
    constexpr Type::Kind kinds[] = {Type::Kind::list, Type::Kind::tuple, Type::Kind::dict, Type::Kind::state};
    out.kind = kinds[tag - 2];
    read_items(f.view(), out, depth, odd);
    if (out.kind != Type::Kind::state) continue;
    if (!out.items[0].is_tensor())
      throw Error("a state holds something that is not a tensor").found(out.items[0].text());
    out = Type::state(out.items[0].dtype, out.items[0].shape);
  }
  if (out.kind == Type::Kind::none) throw Error("a value has no type");
  return out;
}

// ---- tensor values

template <class T>
void put(Constant::Bytes& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <class T>
void put_checked(Constant::Bytes& out, int64_t value) {
  if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
    throw errorf("the value {} does not fit its type", value);
  put(out, static_cast<T>(value));
}

void put_integer(Constant::Bytes& out, DType dtype, int64_t value) {
  switch (dtype) {
    case DType::boolean:
      if (value != 0 && value != 1) throw errorf("a bool has the value {}", value);
      return put(out, static_cast<uint8_t>(value));
    case DType::int8: return put_checked<int8_t>(out, value);
    case DType::int16: return put_checked<int16_t>(out, value);
    case DType::int32: return put_checked<int32_t>(out, value);
    case DType::uint8: return put_checked<uint8_t>(out, value);
    case DType::uint16: return put_checked<uint16_t>(out, value);
    case DType::uint32: return put_checked<uint32_t>(out, value);
    case DType::int64:
    case DType::uint64: return put(out, value);  // the same 64 bits
    default: throw errorf("integers cannot hold values of {}", dtype_name(dtype));
  }
}

// One member of a tensor value: a message with the field `values`. `member` is its number in the oneof.
void read_values(std::string_view message, uint32_t member, Constant& out, bool& odd) {
  const DType dtype = out.type.dtype;
  constexpr uint32_t kFloats = 1, kStrings = 4, kDoubles = 6, kBytes = 7;
  if ((member == kFloats && dtype != DType::fp32) || (member == kDoubles && dtype != DType::fp64) ||
      (member == kStrings) != (dtype == DType::string))
    throw errorf("a constant of {} is stored in the wrong kind of field ({})", dtype_name(dtype), member);
  Constant::Bytes data;
  Constant::Strings strings;
  std::vector<int64_t> integers;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (member == kStrings && f.key() == bytes(1)) {
      strings.push_back(f.text());
    } else if ((member == kBytes || member == kFloats || member == kDoubles) && f.key() == bytes(1)) {
      const std::string_view view = f.view();
      const auto* p = reinterpret_cast<const std::byte*>(view.data());
      data.insert(data.end(), p, p + view.size());
    } else if (member == kFloats && f.key() == wire::fixed32(1)) {
      put(data, f.float32());
    } else if (member == kDoubles && f.key() == wire::fixed64(1)) {
      put(data, f.float64());
    } else if (member != kStrings && member != kBytes && member != kFloats && member != kDoubles &&
               (f.key() == bytes(1) || f.key() == varint(1))) {
      f.integers(integers);
    } else {
      f.keep(rest), odd = true;
    }
  }
  for (const int64_t value : integers)
    put_integer(data, dtype, member == 2 ? static_cast<int32_t>(value) : value);
  if (dtype == DType::boolean && member == kBytes &&
      std::ranges::any_of(data, [](std::byte b) { return b > std::byte{1}; }))
    throw Error("a bool is neither 0 nor 1");
  if (member == kStrings)
    out.data = std::move(strings);
  else
    out.data = std::move(data);
}

void read_tensor_value(std::string_view message, Constant& out, bool& odd) {
  if (!out.type.is_tensor()) throw Error("a tensor value has another type").found(out.type.text());
  if (!out.type.fixed()) throw Error("a constant has a type without a fixed shape").found(out.type.text());
  bool seen = false;
  std::string rest;
  for (Fields f(message); f.next();) {
    const uint32_t tag = f.tag();
    if (tag < 1 || tag > 7 || f.key() != bytes(tag)) {
      f.keep(rest), odd = true;
      continue;
    }
    if (seen) throw Error("a tensor value is stored twice");
    seen = true;
    read_values(f.view(), tag, out, odd);
  }
  // Elements that take no room leave no field: an empty tensor needs none.
  if (!seen && out.type.dtype == DType::string) out.data = Constant::Strings();
  out.check_size();
}

Constant read_constant(std::string_view message, const BlobOpener& blobs, int depth, bool& odd);

void read_value_items(std::string_view message, uint32_t member, Constant& out, const BlobOpener& blobs,
                      int depth, bool& odd) {
  constexpr Type::Kind kinds[] = {Type::Kind::tuple, Type::Kind::list, Type::Kind::dict};
  if (out.type.kind != kinds[member - 2])
    throw Error("a tuple, list or dictionary value has another type").found(out.type.text());
  Constant::Items items;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (f.key() != bytes(1)) {
      f.keep(rest), odd = true;
    } else if (member != 4) {
      items.push_back(read_constant(f.view(), blobs, depth + 1, odd));
    } else {
      std::optional<Constant> key, value;
      for (Fields g(f.view()); g.next();) switch (g.key()) {
          case bytes(1): key = read_constant(g.view(), blobs, depth + 1, odd); break;
          case bytes(2): value = read_constant(g.view(), blobs, depth + 1, odd); break;
          default: g.keep(rest); odd = true;
        }
      if (!key || !value) throw Error("an entry of a dictionary has no key or no value");
      items.push_back(std::move(*key));
      items.push_back(std::move(*value));
    }
  }
  out.data = std::move(items);
}

void read_immediate(std::string_view message, Constant& out, const BlobOpener& blobs, int depth, bool& odd) {
  bool seen = false;
  std::string rest;
  for (Fields f(message); f.next();) {
    const uint32_t tag = f.tag();
    if (tag < 1 || tag > 4 || f.key() != bytes(tag)) {
      f.keep(rest), odd = true;
      continue;
    }
    if (seen) throw Error("a constant has two values");
    seen = true;
    if (tag == 1)
      read_tensor_value(f.view(), out, odd);
    else
      read_value_items(f.view(), tag, out, blobs, depth, odd);
  }
  if (!seen) throw Error("a constant has no value");
}

Blob read_blob(std::string_view message, const Constant& constant, const BlobOpener& blobs,
               std::string& extra) {
  std::string file, rest;
  uint64_t offset = 0;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1): file = f.text(); break;
      case varint(2): offset = f.unsigned_integer(); break;
      default: f.keep(rest);
    }
  if (!rest.empty()) {
    wire::Message kept;
    kept.data(5, rest);
    extra += kept.bytes();
  }
  if (!constant.type.is_tensor() || !constant.type.fixed())
    throw Error("a constant in the weight file has no fixed tensor type").found(constant.type.text());
  return blobs(file, offset, constant.type);
}

Constant read_constant(std::string_view message, const BlobOpener& blobs, int depth, bool& odd) {
  check_depth(depth, "values");
  Constant out;
  std::optional<std::string_view> immediate, blob;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(2): {
        bool odd_type = false;
        const std::string_view view = f.view();
        out.type = read_type(view, 0, odd_type);
        if (odd_type) out.type.extra = std::string(view), odd = true;
        break;
      }
      case bytes(3): immediate = f.view(); break;
      case bytes(5): blob = f.view(); break;
      default: f.keep(out.extra); odd = true;  // docString, 1, among them
    }
  if (out.type.kind == Type::Kind::none) throw Error("a constant has no type");
  if (immediate.has_value() == blob.has_value())
    throw Error(immediate ? "a constant has two values" : "a constant has no value").found(out.type.text());
  if (blob) {
    out.data = read_blob(*blob, out, blobs, out.extra);
    return out;
  }
  bool odd_value = false;
  read_immediate(*immediate, out, blobs, depth, odd_value);
  if (odd_value) {
    wire::Message kept;
    kept.data(3, *immediate);
    out.extra += kept.bytes();
    odd = true;
  }
  return out;
}

}  // namespace

DType dtype_from_code(int64_t code) {
  for (const DTypeCode& entry : kCodes)
    if (entry.code == code) return entry.dtype;
  return DType::none;
}

int64_t dtype_code(DType dtype) {
  for (const DTypeCode& entry : kCodes)
    if (entry.dtype == dtype) return entry.code;
  return 0;
}

Type decode_type(std::string_view message) {
  bool odd = false;
  Type out = read_type(message, 0, odd);
  if (odd) out.extra = std::string(message);
  return out;
}

Constant decode_constant(std::string_view message, const BlobOpener& blobs) {
  bool odd = false;
  return read_constant(message, blobs, 0, odd);
}

}  // namespace anemone
