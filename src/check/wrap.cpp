#include "check/wrap.h"

namespace anemone {

size_t columns(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

std::string wrap(std::string_view lead, std::string_view text, size_t width) {
  std::string out(lead);
  const size_t indent = columns(lead);
  size_t at = indent;
  bool first = true;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (word.empty()) continue;
    const size_t length = columns(word);
    if (!first && at + 1 + length > width) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += length;
    first = false;
  }
  return out + "\n";
}

}  // namespace anemone
