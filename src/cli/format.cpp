#include "cli/format.h"

#include <algorithm>
#include <cctype>

namespace anemone::cli {

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("-_./:@%+=,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string one_line(std::string_view text, size_t most) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
  if (out.size() <= most) return out;
  size_t cut = most > 0 ? most - 1 : 0;  // the last one is the ellipsis
  while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) --cut;  // whole characters
  return out.substr(0, cut) + "…";
}

}  // namespace anemone::cli
