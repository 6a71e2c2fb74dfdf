#include "redact/spans.h"

#include <algorithm>

#include "text/unicode.h"

namespace anemone::redact {
namespace {

enum class Run { none, letters, digits };

// Runs that a span never cuts: letters of scripts with case, and digits. Others (Han, kana) have no words to see.
Run run_of(char32_t c) {
  const uint16_t is = class_of(c);
  if (is & kNumeral) return Run::digits;
  return is & (kUpper | kLower | kTitle | kMark) ? Run::letters : Run::none;
}

char32_t char_at(const Unit& unit, uint64_t at) {
  const std::string_view rest = unit.view(at, std::min(unit.view_end(), at + 4));
  const char* p = rest.data();
  return decode_utf8(p, p + rest.size());
}

// The start of the character before the place.
uint64_t char_before(const Unit& unit, uint64_t at) {
  const std::string_view head = unit.view(std::max(unit.view_begin(), at < 4 ? 0 : at - 4), at);
  size_t back = 1;
  while (back < head.size() && (static_cast<unsigned char>(head[head.size() - back]) & 0xc0) == 0x80) ++back;
  return at - back;
}

uint64_t char_behind(const Unit& unit, uint64_t at) {
  return std::min(unit.view_end(), at + static_cast<uint64_t>(utf8_length(unit.view(at, at + 1)[0])));
}

bool cuts_run(const Unit& unit, uint64_t at) {
  if (at <= unit.view_begin() || at >= unit.view_end()) return false;
  const Run behind = run_of(char_at(unit, at));
  return behind != Run::none && behind == run_of(char_at(unit, char_before(unit, at)));
}

bool is_space(char32_t c) { return class_of(c) & kSpace; }

constexpr uint64_t kLongestWord = 4096;  // an edge is not moved further

Span trimmed(const Unit& unit, Span s) {
  while (s.begin < s.end && is_space(char_at(unit, s.begin))) s.begin = char_behind(unit, s.begin);
  while (s.begin < s.end && is_space(char_at(unit, char_before(unit, s.end))))
    s.end = char_before(unit, s.end);
  return s;
}

}  // namespace

void SpanBuilder::add_token(uint32_t bytes, std::span<const float> probabilities) {
  bytes_.push_back(bytes);
  probabilities_.insert(probabilities_.end(), probabilities.begin(), probabilities.end());
}

void SpanBuilder::close(std::vector<Span>& out) {
  out.push_back(
      {begin_, at_, kind_, static_cast<float>(sum_ / static_cast<double>(std::max<int64_t>(1, tokens_)))});
  open_ = false;
}

void SpanBuilder::label(int label, std::vector<Span>& out) {
  const auto l = static_cast<size_t>(label);
  const Tag tag = scheme_.tag(l);
  const bool goes_on = open_ && scheme_.kind(l) == kind_ && (tag == Tag::inside || tag == Tag::end);
  if (open_ && !goes_on) close(out);
  if (tag != Tag::outside && !open_) {
    open_ = true;
    begin_ = at_;
    kind_ = scheme_.kind(l);
    sum_ = 0;
    tokens_ = 0;
  }
  if (open_) {
    sum_ += static_cast<double>(probabilities_[static_cast<size_t>(kind_)]);
    ++tokens_;
  }
  at_ += bytes_.front();
  bytes_.pop_front();
  probabilities_.erase(probabilities_.begin(), probabilities_.begin() + static_cast<ptrdiff_t>(kinds_));
  if (open_ && (tag == Tag::end || tag == Tag::single)) close(out);
}

void SpanBuilder::finish(std::vector<Span>& out) {
  if (open_) close(out);
}

uint64_t word_start(const Unit& unit, uint64_t place, uint64_t most) {
  const uint64_t from = place;
  while (place > unit.view_begin() && from - place < most) {
    if (place >= unit.view_end()) {
      // What follows is not known: the last word may go on.
      if (run_of(char_at(unit, char_before(unit, place))) == Run::none) return place;
    } else if (!cuts_run(unit, place)) {
      return place;
    }
    place = char_before(unit, place);
  }
  return place;
}

std::vector<Span> tidy(const Unit& unit, const std::vector<Span>& spans, uint64_t floor) {
  std::vector<Span> out;
  for (Span s : spans) {
    s = trimmed(unit, s);
    if (s.begin >= s.end) continue;
    const Span given = s;
    while (s.begin > floor && given.begin - s.begin < kLongestWord && cuts_run(unit, s.begin))
      s.begin = char_before(unit, s.begin);
    while (s.end - given.end < kLongestWord && cuts_run(unit, s.end)) s.end = char_behind(unit, s.end);
    if (!out.empty() && s.begin < out.back().end) {
      if (s.kind == out.back().kind) {
        out.back().end = std::max(out.back().end, s.end);
        out.back().score = std::max(out.back().score, s.score);
        continue;
      }
      s.begin = out.back().end;
      s = trimmed(unit, s);
    }
    if (s.begin < s.end) out.push_back(s);
  }
  return out;
}

std::vector<Span> overlaid(const std::vector<Span>& over, const std::vector<Span>& under) {
  std::vector<Span> out = over;
  for (Span s : under) {
    for (const Span& o : over) {
      if (o.end <= s.begin) continue;
      if (o.begin >= s.end) break;
      if (o.begin > s.begin) out.push_back({s.begin, o.begin, s.kind, s.score});
      s.begin = o.end;
      if (s.begin >= s.end) break;
    }
    if (s.begin < s.end) out.push_back(s);
  }
  std::sort(out.begin(), out.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return out;
}

}  // namespace anemone::redact
