// Text for a terminal: words put into lines.
#pragma once

#include <string>
#include <string_view>

namespace anemone {

// `lead` and the words of `text` behind it, in lines of at most `width` columns; further lines are indented as far
// as the lead is long. Ends in a line break.
std::string wrap(std::string_view lead, std::string_view text, size_t width);
// Columns that a UTF-8 text takes, one a character.
size_t columns(std::string_view text);

}  // namespace anemone
