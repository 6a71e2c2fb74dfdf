// GrammarAutomaton: follows a text byte by byte through a grammar. Its states are made when first reached and kept, so
// a byte mostly costs one look into a table.
//     GrammarAutomaton automaton(grammar);
//     int32_t s = automaton.start();
//     for (uint8_t b : bytes) s = automaton.next(s, b);         // kDead: no text of the grammar begins so
// Belongs to one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace anemone {

class GrammarAutomaton {
 public:
  static constexpr int32_t kDead = 0;
  // Rules that are open at once; a text that nests deeper is not let in.
  static constexpr int32_t kMostDepth = 400;

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  int32_t start() const { return start_; }
  // Error for a grammar that can be read in far too many ways at once.
  int32_t next(int32_t state, uint8_t byte) {
    const int32_t known = states_[static_cast<size_t>(state)].next[class_of_[byte]];
    return known >= 0 ? known : make_next(state, class_of_[byte]);
  }
  // A whole text of the grammar may end here.
  bool accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepts; }
  // Bytes of which any `steps` in a row keep reading going: inside of a text, all that are not special there. Perhaps
  // not all such bytes.
  const ByteSet& safe(int32_t state, size_t steps);
  // What making its states has cost so far, in places of the grammar that were looked at: about 50 ns each. It may do
  // so much more; then next() and safe() throw.
  size_t work() const { return work_; }
  void allow(size_t more) { most_work_ = work_ + more; }
  // About how much it holds.
  size_t bytes() const { return bytes_; }
  size_t states() const { return states_.size(); }

 private:
  // What is still to be read: from a place in `flat_` on, then what the parent says.
  struct Node {
    int32_t place = 0, parent = 0, depth = 0;
  };
  struct State {
    std::vector<int32_t> tops;  // nodes that wait for a byte, ascending
    std::vector<int32_t> next;  // by class of bytes; -1: not known yet
    std::vector<ByteSet> safe;  // by steps, from 1 on; as far as was asked for
    int32_t behind = -1;        // the state that those steps lead to
    bool accepts = false;
  };
  struct Flat {
    enum class Kind : uint8_t { bytes, rule, end };
    Kind kind = Kind::end;
    int32_t index = 0;
  };
  struct Reached;

  void count(size_t work);
  void flatten();
  void sort_bytes();
  int32_t make_next(int32_t state, uint8_t byte_class);
  int32_t node(int32_t place, int32_t parent);
  void open(int32_t place, int32_t parent, Reached& reached);
  int32_t state_of(Reached reached);
  int32_t usual(int32_t state, ByteSet& bytes);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Flat> flat_;                     // every choice of every rule, each closed by an end
  std::vector<std::vector<int32_t>> choices_;  // by rule: where its choices begin
  std::array<uint8_t, 256> class_of_{};        // bytes that all sets treat alike
  std::vector<uint8_t> sample_;                // a byte of each class
  std::vector<ByteSet> members_;               // all bytes of it
  std::vector<Node> nodes_;                    // 0: nothing is left
  std::unordered_map<uint64_t, int32_t> node_of_;
  std::vector<State> states_;
  std::unordered_multimap<uint64_t, int32_t> state_of_;
  int32_t start_ = 0;
  size_t bytes_ = 0, work_ = 0, most_work_ = SIZE_MAX;
};

}  // namespace anemone
