#include "engine/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace anemone {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kPages = 1 << 16;  // from here on, zeros come from the system, page by page

uint64_t physical_memory() {
  static const uint64_t bytes =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Memory is handed out before it is there: a size that the machine can never have is refused by hand.
void check_size(uint64_t bytes) {
  if (bytes > physical_memory())
    throw errorf("{} bytes of memory are needed at once", bytes)
        .found(fmt::format("a machine with {}", physical_memory()));
}

}  // namespace

Buffer::Buffer(uint64_t bytes) : size_(bytes) {
  check_size(bytes);
  const bool huge = bytes >= 2 * kHugePage;
  const uint64_t alignment = huge ? kHugePage : kBufferAlignment;
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment,
                       std::max<uint64_t>(1, (bytes + alignment - 1) / alignment) * alignment) != 0)
    throw errorf("{} bytes of memory are not to be had", bytes);
  data_ = static_cast<std::byte*>(memory);
#ifdef MADV_HUGEPAGE
  if (huge) ::madvise(data_, bytes, MADV_HUGEPAGE);
#endif
}

Buffer Buffer::zeros(uint64_t bytes) {
  if (bytes < kPages) {
    Buffer out(bytes);
    if (bytes > 0) std::memset(out.data_, 0, bytes);
    return out;
  }
  check_size(bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw errorf("{} bytes of memory are not to be had", bytes);
  Buffer out;
  out.data_ = static_cast<std::byte*>(memory);
  out.size_ = bytes;
  out.mapped_ = true;
  return out;
}

Buffer::~Buffer() {
  if (mapped_)
    ::munmap(data_, size_);
  else
    std::free(data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, false)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

float* FloatRoom::at_least(int64_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
  if (!buffer_.data() || bytes > buffer_.size()) buffer_ = Buffer(bytes);
  return static_cast<float*>(static_cast<void*>(buffer_.data()));
}

}  // namespace anemone
