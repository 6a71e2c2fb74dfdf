// Buffer: memory for tensors, aligned for SIMD, on huge pages where that pays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anemone {

class Buffer {
 public:
  Buffer() = default;
  // Uninitialised. Of no bytes it has a place all the same: an empty tensor is there, too. Throws Error when the
  // machine does not have that much memory.
  explicit Buffer(uint64_t bytes);
  // Zeros. Memory of a large one is only there from the first time that it is written to.
  static Buffer zeros(uint64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  bool mapped_ = false;  // pages of its own, else from the heap
};

inline constexpr uint64_t kBufferAlignment = 64;

// Room for floats that one piece of work after the other uses: it grows as it must, and what was in it is lost then.
class FloatRoom {
 public:
  float* at_least(int64_t count);

 private:
  Buffer buffer_;
};

}  // namespace anemone
