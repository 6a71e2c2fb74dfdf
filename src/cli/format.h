// Numbers and texts as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anemone::cli {

std::string size_text(uint64_t bytes);  // "29.9 MB"; decimal units
// Without line breaks and other control characters, cut at `most` characters.
std::string one_line(std::string_view text, size_t most);

}  // namespace anemone::cli
