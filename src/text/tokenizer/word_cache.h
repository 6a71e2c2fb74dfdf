// WordCache: the ids of words seen lately, so that a frequent word is merged once.
//     if (const auto* ids = cache.find(word, hash)) …;   else cache.store(word, hash, ids);
// Direct-mapped, one cache line a word, no allocation after the first use: long words are simply not kept.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace anemone {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 30;
  static constexpr size_t kMaxIds = 8;

  // The ids of the word, empty when it is not here. Words have at least one id.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const noexcept {
    if (word.size() > kMaxBytes || entries_.empty()) return {};
    const Entry& e = entries_[hash >> kShift];
    if (e.size != word.size() || std::memcmp(e.word, word.data(), word.size()) != 0) return {};
    return {e.ids, e.count};
  }

  void store(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds || ids.empty()) return;
    if (entries_.empty()) entries_.resize(size_t{1} << kBits);
    Entry& e = entries_[hash >> kShift];
    e.size = static_cast<uint8_t>(word.size());
    e.count = static_cast<uint8_t>(ids.size());
    std::memcpy(e.word, word.data(), word.size());
    std::memcpy(e.ids, ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kBits = 15;  // 2 MiB
  static constexpr int kShift = 64 - kBits;
  struct alignas(64) Entry {
    uint8_t size = 0;
    uint8_t count = 0;
    char word[kMaxBytes] = {};
    int32_t ids[kMaxIds] = {};
  };

  std::vector<Entry> entries_;
};

}  // namespace anemone
