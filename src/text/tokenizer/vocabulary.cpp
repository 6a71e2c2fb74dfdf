#include "text/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace anemone {

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  bytes_.reserve(bytes);
  spans_.reserve(tokens);
  grow(std::bit_ceil(tokens * 2 + 16));
}

void Vocabulary::grow(size_t slots) {
  if (slots <= slots_.size()) return;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id == kNoToken) continue;
    size_t i = hash_bytes(text(slot.id)) >> 20 & mask;
    while (slots_[i].id != kNoToken) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void Vocabulary::add(std::string_view text, int64_t id) {
  if (id < 0 || id >= kMaxTokenId) {
    throw errorf("token '{}' has an impossible id", text)
        .found(std::to_string(id))
        .expected("0 to " + std::to_string(kMaxTokenId - 1));
  }
  if (bytes_.size() + text.size() >= 0xffffffffu) throw errorf("the vocabulary's texts are over 4 GiB");
  if (static_cast<size_t>(id) >= spans_.size()) spans_.resize(static_cast<size_t>(id) + 1);
  const auto key = static_cast<int32_t>(id);
  spans_[key] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())};
  bytes_ += text;
  longest_ = std::max(longest_, text.size());
  if ((count_ + 1) * 2 > slots_.size()) grow(std::bit_ceil(count_ * 4 + 64));
  const uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<uint32_t>(hash);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash >> 20 & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id == kNoToken) {
      slot = {tag, key};
      ++count_;
      return;
    }
    if (slot.tag == tag && this->text(slot.id) == text) {
      slot.id = key;
      return;
    }
  }
}

int32_t Vocabulary::find(std::string_view text) const noexcept {
  if (slots_.empty()) return kNoToken;
  const uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<uint32_t>(hash);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash >> 20 & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNoToken) return kNoToken;
    if (slot.tag == tag && this->text(slot.id) == text) return slot.id;
  }
}

std::string_view Vocabulary::text(int32_t id) const noexcept {
  return has(id) ? std::string_view(bytes_).substr(spans_[id].begin, spans_[id].size) : std::string_view();
}

}  // namespace anemone
