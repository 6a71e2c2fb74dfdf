#include "grammar/token_masks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

// Subtrees with fewer tokens are walked byte by byte.
constexpr size_t kWorthASet = 12;
// Subtrees with longer tokens, too: runs of spaces.
constexpr size_t kLongestBelow = 40;

void allow(TokenMask& mask, int32_t id) {
  mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer, std::vector<int32_t> ends_given)
    : ends_(std::move(ends_given)) {
  bytes_.resize(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (tokenizer.is_special(id) || ends(id)) continue;
    bytes_[static_cast<size_t>(id)] = tokenizer.bytes(id);
    if (bytes_[static_cast<size_t>(id)].size() > std::numeric_limits<uint16_t>::max())
      bytes_[static_cast<size_t>(id)].clear();
    if (!bytes_[static_cast<size_t>(id)].empty()) sorted_.push_back(id);
    longest_ = std::max(longest_, bytes_[static_cast<size_t>(id)].size());
  }
  std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  build(0, sorted_.size(), 0);
}

bool GrammarVocabulary::ends(int32_t id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

// The subtrees of sorted_[begin, end), which share their first `depth` bytes and are longer than that.
void GrammarVocabulary::build(size_t begin, size_t end, size_t depth) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(bytes(sorted_[i])[depth]); };
  while (begin < end) {
    size_t last = begin;
    while (last < end && byte_at(last) == byte_at(begin)) ++last;
    const size_t at = nodes_.size();
    Node node;
    node.byte = byte_at(begin);
    node.depth = static_cast<uint16_t>(depth + 1);
    size_t own = begin;
    while (own < last && bytes(sorted_[own]).size() == depth + 1) ++own;
    node.first = static_cast<uint32_t>(begin);
    node.own_end = static_cast<uint32_t>(own);
    node.end = static_cast<uint32_t>(last);
    for (size_t i = own; i < last; ++i)
      node.below = std::max(node.below, static_cast<uint16_t>(bytes(sorted_[i]).size() - depth - 1));
    if (last - own >= kWorthASet && node.below <= kLongestBelow) {
      ByteSet set;
      for (size_t i = own; i < last; ++i)
        for (const char c : std::string_view(bytes(sorted_[i])).substr(depth + 1))
          set.set(static_cast<unsigned char>(c));
      node.set = static_cast<int32_t>(sets_.size());
      sets_.push_back(set);
    }
    nodes_.push_back(node);
    build(own, last, depth + 1);
    nodes_[at].next = static_cast<uint32_t>(nodes_.size());
    begin = last;
  }
}

TokenMasks::TokenMasks(std::shared_ptr<const Grammar> grammar,
                       std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)), automaton_(grammar_) {}

TokenMask TokenMasks::make(int32_t state) {
  TokenMask out((vocabulary_->size() + 63) / 64);
  const auto& nodes = vocabulary_->nodes();
  const auto& sorted = vocabulary_->sorted();
  std::vector<int32_t> path(vocabulary_->longest() + 1);
  path[0] = state;
  for (size_t i = 0; i < nodes.size();) {
    const GrammarVocabulary::Node& node = nodes[i];
    const int32_t here = automaton_.next(path[node.depth - 1u], node.byte);
    if (here == GrammarAutomaton::kDead) {
      i = node.next;
      continue;
    }
    const bool all =
        node.set >= 0 &&
        (vocabulary_->sets()[static_cast<size_t>(node.set)] & ~automaton_.safe(here, node.below)).none();
    for (size_t t = node.first; t < (all ? node.end : node.own_end); ++t) allow(out, sorted[t]);
    path[node.depth] = here;
    i = all ? node.next : i + 1;
  }
  if (automaton_.accepts(state))
    for (const int32_t id : vocabulary_->end_tokens())
      if (id >= 0 && static_cast<size_t>(id) < vocabulary_->size()) allow(out, id);
  return out;
}

const TokenMask& TokenMasks::mask(int32_t state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  TokenMask made = make(state);
  mask_bytes_ += made.size() * sizeof(uint64_t) + 64;
  return masks_.emplace(state, std::move(made)).first->second;
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<TokenMasks> masks)
    : masks_(std::move(masks)), state_(masks_->automaton().start()) {}

// While it lives the automaton may do what the answer has left, and what it does is taken from that.
class GrammarMatcher::Spending {
 public:
  explicit Spending(GrammarMatcher& of)
      : of_(of), automaton_(of.masks_->automaton()), before_(automaton_.work()) {
    automaton_.allow(of.work_);
  }
  ~Spending() { of_.work_ -= std::min(of_.work_, automaton_.work() - before_); }
  Spending(const Spending&) = delete;
  Spending& operator=(const Spending&) = delete;

 private:
  GrammarMatcher& of_;
  GrammarAutomaton& automaton_;
  size_t before_;
};

// The states and masks of a long text can grow without end: a fresh automaton reads it once more instead.
void GrammarMatcher::make_room() {
  if (masks_->bytes() < kMostBytes) return;
  masks_->set_full();
  masks_ = std::make_shared<TokenMasks>(masks_->grammar(), masks_->vocabulary());
  const Spending spending(*this);
  state_ = follow(masks_->automaton().start(), text_);
}

int32_t GrammarMatcher::follow(int32_t state, std::string_view bytes) {
  for (const char c : bytes) state = masks_->automaton().next(state, static_cast<uint8_t>(c));
  return state;
}

bool GrammarMatcher::allows(int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= masks_->vocabulary()->size()) return false;
  if (masks_->vocabulary()->ends(id)) return complete();
  const std::string& bytes = masks_->vocabulary()->bytes(id);
  const Spending spending(*this);
  return !bytes.empty() && follow(state_, bytes) != GrammarAutomaton::kDead;
}

void GrammarMatcher::mask(std::span<float> logits) {
  make_room();
  const Spending spending(*this);
  const TokenMask& mask = masks_->mask(state_);
  bool any = false;
  for (size_t base = 0; base < logits.size(); base += 64) {
    const uint64_t bits = base / 64 < mask.size() ? mask[base / 64] : 0;
    any |= bits != 0;
    if (bits == ~uint64_t{0}) continue;
    for (size_t i = base; i < std::min(base + 64, logits.size()); ++i)
      if (!(bits >> (i - base) & 1)) logits[i] = -std::numeric_limits<float>::infinity();
  }
  if (!any) throw GrammarError(errorf("no token of the vocabulary goes on with what the grammar allows"));
}

void GrammarMatcher::take(int32_t id) {
  if (masks_->vocabulary()->ends(id)) return;
  make_room();
  work_ = std::min(work_ + kWorkPerToken, kMostWork);
  const Spending spending(*this);
  const std::string& bytes = masks_->vocabulary()->bytes(id);
  state_ = follow(state_, bytes);
  text_ += bytes;
}

}  // namespace anemone
