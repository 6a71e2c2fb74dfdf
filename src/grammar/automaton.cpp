#include "grammar/automaton.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace anemone {
namespace {

// Ways to read one text at once, and steps to find them; ordinary grammars need a handful.
constexpr size_t kMostTops = 2000;
constexpr size_t kMostSteps = 100'000;
constexpr size_t kMostBytes = 256u << 20;

GrammarError too_many_ways() {
  return GrammarError(
      errorf("the grammar can be read in too many ways at once").hint("make its choices differ early"));
}

uint64_t pair_key(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

uint64_t hash_of(const std::vector<int32_t>& tops, bool accepts) {
  uint64_t h = accepts ? 0x9e3779b97f4a7c15ull : 0x7f4a7c15ull;
  for (const int32_t t : tops) h = (h ^ static_cast<uint32_t>(t)) * 0xff51afd7ed558ccdull ^ h >> 29;
  return h;
}

}  // namespace

// What a step leads to, in the making.
struct GrammarAutomaton::Reached {
  std::vector<int32_t> tops;
  bool accepts = false;
  std::unordered_set<uint64_t> seen;
};

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  flatten();
  sort_bytes();
  nodes_.push_back({});
  State dead;
  dead.next.assign(sample_.size(), kDead);
  states_.push_back(std::move(dead));
  Reached reached;
  for (const int32_t place : choices_[static_cast<size_t>(grammar_->root)]) open(place, 0, reached);
  start_ = state_of(std::move(reached));
}

void GrammarAutomaton::count(size_t work) {
  work_ += work;
  if (work_ > most_work_ || bytes_ > kMostBytes)
    throw GrammarError(errorf("the grammar takes too much work to follow")
                           .hint("fewer repetitions that can be read in several ways"));
}

void GrammarAutomaton::flatten() {
  for (const GrammarRule& rule : grammar_->rules) {
    choices_.emplace_back();
    for (const Symbols& symbols : rule.choices) {
      choices_.back().push_back(static_cast<int32_t>(flat_.size()));
      for (const Symbol s : symbols)
        flat_.push_back({s.kind == Symbol::Kind::bytes ? Flat::Kind::bytes : Flat::Kind::rule, s.index});
      flat_.push_back({});
    }
  }
  bytes_ = flat_.size() * sizeof(Flat);
}

void GrammarAutomaton::sort_bytes() {
  for (const ByteSet& set : grammar_->sets) {
    std::array<int16_t, 512> split;  // by the class so far, and whether the set has the byte
    split.fill(-1);
    int16_t classes = 0;
    for (size_t b = 0; b < 256; ++b) {
      int16_t& to = split[2 * size_t{class_of_[b]} + set.test(b)];
      if (to < 0) to = classes++;
      class_of_[b] = static_cast<uint8_t>(to);
    }
  }
  const uint8_t most = *std::max_element(class_of_.begin(), class_of_.end());
  sample_.resize(static_cast<size_t>(most) + 1);
  members_.resize(sample_.size());
  for (size_t b = 0; b < 256; ++b) {
    sample_[class_of_[b]] = static_cast<uint8_t>(b);
    members_[class_of_[b]].set(b);
  }
}

int32_t GrammarAutomaton::node(int32_t place, int32_t parent) {
  const auto [at, fresh] = node_of_.try_emplace(pair_key(place, parent), static_cast<int32_t>(nodes_.size()));
  if (fresh) {
    nodes_.push_back({place, parent, nodes_[static_cast<size_t>(parent)].depth + 1});
    bytes_ += 64;
  }
  return at->second;
}

