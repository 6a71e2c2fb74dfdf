// Manifest.json: any bytes are read or refused, and what is read is written back the same.
#include <cstdlib>

#include "base/error.h"
#include "package/manifest.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Manifest manifest;
  try {
    manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  const std::string text = manifest_text(manifest);
  if (manifest_text(parse_manifest(text)) != text) std::abort();
  return 0;
}
