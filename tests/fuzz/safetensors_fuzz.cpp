// Any bytes as a safetensors file (and as a config.json): an Error or a file whose every tensor can be read.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_file.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anemone;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (!bytes.empty() && (bytes[0] == '{' || bytes[0] == '[')) {
      parse_json(bytes, "fuzz.json");
      return 0;
    }
    const auto file = MappedFile::from_bytes("fuzz.safetensors", bytes);
    const SafetensorsFile weights = SafetensorsFile::from_file(file);
    for (const SafeTensor& tensor : weights.tensors()) {
      if (weights.tensor(tensor.name) != &tensor) __builtin_trap();
      const TensorReader reader(file, tensor.name, tensor.type, tensor.shape, tensor.offset);
      std::vector<float> floats(static_cast<size_t>(reader.rows() * reader.row_elements()));
      try {
        reader.read_rows(0, reader.rows(), std::span(floats));
      } catch (const Error&) {
        if (reader.info().decodes) throw;
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
