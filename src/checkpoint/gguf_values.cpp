// The typed getters of GgufFile: each takes what its name says in any width, and refuses everything else by
// key.
#include <cstring>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf.h"

namespace anemone {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

bool is_float(GgufType type) { return type == GgufType::f32 || type == GgufType::f64; }
bool is_boolean(GgufType type) { return type == GgufType::boolean; }
bool is_string(GgufType type) { return type == GgufType::string; }
bool is_integer(GgufType type) { return !is_float(type) && !is_boolean(type) && !is_string(type); }
bool is_number(GgufType type) { return is_integer(type) || is_float(type); }

template <class T>
T load(const GgufValue& value, uint64_t index) {
  T x;
  std::memcpy(&x, value.bytes.data() + index * sizeof(T), sizeof(T));
  return x;
}

int64_t integer_at(const GgufValue& value, uint64_t index) {
  switch (value.type) {
    case GgufType::u8: return load<uint8_t>(value, index);
    case GgufType::i8: return load<int8_t>(value, index);
    case GgufType::u16: return load<uint16_t>(value, index);
    case GgufType::i16: return load<int16_t>(value, index);
    case GgufType::u32: return load<uint32_t>(value, index);
    case GgufType::i32: return load<int32_t>(value, index);
    case GgufType::i64: return load<int64_t>(value, index);
    default: break;
  }
  const auto wide = load<uint64_t>(value, index);
  if (wide > static_cast<uint64_t>(INT64_MAX))
    throw errorf("metadata value '{}' is out of range", printable(value.key)).found(std::to_string(wide));
  return static_cast<int64_t>(wide);
}

double number_at(const GgufValue& value, uint64_t index) {
  if (value.type == GgufType::f32) return load<float>(value, index);
  if (value.type == GgufType::f64) return load<double>(value, index);
  return static_cast<double>(integer_at(value, index));
}

}  // namespace

const GgufValue* GgufFile::expect(std::string_view key, bool list, std::string_view wanted,
                                  bool (*fits)(GgufType)) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const bool one_for_list = list && !value->is_array && is_number(value->type);
  if (!fits(value->type) || (value->is_array != list && !one_for_list))
    throw errorf("metadata value '{}' has the wrong type", printable(key))
        .at(path())
        .found(fmt::format("{}{}", value->is_array ? "an array of " : "",
                           kTypeNames[static_cast<size_t>(value->type)]))
        .expected(std::string(wanted));
  return value;
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = expect(key, false, "an integer", is_integer);
  return value ? std::optional(integer_at(*value, 0)) : std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = expect(key, false, "a number", is_number);
  return value ? std::optional(number_at(*value, 0)) : std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = expect(key, false, "a bool", is_boolean);
  return value ? std::optional(value->bytes[0] != std::byte{0}) : std::nullopt;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = expect(key, false, "a string", is_string);
  if (!value) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()) + 8, value->bytes.size() - 8);
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = expect(key, true, "an array of integers", is_integer);
  std::vector<int64_t> out(value ? value->count : 0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = integer_at(*value, i);
  return out;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const GgufValue* value = expect(key, true, "an array of numbers", is_number);
  std::vector<double> out(value ? value->count : 0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = number_at(*value, i);
  return out;
}

std::vector<bool> GgufFile::booleans(std::string_view key) const {
  const GgufValue* value = expect(key, true, "an array of bools", is_boolean);
  std::vector<bool> out(value ? value->count : 0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = value->bytes[i] != std::byte{0};
  return out;
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = expect(key, true, "an array of strings", is_string);
  std::vector<std::string_view> out(value ? value->count : 0);
  size_t offset = 0;  // the lengths were checked when the file was opened
  for (std::string_view& s : out) {
    uint64_t size;
    std::memcpy(&size, value->bytes.data() + offset, 8);
    s = {reinterpret_cast<const char*>(value->bytes.data()) + offset + 8, size};
    offset += 8 + size;
  }
  return out;
}

}  // namespace anemone
