// Numbers as people read them.
//     size_text(29'900'000);                 // "29.9 MB"
//     counted(1, "weight");                  // "1 weight"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anemone {

// In decimal units, with three digits that count.
std::string size_text(uint64_t bytes);
// With an s where there are several.
std::string counted(int64_t count, std::string_view what);

}  // namespace anemone
