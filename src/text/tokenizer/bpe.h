// Bpe: byte-pair encoding of one word. It starts from bytes or characters and merges the best pair until none is left.
//     Bpe bpe(spec.model, spec.vocabulary, /*raw_bytes=*/true);
//     bpe.encode(" hello", scratch, ids);
// Two rules for "best": the rank in a list of merges, or the score of the token that the two pieces make
// (SentencePiece). Short words are merged by scanning an array, long ones with a heap.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer/spec.h"

namespace anemone {

// Buffers that a call needs; one a thread.
struct BpeScratch {
  struct Symbol {
    int32_t id;
    uint32_t begin, end;  // of the word's bytes
    int32_t previous, next;
    uint32_t rank;  // of the pair with the next symbol
    int32_t result;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
  std::string text;
};

class Bpe {
 public:
  // raw_bytes: words are raw bytes, tokens are written in the printable alphabet. The vocabulary must outlive this.
  Bpe(const TokenModelSpec& model, const Vocabulary& vocabulary, bool raw_bytes);

  // Appends the word's ids.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;

  // Where a long word can be cut without a change of its ids: the bytes of its first part. No merge joins the two
  // characters at the cut.
  size_t safe_prefix(std::string_view word) const noexcept;
  bool can_cut() const { return !joints_.empty(); }

 private:
  static constexpr uint32_t kNoRank = ~0u;
  struct Pair {
    uint64_t key = ~0ull;  // left << 32 | right
    uint32_t rank = kNoRank;
    int32_t result = kNoToken;
  };

  void index_merges(const TokenModelSpec& model);
  void index_scores(const TokenModelSpec& model);
  void add_joint(char32_t left, char32_t right);
  static size_t joint_hash(char32_t left, char32_t right) noexcept;
  void find_pair(BpeScratch::Symbol& left, const BpeScratch::Symbol& right,
                 std::string_view word) const noexcept;
  void start_symbols(std::string_view word, BpeScratch& scratch) const;
  void start_characters(std::string_view word, BpeScratch& scratch) const;
  void merge_short(std::string_view word, std::vector<BpeScratch::Symbol>& symbols) const;
  void merge_long(std::string_view word, BpeScratch& scratch) const;
  void emit(const BpeScratch::Symbol& symbol, std::string_view word, bool& unknown,
            std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  bool raw_bytes_, scored_, byte_fallback_, fuse_unk_, ignore_merges_, unknown_as_bytes_;
  bool all_as_bytes_ = false;  // byte fallback, and no byte's token is missing
  int32_t unk_id_;
  bool unk_missing_;  // an unknown token is named but is not in the vocabulary
  std::string unk_token_, prefix_, suffix_;
  std::array<int32_t, 256> byte_ids_{};      // raw_bytes: of each byte; else of each ASCII character
  std::array<int32_t, 256> fallback_ids_{};  // of <0x00> … <0xFF>
  std::vector<Pair> pairs_;                  // a flat hash table, a power of two long
  std::vector<uint32_t> score_ranks_;  // per id: its place by score, the best 0; kNoRank for hidden ones
  std::vector<uint64_t> joints_;       // bits: hashes of the character pairs that a merge can join
};

}  // namespace anemone
