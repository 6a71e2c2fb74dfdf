#include "text/tokenizer/charsmap.h"

#include <cstring>

#include "base/error.h"

namespace anemone {
namespace {

uint32_t read_u32(const char* p) {
  const auto b = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  return b(0) | b(1) << 8 | b(2) << 16 | b(3) << 24;
}

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.size() < 4) throw errorf("normalization table of {} bytes has no header", bytes.size());
  const uint32_t size = read_u32(bytes.data());
  if (size % 4 != 0 || size > bytes.size() - 4) {
    throw errorf("normalization table: bad trie size")
        .found(std::to_string(size))
        .expected("a multiple of 4, at most " + std::to_string(bytes.size() - 4));
  }
  units_.resize(size / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = read_u32(bytes.data() + 4 + i * 4);
  replacements_ = bytes.substr(4 + size);
  if (!replacements_.empty() && replacements_.back() != '\0') replacements_ += '\0';
}

std::optional<Charsmap::Match> Charsmap::search(std::string_view text, bool longest) const {
  std::optional<Match> best;
  if (units_.empty()) return best;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0) break;  // the trie ends its keys with a zero
    node ^= c;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xff)) != c) break;
    node ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (node >= units_.size()) break;
    const size_t value = units_[node] & ~(1u << 31);
    if (value >= replacements_.size()) break;
    best = Match{i + 1, std::string_view(replacements_.c_str() + value)};
    if (!longest) break;
  }
  return best;
}

}  // namespace anemone
