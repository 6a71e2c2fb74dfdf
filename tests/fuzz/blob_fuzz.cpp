// weight.bin: a record at any place of any bytes is read or refused. The first 10 bytes choose what is asked
// for.
#include <cstring>
#include <string>

#include "base/error.h"
#include "package/blob.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 10) return 0;
  const auto dtype = static_cast<DType>(1 + data[0] % static_cast<int>(DType::uint64));
  const int64_t elements = data[1];
  uint64_t offset;
  std::memcpy(&offset, data + 2, sizeof offset);
  try {
    const BlobFile file(
        MappedFile::from_bytes("fuzz", std::string(reinterpret_cast<const char*>(data) + 10, size - 10)));
    const Blob blob = file.blob("fuzz", offset, Type::tensor(dtype, {elements}));
    unsigned sum = 0;
    for (const std::byte byte : blob.bytes()) sum += static_cast<unsigned>(byte);
    volatile unsigned sink = sum;
    (void)sink;
  } catch (const Error&) {
  }
  return 0;
}
