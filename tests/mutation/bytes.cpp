#include "mutation/bytes.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"

namespace anemone::mutation {

void zero(std::string& bytes, ByteRange r) {
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(r.begin), bytes.begin() + static_cast<ptrdiff_t>(r.end),
            '\0');
}

void negate(std::string& bytes, ByteRange r, DType dtype) {
  const size_t width = static_cast<size_t>(dtype_bits(dtype)) / 8;
  if (dtype_is_float(dtype)) {
    for (size_t at = r.begin + width - 1; at < r.end; at += width)
      bytes[at] = static_cast<char>(bytes[at] ^ 0x80);
  } else if (dtype == DType::int8) {
    for (size_t at = r.begin; at < r.end; ++at) {
      const auto v = static_cast<int8_t>(bytes[at]);
      bytes[at] = static_cast<char>(v == -128 ? 127 : -v);
    }
  } else if (dtype == DType::int4) {
    for (size_t at = r.begin; at < r.end; ++at) {
      const auto pair = static_cast<uint8_t>(bytes[at]);
      bytes[at] = static_cast<char>(((16 - (pair & 15)) & 15) | (((16 - (pair >> 4)) & 15) << 4));
    }
  } else {
    for (size_t at = r.begin; at < r.end; ++at) bytes[at] = static_cast<char>(~bytes[at]);
  }
}

bool scale(std::string& bytes, ByteRange r, DType dtype, float factor) {
  if (dtype == DType::fp16) {
    for (size_t at = r.begin; at + 2 <= r.end; at += 2) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + at, 2);
      half = half_from_float(half_to_float(half) * factor);
      std::memcpy(bytes.data() + at, &half, 2);
    }
    return true;
  }
  if (dtype != DType::fp32) return false;
  for (size_t at = r.begin; at + 4 <= r.end; at += 4) {
    float value;
    std::memcpy(&value, bytes.data() + at, 4);
    value *= factor;
    std::memcpy(bytes.data() + at, &value, 4);
  }
  return true;
}

void swap_ranges(std::string& bytes, ByteRange a, ByteRange b) {
  std::swap_ranges(bytes.begin() + static_cast<ptrdiff_t>(a.begin),
                   bytes.begin() + static_cast<ptrdiff_t>(a.end),
                   bytes.begin() + static_cast<ptrdiff_t>(b.begin));
}

void turn(std::string& bytes, ByteRange r, size_t by) {
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(r.begin),
             end = bytes.begin() + static_cast<ptrdiff_t>(r.end);
  std::rotate(begin, end - static_cast<ptrdiff_t>(by % std::max<size_t>(1, r.size())), end);
}

void flip_bit(std::string& bytes, size_t byte, int bit) {
  bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
}

int high_bit(DType dtype, Rng& rng) {
  const int bits = dtype_bits(dtype);
  return bits - 1 - static_cast<int>(rng.below(std::min(bits, 6)));
}

}  // namespace anemone::mutation
