// ArenaLayout: places buffers with known life times in one block of memory.
//     int64_t at = layout.take(bytes);   …   layout.give_back(at, bytes);
// Buffers are asked for and given back in the order of the plan, so a list of free ranges is all it needs.
#pragma once

#include <cstdint>
#include <map>

namespace anemone {

class ArenaLayout {
 public:
  int64_t take(int64_t bytes);
  void give_back(int64_t offset, int64_t bytes);
  int64_t size() const { return size_; }  // high-water mark, in bytes

 private:
  std::map<int64_t, int64_t> free_;  // offset → bytes, never adjacent
  int64_t size_ = 0;
};

}  // namespace anemone
