// Reads the JSON header of a safetensors file event by event: no tree is built, however large the header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anemone {

struct SafetensorsHeader {
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint64_t> data_offsets;  // begin and end
  };
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Throws Error when the text is no JSON or an entry has not exactly dtype, shape and two offsets. Names may
// repeat.
SafetensorsHeader parse_safetensors_header(std::string_view text);

}  // namespace anemone
