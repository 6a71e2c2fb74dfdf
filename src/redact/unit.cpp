#include "redact/unit.h"

#include <algorithm>

#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr uint64_t kKeptBytes = 1 << 16;  // at the front of the view: erased only when it is worth it

}  // namespace

void Unit::put(Part part, char32_t seen, uint64_t source_bytes, uint64_t source_characters) {
  const uint64_t before = view_end();
  if (part != Part::fixed) {
    if (seen < 0x80)
      view_ += static_cast<char>(seen);
    else
      append_utf8(view_, seen);
  }
  const uint64_t bytes = view_end() - before;
  const bool plain = source_characters == 1;
  // Runs: of what stays, of ASCII, and of UTF-8 as it is. The rest has a segment for each character.
  const uint8_t scale = !plain || part == Part::fixed ? 0
                        : seen < 0x80                 ? static_cast<uint8_t>(source_bytes)
                        : bytes == source_bytes       ? 1
                                                      : 0;
  if (!segments_.empty()) {
    Segment& last = segments_.back();
    if (last.part == part && (part == Part::fixed || (scale > 0 && last.scale == scale))) {
      last.view_bytes += bytes;
      last.source_bytes += source_bytes;
      last.source_characters += source_characters;
      source_end_.byte += source_bytes;
      source_end_.character += source_characters;
      return;
    }
  }
  segments_.push_back({before, bytes, source_end_, source_bytes, source_characters, part, scale});
  source_end_.byte += source_bytes;
  source_end_.character += source_characters;
}

void Unit::context(std::string_view text) {
  if (text.empty()) return;
  segments_.push_back({view_end(), text.size(), source_end_, 0, 0, Part::shown, 0});
  view_ += text;
}

// The first segment that ends behind the place, or the last one.
size_t Unit::segment_at(uint64_t view) const {
  const auto at = std::partition_point(segments_.begin(), segments_.end(),
                                       [&](const Segment& s) { return s.view_end() <= view; });
  return static_cast<size_t>(at - segments_.begin());
}

SourcePlace Unit::place_in(const Segment& s, uint64_t view) const {
  if (view <= s.view) return s.source;
  SourcePlace out = s.source;
  if (view >= s.view_end() || s.scale == 0) {
    out.byte += s.source_bytes;
    out.character += s.source_characters;
    return out;
  }
  out.byte += (view - s.view) * s.scale;
  out.character += count_chars(this->view(s.view < view_begin_ ? view_begin_ : s.view, view));
  return out;
}

std::vector<SourceRange> Unit::sources(uint64_t begin, uint64_t end) const {
  std::vector<SourceRange> out;
  for (size_t i = segment_at(begin); i < segments_.size() && segments_[i].view < end; ++i) {
    const Segment& s = segments_[i];
    if (s.part != Part::open) continue;
    const uint64_t from = std::max(begin, s.view), to = std::min(end, s.view_end());
    if (to <= from) continue;
    SourceRange r{place_in(s, from), place_in(s, to), from, to};
    if (s.scale == 0)
      r = {s.source,
           {s.source.byte + s.source_bytes, s.source.character + s.source_characters},
           s.view,
           s.view_end()};
    if (!out.empty() && out.back().end.byte == r.begin.byte && out.back().view_end == r.view_begin) {
      out.back().end = r.end;
      out.back().view_end = r.view_end;
    } else {
      out.push_back(r);
    }
  }
  return out;
}

uint64_t Unit::source_byte_before(uint64_t view) const {
  if (view >= view_end()) return source_end_.byte;
  const size_t i = segment_at(view);
  return i == segments_.size() ? source_end_.byte : place_in(segments_[i], view).byte;
}

void Unit::drop(uint64_t view) {
  while (!segments_.empty() && segments_.front().view_end() <= view) segments_.pop_front();
  if (!segments_.empty() && segments_.front().scale > 0 && segments_.front().view < view) {
    Segment& s = segments_.front();
    const SourcePlace place = place_in(s, view);
    s.view_bytes -= view - s.view;
    s.source_bytes -= place.byte - s.source.byte;
    s.source_characters -= place.character - s.source.character;
    s.source = place;
    s.view = view;
  }
  if (view - view_begin_ < kKeptBytes && view < view_end()) return;
  view_.erase(0, view - view_begin_);
  view_begin_ = view;
}

}  // namespace anemone::redact
