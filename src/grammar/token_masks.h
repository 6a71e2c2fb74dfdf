// GrammarMatcher: which tokens may come next, so that the text stays within a grammar.
//     auto vocabulary = std::make_shared<const GrammarVocabulary>(*tokenizer, ends);   // once per model
//     GrammarMatcher matcher(std::make_shared<TokenMasks>(grammar, vocabulary));       // per answer
//     matcher.allows(id); matcher.mask(logits); matcher.take(id);
// Masks are kept by the state of the grammar: TokenMasks can be shared by answers of one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace anemone {

class Tokenizer;

// The bytes of every token, as a tree: tokens that begin alike are walked once.
class GrammarVocabulary {
 public:
  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;                        // 1: the first byte of a token
    uint16_t below = 0;                        // bytes of its longest token behind this one
    uint32_t next = 0;                         // behind its subtree
    uint32_t first = 0, own_end = 0, end = 0;  // of sorted(): tokens that end here, then those of the subtree
    int32_t set = -1;  // of sets(): bytes in its subtree; -1: too few tokens to be worth it
  };

  // `ends`: tokens that end an answer. Error for a tokenizer whose tokens have no bytes of their own.
  GrammarVocabulary(const Tokenizer& tokenizer, std::vector<int32_t> ends);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ByteSet>& sets() const { return sets_; }
  const std::vector<int32_t>& sorted() const { return sorted_; }  // ids, in the order of their bytes
  const std::string& bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  bool ends(int32_t id) const;  // one that ends an answer
  const std::vector<int32_t>& end_tokens() const { return ends_; }
  size_t size() const { return bytes_.size(); }
  size_t longest() const { return longest_; }

 private:
  void build(size_t begin, size_t end, size_t depth);

  std::vector<std::string> bytes_;  // by id; empty: not text
  std::vector<int32_t> sorted_, ends_;
  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  size_t longest_ = 0;
};

// Bits by token id.
using TokenMask = std::vector<uint64_t>;

class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  const TokenMask& mask(int32_t state);
  bool has_mask(int32_t state) const { return masks_.contains(state); }
  GrammarAutomaton& automaton() { return automaton_; }
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const std::shared_ptr<const GrammarVocabulary>& vocabulary() const { return vocabulary_; }
  size_t bytes() const { return automaton_.bytes() + mask_bytes_; }
  // It holds so much that the next answer better begins with fresh ones. For any thread.
  bool full() const { return full_; }
  void set_full() { full_ = true; }

 private:
  TokenMask make(int32_t state);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  GrammarAutomaton automaton_;
  std::unordered_map<int32_t, TokenMask> masks_;
  size_t mask_bytes_ = 0;
  std::atomic<bool> full_ = false;
};

class GrammarMatcher {
 public:
  // What a grammar may hold before a matcher goes on with a fresh one.
  static constexpr size_t kMostBytes = 64u << 20;
  // Work of the automaton that one answer may cost: so much at once (about a second), a little more with each token.
  static constexpr size_t kMostWork = 20'000'000, kWorkPerToken = 100'000;

  explicit GrammarMatcher(std::shared_ptr<TokenMasks> masks);

  bool allows(int32_t id);
  // Whether mask() is a look into a table now. Before that, a few tokens cost less with allows().
  bool has_mask() const { return masks_->has_mask(state_); }
  // Logits of tokens that are not allowed become minus infinity. Error where no token is left.
  void mask(std::span<float> logits);
  // A token that was allowed; one that ends the answer changes nothing.
  void take(int32_t id);
  // The text so far is whole.
  bool complete() const { return masks_->automaton().accepts(state_); }
  // What was taken so far.
  const std::string& text() const { return text_; }

 private:
  class Spending;
  void make_room();
  int32_t follow(int32_t state, std::string_view bytes);

  std::shared_ptr<TokenMasks> masks_;
  int32_t state_;
  size_t work_ = kMostWork;  // that is left
  std::string text_;
};

}  // namespace anemone
