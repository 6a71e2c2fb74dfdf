#include "redact/viterbi.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"

namespace anemone::redact {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
// Paths meet within a few tokens. Where they never do (a text that is one span), the best one is taken after so many.
constexpr size_t kMostHeld = 1 << 16;

double bias_of(const LabelScheme& s, size_t before, size_t label, const TransitionBiases& b) {
  const bool to_background = s.tag(label) == Tag::outside;
  switch (s.tag(before)) {
    case Tag::outside: return to_background ? b.background_stay : b.background_to_start;
    case Tag::end:
    case Tag::single: return to_background ? b.end_to_background : b.end_to_start;
    case Tag::begin:
    case Tag::inside: break;
  }
  if (s.tag(label) == Tag::inside) return b.inside_to_continue;
  if (s.tag(label) == Tag::end) return b.inside_to_end;
  return to_background ? b.end_to_background : b.end_to_start;  // labels without ends
}

}  // namespace

TransitionBiases biases_of(Policy policy) {
  const double background = policy == Policy::strict ? -2 : policy == Policy::quiet ? 2 : 0;
  TransitionBiases out;
  out.background_stay = out.end_to_background = background;
  return out;
}

Transitions::Transitions(const LabelScheme& scheme, const TransitionBiases& biases)
    : scheme_(scheme), from_(scheme.size()) {
  if (scheme.size() > 256)
    throw errorf("a model with {} labels is not supported", scheme.size()).expected("256 at most");
  for (size_t label = 0; label < scheme.size(); ++label)
    for (size_t before = 0; before < scheme.size(); ++before)
      if (scheme.may_follow(before, label))
        from_[label].push_back({static_cast<uint8_t>(before), bias_of(scheme, before, label, biases)});
}

Viterbi::Viterbi(const Transitions& transitions)
    : transitions_(transitions),
      scheme_(transitions.scheme()),
      best_(scheme_.size()),
      next_(scheme_.size()) {}

void Viterbi::add_token(const float* scores) {
  const size_t labels = scheme_.size();
  came_.resize((held_ + 1) * labels);
  uint8_t* came = came_.data() + held_ * labels;
  for (size_t label = 0; label < labels; ++label) {
    double most = started_ || !scheme_.may_start(label) ? kNever : 0;
    came[label] = 0;
    if (started_)
      for (const Transitions::From& f : transitions_.into(label))
        if (best_[f.label] + f.bias > most) {
          most = best_[f.label] + f.bias;
          came[label] = f.label;
        }
    next_[label] = most + static_cast<double>(scores[label]);
  }
  std::swap(best_, next_);
  started_ = true;
  ++held_;
}

void Viterbi::add(std::span<const float> scores) {
  for (size_t at = 0; at < scores.size(); at += scheme_.size()) add_token(scores.data() + at);
  // Only differences matter: a long text must not lose digits.
  const double most = *std::max_element(best_.begin(), best_.end());
  if (started_ && most > kNever)
    for (double& b : best_) b -= most;
}

std::vector<int> Viterbi::take(size_t count, int label) {
  const size_t labels = scheme_.size();
  std::vector<int> out(count);
  for (size_t t = count; t > 0; --t) {
    out[t - 1] = label;
    label = came_[(t - 1) * labels + static_cast<size_t>(label)];
  }
  came_.erase(came_.begin(), came_.begin() + static_cast<ptrdiff_t>(count * labels));
  held_ -= count;
  return out;
}

std::vector<int> Viterbi::decided() {
  const size_t labels = scheme_.size();
  std::set<int> alive;
  for (size_t label = 0; label < labels; ++label)
    if (best_[label] > kNever) alive.insert(static_cast<int>(label));
  size_t t = held_;
  while (t > 1 && alive.size() > 1) {
    std::set<int> before;
    for (const int label : alive) before.insert(came_[(t - 1) * labels + static_cast<size_t>(label)]);
    alive = std::move(before);
    --t;
  }
  if (t > 0 && alive.size() == 1) return take(t, *alive.begin());
  if (held_ < kMostHeld) return {};
  const auto best = std::max_element(best_.begin(), best_.end()) - best_.begin();
  // The other paths end here, so that the next ones agree with what was given out.
  for (size_t label = 0; label < labels; ++label)
    if (static_cast<ptrdiff_t>(label) != best) best_[label] = kNever;
  return take(held_, static_cast<int>(best));
}

std::vector<int> Viterbi::finish() {
  int best = -1;
  for (size_t label = 0; label < scheme_.size(); ++label)
    if (scheme_.may_finish(label) && (best < 0 || best_[label] > best_[static_cast<size_t>(best)]))
      best = static_cast<int>(label);
  std::vector<int> out = held_ ? take(held_, best) : std::vector<int>();
  std::fill(best_.begin(), best_.end(), 0.0);
  started_ = false;
  return out;
}

}  // namespace anemone::redact
