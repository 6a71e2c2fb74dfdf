// Vocabulary: the tokens of a model, both ways: id → text and text → id.
//     vocabulary.add("hello", 7);
//     int32_t id = vocabulary.find("hello");      // kNoToken when it is not there
// All texts lie in one buffer and the index is one flat table, so that 50,000 tokens are ready in milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

inline constexpr int32_t kNoToken = -1;
// Far above any real vocabulary; bounds what a bad file can ask for.
inline constexpr int32_t kMaxTokenId = 1 << 22;

// A 64-bit hash of short strings.
inline uint64_t hash_bytes(std::string_view s) noexcept {
  const auto load = [](const char* p, size_t n) {
    uint64_t w = 0;
    __builtin_memcpy(&w, p, n);
    return w;
  };
  const auto mix = [](uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9fb21c651e98df25u;
    return h ^ (h >> 32);
  };
  uint64_t h = 0x27d4eb2f165667c5u + s.size();
  const char* p = s.data();
  size_t n = s.size();
  for (; n >= 8; p += 8, n -= 8) h = mix(h, load(p, 8));
  if (n >= 4)
    h = mix(h, load(p, 4) | (load(p + n - 4, 4) << 32));
  else if (n > 0)
    h = mix(h, load(p, 1) | (load(p + n / 2, 1) << 8) | (load(p + n - 1, 1) << 16));
  return h * 0x9e3779b97f4a7c15u;
}

class Vocabulary {
 public:
  void reserve(size_t tokens, size_t bytes);
  // Gives an id its text. The same text twice: the later id is the one found. Throws Error on an id out of range.
  void add(std::string_view text, int64_t id);

  int32_t find(std::string_view text) const noexcept;
  // Empty where the id has no text.
  std::string_view text(int32_t id) const noexcept;
  bool has(int32_t id) const noexcept {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[id].size != kAbsent;
  }
  int32_t size() const { return static_cast<int32_t>(spans_.size()); }  // highest id + 1
  int32_t count() const { return static_cast<int32_t>(count_); }        // different texts
  size_t longest() const { return longest_; }                           // bytes of the longest text

 private:
  static constexpr uint32_t kAbsent = ~0u;
  struct Span {
    uint32_t begin = 0;
    uint32_t size = kAbsent;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNoToken;
  };

  void grow(size_t slots);

  std::string bytes_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;  // a power of two long, at most half full
  size_t count_ = 0;
  size_t longest_ = 0;
};

}  // namespace anemone
