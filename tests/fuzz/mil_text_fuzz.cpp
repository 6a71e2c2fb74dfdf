// MIL text: any bytes are read or refused, and what is read can be printed, read again and printed the same.
#include <cstdlib>

#include "base/error.h"
#include "mil/text.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Program program;
  try {
    program = parse_mil({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  const std::string text = print_mil(program);
  if (print_mil(parse_mil(text, "printed")) != text) std::abort();
  return 0;
}
