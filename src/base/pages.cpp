#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace anemone {

void prefer_large_pages(std::span<const std::byte> bytes) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr size_t kLarge = size_t{2} << 20;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  if (bytes.size() >= kLarge) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  static_cast<void>(bytes);
#endif
}

bool map_pages(std::span<const std::byte> bytes) noexcept {
#ifdef MADV_POPULATE_READ
  constexpr size_t kPiece = size_t{1} << 19;  // other threads can map memory in between
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  for (uintptr_t at = begin; at < end; at += kPiece)
    if (::madvise(reinterpret_cast<void*>(at), std::min<size_t>(kPiece, end - at), MADV_POPULATE_READ) != 0)
      return false;
  return true;
#else
  static_cast<void>(bytes);
  return false;
#endif
}

void use_large_heap() noexcept {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr size_t kStep = size_t{32} << 20, kLargest = size_t{4} << 20;
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kLargest));  // larger blocks have mappings of their own
  ::mallopt(M_TRIM_THRESHOLD, static_cast<int>(kStep));
  ::mallopt(M_TOP_PAD, static_cast<int>(kStep));
  void* volatile block = std::malloc(kLargest - 4096);  // the heap has less: it grows by a step
  std::free(block);
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0)) / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(end - kStep), kStep, MADV_HUGEPAGE);
#endif
}

}  // namespace anemone
