// How often C++ takes memory from the heap on this thread, that of the double left out.
//     const int64_t blocks = taken_by([&] { call->run(); });
#pragma once

#include <cstdint>

namespace anemone::test {

// Sanitizers bring a heap of their own: nothing is counted there.
bool heap_is_counted();
void count_heap(bool on);
int64_t counted_blocks();  // since it was switched on

template <class Body>
int64_t taken_by(const Body& body) {
  count_heap(true);
  body();
  count_heap(false);
  return counted_blocks();
}

}  // namespace anemone::test
