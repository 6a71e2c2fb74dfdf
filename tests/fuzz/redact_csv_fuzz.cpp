// Any bytes as a table: what is not replaced comes out as it went in, and spans lie where the report says.
#include "fuzz/redact_document.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using anemone::redact::Format;
  anemone::redact_any(data, size, Format::csv);
  anemone::redact_any(data, size, Format::tsv);
  return 0;
}
