// Any bytes as a tokenizer.json: an Error, or a tokenizer whose ids are in range and that decodes what it encodes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anemone;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = Tokenizer::make(read_tokenizer_json(*MappedFile::from_bytes("fuzz.json", bytes)));
    // Bytes of the file are the best guess at text that its tokens occur in.
    const auto ids = tokenizer->encode(bytes.substr(0, 2000), {.add_special = true});
    Tokenizer::Stream stream(tokenizer);
    for (int32_t id : ids) {
      if (id < 0) __builtin_trap();
      stream.feed(id);
    }
    stream.finish();
    tokenizer->decode(ids);
    tokenizer->decode(ids, true);
  } catch (const Error&) {
  }
  return 0;
}
