#include "capi/handles.h"

#include <cstdlib>
#include <new>

namespace anemone {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

void* copy_out(const void* from, size_t bytes) {
  void* out = std::malloc(bytes ? bytes : 1);
  if (!out) throw std::bad_alloc();
  if (bytes) std::memcpy(out, from, bytes);
  return out;
}

}  // namespace

void note_error(const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();
  }
}

int32_t* copied(const std::vector<int32_t>& ids) {
  return static_cast<int32_t*>(copy_out(ids.data(), ids.size() * sizeof(int32_t)));
}

std::string without_zeros(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find('\0'); at != std::string::npos; at = out.find('\0', at))
    out.replace(at, 1, "\xEF\xBF\xBD");
  return out;
}

char* copied(std::string_view text) {
  const std::string whole = without_zeros(text);
  return static_cast<char*>(copy_out(whole.c_str(), whole.size() + 1));
}

// Names with C's linkage are the header's, whatever namespace they stand in.
extern "C" {

const char* anemone_version(void) { return ANEMONE_LIBRARY_VERSION; }
int anemone_api_version(void) { return ANEMONE_API_VERSION; }
const char* anemone_last_error(void) { return last_error().c_str(); }
void anemone_free(void* memory) { std::free(memory); }

}  // extern "C"
}  // namespace anemone
