// Sha256: the hash of FIPS 180-4, fed piece by piece.
//     Sha256 hash;
//     hash.add(bytes);
//     hash.hex();                                     // "ba7816bf…", 64 letters
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anemone {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // The hash of all that was added; more may be added afterwards.
  std::string hex() const;

 private:
  void block(const std::byte* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> held_ = {};  // what does not fill a block yet
  uint64_t size_ = 0;
};

}  // namespace anemone
