// .npy and .npz: any bytes are read or refused.
#include <cstdint>

#include "base/error.h"
#include "base/npy.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    parse_npy(bytes, "fuzz");
  } catch (const Error&) {
  }
  try {
    parse_npz(bytes, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
