// model.mlmodel: any bytes are read or refused, and what is read is written back the same.
#include <cstdlib>

#include "base/error.h"
#include "base/shape.h"
#include "package/description.h"
#include "package/mil_codec.h"
#include "package/package.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto blobs = [](const std::string& name, uint64_t offset, const Type& type) {
    return Blob{name, offset, offset + 64, packed_bytes(type.size(), dtype_bits(type.dtype)), nullptr};
  };
  Package package;
  try {
    package = read_model({reinterpret_cast<const char*>(data), size}, "fuzz", blobs);
  } catch (const Error&) {
    return 0;
  }
  const auto place = [](const Constant& constant) {
    return constant.is_blob() ? std::optional(std::get<Blob>(constant.data).record_offset) : std::nullopt;
  };
  const std::string program = encode_program(package.program, place);
  if (encode_program(decode_program(program, blobs), place) != program) std::abort();
  const std::string description = encode_description(package.description);
  if (encode_description(decode_description(description)) != description) std::abort();
  return 0;
}
