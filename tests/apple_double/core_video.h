// A pixel buffer of the double: rows of halves, each padded to 64 bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

struct __CVBuffer {
  size_t width = 0, height = 0, row_bytes = 0;
  std::vector<std::byte> memory;
  std::atomic<int> holders{1}, locks{0};
  std::atomic<bool> was_input{false}, touched{false};
};

namespace apple_double {

// Whether this thread asked for a high quality of service.
bool thread_has_quality();

}  // namespace apple_double
