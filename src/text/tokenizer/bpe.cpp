#include "text/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

using Symbol = BpeScratch::Symbol;

constexpr size_t kShortWord = 40;  // symbols; above, the heap wins

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t pair_slot(uint64_t key, size_t mask) { return (key * 0x9e3779b97f4a7c15u) >> 24 & mask; }

char32_t first_char(std::string_view s) {
  const char* p = s.data();
  return s.empty() ? 0 : decode_utf8(p, p + s.size());
}

char32_t last_char(std::string_view s) {
  size_t at = s.size();
  while (at > 0 && (static_cast<unsigned char>(s[--at]) & 0xc0) == 0x80) {
  }
  return s.empty() ? 0 : first_char(s.substr(at));
}

bool looks_like_byte(std::string_view s) { return s.size() == 6 && s.starts_with("<0x") && s.ends_with('>'); }

}  // namespace

Bpe::Bpe(const TokenModelSpec& model, const Vocabulary& vocabulary, bool raw_bytes)
    : vocabulary_(vocabulary),
      raw_bytes_(raw_bytes),
      scored_(model.kind == TokenModelSpec::Kind::score_bpe),
      byte_fallback_(model.byte_fallback),
      fuse_unk_(model.fuse_unk),
      ignore_merges_(model.ignore_merges),
      unknown_as_bytes_(model.unknown_as_bytes),
      unk_id_(model.unk_id),
      unk_missing_(!model.unk_token.empty() && model.unk_id == kNoToken),
      unk_token_(model.unk_token),
      prefix_(model.continuing_prefix),
      suffix_(model.word_suffix) {
  for (int b = 0; b < 256; ++b) {
    std::string text;
    if (raw_bytes)
      append_utf8(text, byte_to_printable(static_cast<uint8_t>(b)));
    else
      text.push_back(static_cast<char>(b));
    byte_ids_[b] = raw_bytes || b < 128 ? vocabulary.find(text) : kNoToken;
    fallback_ids_[b] = vocabulary.find(fmt::format("<0x{:02X}>", b));
  }
  all_as_bytes_ =
      byte_fallback_ && (scored_ || std::none_of(std::begin(fallback_ids_), std::end(fallback_ids_),
                                                 [](int32_t id) { return id == kNoToken; }));
  if (scored_)
    index_scores(model);
  else
    index_merges(model);
}

void Bpe::index_merges(const TokenModelSpec& model) {
  pairs_.resize(std::bit_ceil(model.merges.size() * 2 + 16));
  const size_t mask = pairs_.size() - 1;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& merge = model.merges[rank];
    const uint64_t key = pair_key(merge.left, merge.right);
    size_t i = pair_slot(key, mask);
    while (pairs_[i].key != ~0ull && pairs_[i].key != key) i = (i + 1) & mask;
    pairs_[i] = {key, static_cast<uint32_t>(rank), merge.result};
  }
  if (raw_bytes_ || !prefix_.empty() || !suffix_.empty()) return;
  if (!all_as_bytes_ && unk_id_ == kNoToken)
    return;  // what is unknown is left out, and its neighbours may join
  joints_.resize(std::bit_ceil(model.merges.size() * 8 + 4096) / 64);
  for (const auto& merge : model.merges) {
    const std::string_view left = vocabulary_.text(merge.left), right = vocabulary_.text(merge.right);
    if (left.empty() || right.empty() || looks_like_byte(left) || looks_like_byte(right))
      return joints_.clear();
    add_joint(last_char(left), first_char(right));
  }
}

void Bpe::index_scores(const TokenModelSpec& model) {
  const auto n = static_cast<size_t>(vocabulary_.size());
  if (model.scores.size() < n) {
    throw errorf("the vocabulary has {} tokens but only {} scores", n, model.scores.size());
  }
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return model.scores[a] > model.scores[b]; });
  score_ranks_.assign(n, kNoRank);
  uint32_t rank = 0;
  size_t chars = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i > 0 && model.scores[order[i]] < model.scores[order[i - 1]]) ++rank;
    if (order[i] < static_cast<int32_t>(model.hidden.size()) && model.hidden[order[i]]) continue;
    score_ranks_[order[i]] = rank;
    chars += vocabulary_.text(order[i]).size();
  }
  joints_.resize(std::bit_ceil(chars * 4 + 4096) / 64);
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.text(id);
    const char* p = text.data();
    const char* const end = p + text.size();
    for (char32_t before = 0, c; p < end && score_ranks_[id] != kNoRank; before = c) {
      c = decode_utf8(p, end);
      if (before != 0) add_joint(before, c);
    }
  }
}

