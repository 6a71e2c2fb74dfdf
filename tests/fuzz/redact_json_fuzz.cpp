// Any bytes as JSON, as JSON lines and as records: what is not replaced comes out as it went in.
#include "fuzz/redact_document.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using anemone::redact::Format;
  anemone::redact_any(data, size, Format::json);
  anemone::redact_any(data, size, Format::jsonl);
  anemone::redact_records(data, size);
  return 0;
}
