#include "text/tokenizer/word_models.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

void push_unknown(const TokenModelSpec& model, std::vector<int32_t>& ids) {
  if (model.unk_id == kNoToken) {
    throw errorf("an unknown word, and the unknown token '{}' is not in the vocabulary", model.unk_token);
  }
  ids.push_back(model.unk_id);
}

}  // namespace

void word_piece(const TokenModelSpec& model, const Vocabulary& vocabulary, std::string_view word,
                std::vector<int32_t>& ids) {
  if (count_chars(word) > model.max_word_chars) return push_unknown(model, ids);
  const std::string all = model.word_prefix + std::string(word);
  const size_t before = ids.size();
  std::string text;
  for (size_t start = 0; start < all.size();) {
    int32_t id = kNoToken;
    size_t end = std::min(all.size(), start + vocabulary.longest());
    while (end > start && end < all.size() && (static_cast<unsigned char>(all[end]) & 0xc0) == 0x80) --end;
    while (end > start) {
      text.clear();
      if (start > 0) text += model.continuing_prefix;
      text.append(all, start, end - start);
      id = vocabulary.find(text);
      if (id != kNoToken) break;
      do --end;
      while (end > start && (static_cast<unsigned char>(all[end]) & 0xc0) == 0x80);
    }
    if (id == kNoToken) {
      ids.resize(before);
      return push_unknown(model, ids);
    }
    ids.push_back(id);
    start = end;
  }
}

void word_level(const TokenModelSpec& model, const Vocabulary& vocabulary, std::string_view word,
                std::vector<int32_t>& ids) {
  const int32_t id = vocabulary.find(word);
  if (id == kNoToken) return push_unknown(model, ids);
  ids.push_back(id);
}

void longest_tokens(const TokenTrie& trie, int32_t unk_id, std::string_view text, std::vector<int32_t>& ids) {
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    int32_t id = kNoToken;
    trie.for_each_prefix(text.substr(at), [&](size_t bytes, int32_t found) { length = bytes, id = found; });
    if (length > 0)
      ids.push_back(id);
    else if (unk_id != kNoToken)
      ids.push_back(unk_id);
    at += length > 0 ? length : 1;
  }
}

}  // namespace anemone
