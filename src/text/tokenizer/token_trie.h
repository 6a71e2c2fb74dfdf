// TokenTrie: every token that a text begins with, found byte by byte.
//     trie.for_each_prefix(text, [](size_t bytes, int32_t id) { … });     // shortest first
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace anemone {

class TokenTrie {
 public:
  TokenTrie() = default;
  // Texts with their ids; of equal texts the last one counts. Empty texts are left out.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens);

  bool empty() const { return nodes_.size() <= 1; }
  // True when some token starts with this byte: a quick way to skip through a text.
  bool starts(char byte) const { return !nodes_.empty() && child(0, byte) != 0; }

  template <class F>
  void for_each_prefix(std::string_view text, F&& found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size() && !nodes_.empty(); ++i) {
      node = child(node, text[i]);
      if (node == 0) return;
      if (nodes_[node].id != kNoToken) found(i + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;  // its children lie together, in order of their bytes
    uint16_t count = 0;
    uint8_t byte = 0;
    int32_t id = kNoToken;
  };

  uint32_t child(uint32_t node, char byte) const noexcept {
    if (node == 0) return root_[static_cast<unsigned char>(byte)];
    const Node& n = nodes_[node];
    const auto b = static_cast<unsigned char>(byte);
    uint32_t low = n.first, high = n.first + n.count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (nodes_[middle].byte < b)
        low = middle + 1;
      else
        high = middle;
    }
    return low < n.first + n.count && nodes_[low].byte == b ? low : 0;
  }

  std::vector<Node> nodes_;
  std::vector<uint32_t> root_ = std::vector<uint32_t>(256);
};

}  // namespace anemone
