#include "mil/constant.h"

#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"

namespace anemone {
namespace {

template <class T>
Constant::Bytes pack(std::span<const T> values) {
  Constant::Bytes out(values.size_bytes());
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

std::span<const std::byte> Blob::bytes() const {
  if (!file)
    throw errorf("the weight file '{}' is missing", file_name)
        .hint("was the package copied without its weights?");
  return file->slice(data_offset, data_bytes, "a weight");
}

Constant Constant::from_bytes(Type type, Bytes bytes) {
  Constant c;
  c.type = std::move(type);
  c.data = std::move(bytes);
  return c;
}

Constant Constant::from_blob(Type type, Blob blob) {
  Constant c;
  c.type = std::move(type);
  c.data = std::move(blob);
  return c;
}

Constant Constant::from_source(Source source) {
  Constant c;
  c.type = source->type();
  c.data = std::move(source);
  return c;
}

Constant Constant::integer(int32_t value) {
  return from_bytes(Type::tensor(DType::int32), pack(std::span<const int32_t>(&value, 1)));
}

Constant Constant::ints(std::span<const int64_t> values) {
  std::vector<int32_t> narrow(values.begin(), values.end());
  return from_bytes(Type::tensor(DType::int32, {static_cast<int64_t>(narrow.size())}), pack<int32_t>(narrow));
}

Constant Constant::boolean(bool value) {
  return from_bytes(Type::tensor(DType::boolean), Bytes{static_cast<std::byte>(value)});
}

Constant Constant::booleans(std::span<const bool> values) {
  return from_bytes(Type::tensor(DType::boolean, {static_cast<int64_t>(values.size())}), pack(values));
}

Constant Constant::text(std::string value) {
  Constant c;
  c.type = Type::tensor(DType::string);
  c.data = Strings{std::move(value)};
  return c;
}

Constant Constant::number(float value, DType dtype) { return numbers(std::span(&value, 1), dtype, {}); }

Constant Constant::numbers(std::span<const float> values, DType dtype, Shape shape) {
  if (dtype == DType::fp32) return from_bytes(Type::tensor(dtype, std::move(shape)), pack(values));
  ANEMONE_CHECK(dtype == DType::fp16);
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = half_from_float(values[i]);
  return from_bytes(Type::tensor(dtype, std::move(shape)), pack<uint16_t>(halves));
}

std::span<const std::byte> Constant::bytes() const {
  if (const auto* b = std::get_if<Bytes>(&data)) return *b;
  if (const auto* blob = std::get_if<Blob>(&data)) return blob->bytes();
  throw errorf("a constant of type {} has no plain bytes", type.text());
}

void Constant::check_size() const {
  if (!type.is_tensor() || !type.fixed()) return;
  const int64_t count = type.size();
  if (const auto* strings = std::get_if<Strings>(&data)) {
    if (static_cast<int64_t>(strings->size()) != count)
      throw errorf("a constant of type {} holds {} strings", type.text(), strings->size());
    return;
  }
  const uint64_t need = packed_bytes(count, dtype_bits(type.dtype));
  uint64_t have = need;
  if (const auto* b = std::get_if<Bytes>(&data)) have = b->size();
  if (const auto* blob = std::get_if<Blob>(&data); blob && blob->file) have = blob->data_bytes;
  if (have != need)
    throw errorf("a constant of type {} has the wrong size", type.text())
        .found(fmt::format("{} bytes", have))
        .expected(fmt::format("{} bytes", need));
}

}  // namespace anemone
