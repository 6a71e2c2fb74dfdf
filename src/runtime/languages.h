// Languages that translation models know, by code and by name.
//     const Language& french = find_language("fr");      // or "French", or "法语"
#pragma once

#include <span>
#include <string_view>

namespace anemone {

struct Language {
  std::string_view code;     // BCP 47, as Hy-MT's card lists them
  std::string_view english;  // "French"
  std::string_view chinese;  // "法语"
};

// What Hy-MT 1.5 was trained for: 33 languages and five of China's own.
std::span<const Language> languages();

// By code or name, upper or lower case; Error that lists the codes.
const Language& find_language(std::string_view name);

}  // namespace anemone
