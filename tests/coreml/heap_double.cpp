// The heap of the test program, counted. A file of its own: compilers look through these functions where they can, and
// then miss the pairs of new and delete.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "coreml/counted_heap.h"
#include "objc_runtime.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ANEMONE_OTHER_HEAP
#endif
#endif

#ifdef ANEMONE_OTHER_HEAP

namespace anemone::test {

bool heap_is_counted() { return false; }
void count_heap(bool) {}
int64_t counted_blocks() { return 0; }

}  // namespace anemone::test

#else

namespace {

thread_local bool counting = false;
thread_local int64_t blocks = 0;

void* take(std::size_t bytes, std::size_t align) {
  if (counting && !objc_double::is_inside()) ++blocks;
  void* out = align > alignof(std::max_align_t)
                  ? std::aligned_alloc(align, (bytes + align - 1) / align * align)
                  : std::malloc(bytes ? bytes : 1);
  if (!out) throw std::bad_alloc();
  return out;
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes, 0); }
void* operator new[](std::size_t bytes) { return take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return take(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return take(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace anemone::test {

bool heap_is_counted() { return true; }

void count_heap(bool on) {
  if (on) blocks = 0;
  counting = on;
}

int64_t counted_blocks() { return blocks; }

}  // namespace anemone::test

#endif
