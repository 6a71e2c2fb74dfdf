// Unit: a text that is judged as one, and the source that it came from: a document, a line, a record of a table.
//     unit.put(Part::open, c);                       // a character of the source, as the model sees it
//     unit.context("email: ");                       // the model sees it, the source does not have it
//     for (const SourceRange& r : unit.sources(begin, end)) …          // where a span of the view lies in the source
// The view is valid UTF-8. Offsets count from the start of the unit's view and of the source; what is done with is
// dropped, so a unit of any length needs little memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "redact/encoding.h"

namespace anemone::redact {

enum class Part : uint8_t {
  fixed,  // stays as it is, and nobody looks at it: quotes, numbers
  shown,  // stays as it is, and the model sees it
  open,   // the model sees it, and it may be replaced
};

// A place in the source: bytes, and code points of its encoding.
struct SourcePlace {
  uint64_t byte = 0, character = 0;
};

struct SourceRange {
  SourcePlace begin, end;
  uint64_t view_begin = 0, view_end = 0;
};

class Unit {
 public:
  // `source`: where the first character of the unit stands.
  explicit Unit(SourcePlace source) : source_end_(source) {}

  void put(Part part, const SourceChar& c) { put(part, c.code, c.bytes, 1); }
  // One character of the view that takes several of the source: an escape.
  void put(Part part, char32_t seen, uint64_t source_bytes, uint64_t source_characters);
  // The model sees the text, and the source does not have it.
  void context(std::string_view text);
  // Nothing follows.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }

  uint64_t view_end() const { return view_begin_ + view_.size(); }
  SourcePlace source_end() const { return source_end_; }
  // The view from `begin` on, which has not been dropped.
  std::string_view view(uint64_t begin, uint64_t end) const {
    return std::string_view(view_).substr(begin - view_begin_, end - begin);
  }
  uint64_t view_begin() const { return view_begin_; }

  // The open parts of the source that a range of the view stands for; what lies between them stays.
  std::vector<SourceRange> sources(uint64_t begin, uint64_t end) const;
  // The end of the source for the view up to `view`; of all that there is, for the end of the view.
  uint64_t source_byte_before(uint64_t view) const;
  // What stands before this place of the view is done with.
  void drop(uint64_t view);

 private:
  // Neighbors of one part that map alike.
  struct Segment {
    uint64_t view = 0, view_bytes = 0;
    SourcePlace source;
    uint64_t source_bytes = 0, source_characters = 0;
    Part part = Part::fixed;
    uint8_t scale =
        0;  // ASCII: bytes of the source for one of the view; 0: one character, or another's run of bytes

    uint64_t view_end() const { return view + view_bytes; }
  };

  size_t segment_at(uint64_t view) const;
  SourcePlace place_in(const Segment& s, uint64_t view) const;

  std::string view_;
  uint64_t view_begin_ = 0;
  SourcePlace source_end_;
  std::deque<Segment> segments_;
  bool ended_ = false;
};

}  // namespace anemone::redact
