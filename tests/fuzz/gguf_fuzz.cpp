// Any bytes as a GGUF file: an Error or a file whose every value and tensor can be read.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace {

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const anemone::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anemone;
  try {
    const auto file =
        MappedFile::from_bytes("fuzz.gguf", std::string(reinterpret_cast<const char*>(data), size));
    const GgufFile gguf = GgufFile::from_parts({file});
    for (const GgufValue& value : gguf.values()) {
      attempt([&] { gguf.integer(value.key); });
      attempt([&] { gguf.number(value.key); });
      attempt([&] { gguf.boolean(value.key); });
      attempt([&] { gguf.string(value.key); });
      attempt([&] { gguf.integers(value.key); });
      attempt([&] { gguf.numbers(value.key); });
      attempt([&] { gguf.booleans(value.key); });
      attempt([&] {
        size_t total = 0;
        for (const auto s : gguf.strings(value.key)) total += s.size();
        if (total > size) __builtin_trap();
      });
    }
    for (const GgufTensor& tensor : gguf.tensors()) {
      if (gguf.tensor(tensor.name) != &tensor) __builtin_trap();
      const TensorReader reader(file, std::string(tensor.name), tensor.type, tensor.shape, tensor.offset);
      std::vector<float> floats(static_cast<size_t>(reader.rows() * reader.row_elements()));
      std::vector<uint16_t> halves(floats.size());
      attempt([&] { reader.read_rows(0, reader.rows(), std::span(floats)); });
      attempt([&] { reader.read_rows(0, reader.rows(), std::span(halves)); });
    }
  } catch (const Error&) {
  }
  return 0;
}
