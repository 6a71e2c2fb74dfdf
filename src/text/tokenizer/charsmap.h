// Charsmap: SentencePiece's precompiled normalisation table: which byte sequences become which text.
//     Charsmap map(bytes);
//     if (auto match = map.longest(text)) out += match->replacement;
// Bytes (SentencePiece 0.2, little endian):
//     offset    size    meaning
//     0         4       n: size of the trie in bytes, a multiple of 4
//     4         n       a double-array trie (Darts-clone), one u32 a unit: label in bits 0-7, has-a-leaf in bit 8,
//                       offset in bits 10-30, times 256 when bit 9 is set; a leaf holds a value in bits 0-30
//     4 + n     rest    replacements, each ended by a zero byte; a trie value is an offset in here
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

class Charsmap {
 public:
  struct Match {
    size_t size;  // bytes of the text it stands for
    std::string_view replacement;
  };

  Charsmap() = default;
  // Throws Error when the table is cut short.
  explicit Charsmap(std::string_view bytes);

  bool empty() const { return units_.empty(); }
  // The longest, or the shortest, key that the text begins with.
  std::optional<Match> longest(std::string_view text) const { return search(text, true); }
  std::optional<Match> shortest(std::string_view text) const { return search(text, false); }

 private:
  std::optional<Match> search(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace anemone