size_t Bpe::joint_hash(char32_t left, char32_t right) noexcept {
  return ((static_cast<uint64_t>(left) << 21 | right) * 0x9e3779b97f4a7c15u) >> 20;
}

void Bpe::add_joint(char32_t left, char32_t right) {
  const size_t bit = joint_hash(left, right) & (joints_.size() * 64 - 1);
  joints_[bit / 64] |= 1ull << (bit % 64);
}

size_t Bpe::safe_prefix(std::string_view word) const noexcept {
  if (joints_.empty()) return word.size();
  const char* p = word.data();
  const char* const end = p + word.size();
  const size_t mask = joints_.size() * 64 - 1;
  char32_t before = p < end ? decode_utf8(p, end) : 0;
  while (p < end) {
    const char* const at = p;
    const char32_t c = decode_utf8(p, end);
    const size_t bit = joint_hash(before, c) & mask;
    before = c;
    if (joints_[bit / 64] >> (bit % 64) & 1) continue;
    // Unknown characters in a row may become one token: cut only before a known one.
    const bool known = all_as_bytes_ || !fuse_unk_ || unk_id_ == kNoToken ||
                       vocabulary_.find({at, static_cast<size_t>(p - at)}) != kNoToken;
    if (known) return static_cast<size_t>(at - word.data());
  }
  return word.size();
}

void Bpe::find_pair(Symbol& left, const Symbol& right, std::string_view word) const noexcept {
  left.rank = kNoRank;
  if (scored_) {
    if (right.end - left.begin > vocabulary_.longest()) return;
    const int32_t id = vocabulary_.find(word.substr(left.begin, right.end - left.begin));
    if (id == kNoToken) return;
    left.rank = score_ranks_[id];
    left.result = id;
    return;
  }
  const uint64_t key = pair_key(left.id, right.id);
  const size_t mask = pairs_.size() - 1;
  for (size_t i = pair_slot(key, mask); pairs_[i].key != ~0ull; i = (i + 1) & mask) {
    if (pairs_[i].key != key) continue;
    left.rank = pairs_[i].rank;
    left.result = pairs_[i].result;
    return;
  }
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (ignore_merges_) {
    std::string_view text = word;
    if (raw_bytes_) {
      scratch.text.clear();
      for (char b : word) append_utf8(scratch.text, byte_to_printable(static_cast<uint8_t>(b)));
      text = scratch.text;
    }
    const int32_t id = vocabulary_.find(text);
    if (id != kNoToken) return ids.push_back(id);
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  start_symbols(word, scratch);
  const auto n = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < n; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < n ? i + 1 : -1;
    symbols[i].rank = kNoRank;
    if (i + 1 < n) find_pair(symbols[i], symbols[i + 1], word);
  }
  bool unknown = false;
  if (symbols.size() <= kShortWord) {
    merge_short(word, symbols);
    for (const Symbol& symbol : symbols) emit(symbol, word, unknown, ids);
  } else {
    merge_long(word, scratch);
    for (int32_t i = 0; i >= 0; i = symbols[i].next) emit(symbols[i], word, unknown, ids);
  }
}

void Bpe::start_symbols(std::string_view word, BpeScratch& scratch) const {
  if (raw_bytes_ && prefix_.empty() && suffix_.empty() && unk_id_ == kNoToken && !unk_missing_) {
    for (uint32_t i = 0; i < word.size(); ++i) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
      if (id != kNoToken)
        scratch.symbols.push_back({id, i, i + 1, 0, 0, 0, 0});  // an unknown byte is left out
    }
    return;
  }
  start_characters(word, scratch);
}

