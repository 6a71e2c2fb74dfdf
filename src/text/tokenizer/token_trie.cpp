#include "text/tokenizer/token_trie.h"

#include <algorithm>

namespace anemone {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens) {
  std::erase_if(tokens, [](const auto& t) { return t.first.empty(); });
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Breadth first: a node owns the range of sorted tokens that share its bytes, and its children split that range.
  struct Range {
    size_t begin, end, depth;
  };
  nodes_.push_back({});
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    while (at < end && tokens[at].first.size() == depth) nodes_[node].id = tokens[at++].second;
    nodes_[node].first = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char byte = tokens[at].first[depth];
      const size_t begin = at;
      while (at < end && tokens[at].first[depth] == byte) ++at;
      Node next;
      next.byte = static_cast<uint8_t>(byte);
      if (node == 0) root_[next.byte] = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back(next);
      ranges.push_back({begin, at, depth + 1});
    }
    nodes_[node].count = static_cast<uint16_t>(nodes_.size() - nodes_[node].first);
  }
}

}  // namespace anemone
