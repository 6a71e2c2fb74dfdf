// Any bytes as a GGUF file with a vocabulary: an Error, or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer/gguf_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anemone;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto file = GgufFile::from_parts({MappedFile::from_bytes("fuzz.gguf", bytes)});
    const auto tokenizer = Tokenizer::make(read_gguf_vocabulary(file));
    const auto ids = tokenizer->encode(bytes.substr(0, 2000), {.add_special = true});
    tokenizer->decode(ids);
  } catch (const Error&) {
  }
  return 0;
}
