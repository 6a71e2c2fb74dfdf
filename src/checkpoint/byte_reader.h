// ByteReader: walks little-endian bytes from front to back; whatever is not there is an Error with its place.
//     ByteReader r(file, 0);
//     uint32_t version = r.read<uint32_t>("version");
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace anemone {

static_assert(std::endian::native == std::endian::little,
              "the readers copy little-endian numbers as they are");

class ByteReader {
 public:
  ByteReader(const MappedFile& file, uint64_t offset) : file_(file), offset_(offset) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return file_.size() - offset_; }

  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    const auto bytes = file_.slice(offset_, size, what);
    offset_ += size;
    return bytes;
  }

  template <class T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // A string with a 64-bit length in front; the view is into the file.
  std::string_view string(std::string_view what) {
    const auto bytes = take(read<uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  const MappedFile& file_;
  uint64_t offset_;
};

// A name from a file, safe to print in one line: at most 80 bytes, anything but printable ASCII as '?'.
inline std::string printable(std::string_view name) {
  std::string text(name.substr(0, 80));
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  return name.size() > 80 ? text + "…" : text;
}

}  // namespace anemone
