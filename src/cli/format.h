// Numbers and texts as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anemone::cli {

// As a shell reads it: in quotes where that is needed.
std::string shell_word(const std::string& text);
// Without line breaks and other control characters, cut at `most` characters.
std::string one_line(std::string_view text, size_t most);

}  // namespace anemone::cli
