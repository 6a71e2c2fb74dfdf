#include "base/shape.h"

#include "base/error.h"

namespace anemone {

int64_t element_count(std::span<const int64_t> shape) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) throw Error("a dimension is negative").found(shape_text(shape));
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kLimit / dim)
      throw Error("a shape has more elements than can be counted").found(shape_text(shape));
    count *= dim;
  }
  return empty ? 0 : count;
}

uint64_t packed_bytes(int64_t count, int bits) {
  const auto n = static_cast<uint64_t>(count);
  if (n > (UINT64_MAX - 7) / static_cast<uint64_t>(bits > 0 ? bits : 1))
    throw errorf("{} elements of {} bits are more than can be addressed", count, bits);
  return (n * static_cast<uint64_t>(bits) + 7) / 8;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + "]";
}

}  // namespace anemone