// Adds the nodes that wait for a byte when reading goes on at `place`.
void GrammarAutomaton::open(int32_t place, int32_t parent, Reached& reached) {
  std::vector<std::pair<int32_t, int32_t>> todo = {{place, parent}};
  while (!todo.empty()) {
    const auto [at, under] = todo.back();
    todo.pop_back();
    count(1);
    const Flat& flat = flat_[static_cast<size_t>(at)];
    if (flat.kind == Flat::Kind::bytes) {
      reached.tops.push_back(node(at, under));
      continue;
    }
    if (!reached.seen.insert(pair_key(at, under)).second) continue;
    if (reached.seen.size() > kMostSteps) throw too_many_ways();
    if (flat.kind == Flat::Kind::end) {
      if (under == 0)
        reached.accepts = true;
      else
        todo.emplace_back(nodes_[static_cast<size_t>(under)].place,
                          nodes_[static_cast<size_t>(under)].parent);
      continue;
    }
    // A rule at the end of a choice needs no way back: repetitions do not nest.
    const bool last = flat_[static_cast<size_t>(at) + 1].kind == Flat::Kind::end;
    const int32_t back = last ? under : node(at + 1, under);
    if (nodes_[static_cast<size_t>(back)].depth > kMostDepth) continue;
    for (const int32_t choice : choices_[static_cast<size_t>(flat.index)]) todo.emplace_back(choice, back);
  }
}

int32_t GrammarAutomaton::state_of(Reached reached) {
  std::vector<int32_t>& tops = reached.tops;
  std::sort(tops.begin(), tops.end());
  tops.erase(std::unique(tops.begin(), tops.end()), tops.end());
  if (tops.empty() && !reached.accepts) return kDead;
  if (tops.size() > kMostTops) throw too_many_ways();
  const uint64_t hash = hash_of(tops, reached.accepts);
  const auto [begin, end] = state_of_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const State& known = states_[static_cast<size_t>(it->second)];
    if (known.accepts == reached.accepts && known.tops == tops) return it->second;
  }
  State state;
  state.tops = std::move(tops);
  state.next.assign(sample_.size(), -1);
  state.accepts = reached.accepts;
  bytes_ += 128 + 4 * (state.tops.size() + state.next.size());
  const auto id = static_cast<int32_t>(states_.size());
  states_.push_back(std::move(state));
  state_of_.emplace(hash, id);
  return id;
}

int32_t GrammarAutomaton::make_next(int32_t state, uint8_t byte_class) {
  Reached reached;
  const size_t byte = sample_[byte_class];
  const std::vector<int32_t> tops = states_[static_cast<size_t>(state)].tops;
  count(1 + tops.size() / 4 + sample_.size() / 16);
  for (const int32_t top : tops) {
    const Node at = nodes_[static_cast<size_t>(top)];
    const auto set = static_cast<size_t>(flat_[static_cast<size_t>(at.place)].index);
    if (grammar_->sets[set].test(byte)) open(at.place + 1, at.parent, reached);
  }
  const int32_t out = state_of(std::move(reached));
  states_[static_cast<size_t>(state)].next[byte_class] = out;
  return out;
}

// Where most bytes lead from a state, and which bytes these are.
int32_t GrammarAutomaton::usual(int32_t state, ByteSet& bytes) {
  count(sample_.size() / 4);
  std::vector<std::pair<int32_t, size_t>> found;  // a handful
  for (size_t c = 0; c < sample_.size(); ++c) {
    const int32_t to = next(state, sample_[c]);
    if (to == kDead) continue;
    const auto known = std::find_if(found.begin(), found.end(), [&](const auto& n) { return n.first == to; });
    if (known == found.end())
      found.emplace_back(to, members_[c].count());
    else
      known->second += members_[c].count();
  }
  bytes.reset();
  if (found.empty()) return kDead;
  const int32_t out = std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
  for (size_t c = 0; c < sample_.size(); ++c)
    if (next(state, sample_[c]) == out) bytes |= members_[c];
  return out;
}

const ByteSet& GrammarAutomaton::safe(int32_t state, size_t steps) {
  const auto self = static_cast<size_t>(state);
  while (states_[self].safe.size() < steps) {
    const int32_t at = states_[self].safe.empty() ? state : states_[self].behind;
    // A state that leads to itself: as many steps as one likes.
    if (!states_[self].safe.empty() && at == state) break;
    ByteSet bytes;
    const int32_t behind = usual(at, bytes);
    State& s = states_[self];
    if (!s.safe.empty()) bytes &= s.safe.back();
    s.safe.push_back(bytes);
    s.behind = behind;
    bytes_ += sizeof(ByteSet);
  }
  return states_[self].safe[std::min(steps, states_[self].safe.size()) - 1];
}

}  // namespace anemone