// The general start: characters, with "##" and "</w>" around them, byte fallback and unknown tokens.
void Bpe::start_characters(std::string_view word, BpeScratch& scratch) const {
  uint32_t unk_begin = 0, unk_end = 0;
  bool unk = false;
  const auto flush = [&] {
    if (unk) scratch.symbols.push_back({unk_id_, unk_begin, unk_end, 0, 0, 0, 0});
    unk = false;
  };
  std::string text;
  for (uint32_t at = 0; at < word.size();) {
    const uint32_t begin = at;
    at += raw_bytes_ ? 1
                     : std::min<uint32_t>(static_cast<uint32_t>(utf8_length(word[at])),
                                          static_cast<uint32_t>(word.size()) - at);
    int32_t id = kNoToken;
    std::string_view character = word.substr(begin, at - begin);
    const bool plain = (begin == 0 || prefix_.empty()) && (at < word.size() || suffix_.empty());
    if (plain && (raw_bytes_ || character.size() == 1)) {
      id = byte_ids_[static_cast<unsigned char>(character[0])];
    } else {
      text.clear();
      if (begin > 0) text += prefix_;
      if (raw_bytes_)
        append_utf8(text, byte_to_printable(static_cast<uint8_t>(character[0])));
      else
        text += character;
      if (at == word.size()) text += suffix_;
      id = vocabulary_.find(text);
      character = text;
    }
    if (id != kNoToken || scored_ || unknown_as_bytes_) {  // emit() sees to the last two's unknown ones
      flush();
      scratch.symbols.push_back({id, begin, at, 0, 0, 0, 0});
      continue;
    }
    std::string printable;  // what HF would have in the place of a raw byte
    if (byte_fallback_ && raw_bytes_ && plain) {
      append_utf8(printable, byte_to_printable(static_cast<uint8_t>(character[0])));
      character = printable;
    }
    if (byte_fallback_ && std::all_of(character.begin(), character.end(), [&](char b) {
          return fallback_ids_[static_cast<unsigned char>(b)] != kNoToken;
        })) {
      for (char b : character) {
        scratch.symbols.push_back({fallback_ids_[static_cast<unsigned char>(b)], begin, at, 0, 0, 0, 0});
      }
      continue;
    }
    if (unk_missing_) throw errorf("the unknown token '{}' is not in the vocabulary", unk_token_);
    if (unk_id_ == kNoToken) continue;
    if (!fuse_unk_) flush();
    if (!unk) unk_begin = begin;
    unk = true;
    unk_end = at;
  }
  flush();
}

void Bpe::merge_short(std::string_view word, std::vector<Symbol>& symbols) const {
  size_t n = symbols.size();
  Symbol* const s = symbols.data();
  while (n > 1) {
    size_t best = 0;
    uint32_t rank = kNoRank;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (s[i].rank < rank) rank = s[i].rank, best = i;
    }
    if (rank == kNoRank) break;
    s[best].id = s[best].result;
    s[best].end = s[best + 1].end;
    std::move(s + best + 2, s + n, s + best + 1);
    --n;
    s[best].rank = kNoRank;
    if (best + 1 < n) find_pair(s[best], s[best + 1], word);
    if (best > 0) find_pair(s[best - 1], s[best], word);
  }
  symbols.resize(n);
}

void Bpe::merge_long(std::string_view word, BpeScratch& scratch) const {
  auto& s = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const auto entry = [&](int32_t i) {
    return static_cast<uint64_t>(s[i].rank) << 32 | static_cast<uint32_t>(i);
  };
  for (int32_t i = 0; i < static_cast<int32_t>(s.size()); ++i) {
    if (s[i].rank != kNoRank) heap.push_back(entry(i));
  }
  const auto lower = std::greater<uint64_t>();
  std::make_heap(heap.begin(), heap.end(), lower);
  const auto push = [&](int32_t i) {
    if (s[i].rank == kNoRank) return;
    heap.push_back(entry(i));
    std::push_heap(heap.begin(), heap.end(), lower);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), lower);
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(top & 0xffffffffu);
    if (s[at].rank != top >> 32) continue;  // the pair is gone, or another now
    const int32_t right = s[at].next;
    s[at].id = s[at].result;
    s[at].end = s[right].end;
    s[at].next = s[right].next;
    s[right].rank = kNoRank;
    s[at].rank = kNoRank;
    if (s[at].next >= 0) {
      s[s[at].next].previous = at;
      find_pair(s[at], s[s[at].next], word);
      push(at);
    }
    if (s[at].previous >= 0) {
      find_pair(s[s[at].previous], s[at], word);
      push(s[at].previous);
    }
  }
}

void Bpe::emit(const Symbol& symbol, std::string_view word, bool& unknown, std::vector<int32_t>& ids) const {
  const bool after_unknown = unknown;
  unknown = false;
  if (symbol.id >= 0 && symbol.id < vocabulary_.size()) return ids.push_back(symbol.id);
  if (scored_ && !byte_fallback_) {  // SentencePiece: unknown characters in a row are one token
    unknown = true;
    if (unk_id_ != kNoToken && !after_unknown) ids.push_back(unk_id_);
    return;
  }
  // A character, or a merge's outcome, that is no token: its bytes one by one.
  for (char b : word.substr(symbol.begin, symbol.end - symbol.begin)) {
    const auto byte = static_cast<unsigned char>(b);
    int32_t id = fallback_ids_[byte];
    if (id == kNoToken) id = byte_ids_[byte];
    if (id == kNoToken && scored_) id = unk_id_;
    if (id != kNoToken) ids.push_back(id);
  }
}

}  // namespace anemone
