// Records: lines of JSON objects, each with a text; the same objects come out, in order, with the text redacted and
// what was found beside it. For pipes of other programs.
//     Records records(redactor, {.write = …});
//     records.feed("{\"id\": 7, \"text\": \"Ask Ann Lee.\"}\n");
//     → {"id": 7, "text": "Ask [PERSON].", "spans": [{"start": 4, "end": 11, "start_byte": 4, "end_byte": 11,
//        "label": "private_person", "score": 0.998}]}
// Every other byte of the line stays. A line that is no such object becomes one with the field `error`.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redact/redactor.h"
#include "redact/stream.h"

namespace anemone::redact {

// Where the members of a JSON object stand in its line.
struct RecordPlaces {
  size_t text_begin = 0, text_end = 0;    // the value, with its quotes
  size_t spans_begin = 0, spans_end = 0;  // the value of a member `spans` that is there already
  size_t close = 0;                       // the last bracket
  bool empty = false;                     // no members
  std::string text;                       // decoded: valid UTF-8
};

// Finds them; `problem` says what is wrong with the line. `field`: the name of the text. Nothing for what is no object,
// and for one whose texts nobody would look at: two of the name, or strings inside of its value.
std::optional<RecordPlaces> find_record(std::string_view line, std::string_view field, std::string& problem);

struct RecordSettings {
  std::string field = "text";
  std::function<void(std::string_view line)> write;
  std::function<void(const Finding& finding)> found = {};
};

class Records : public Stream {
 public:
  Records(Redactor& redactor, RecordSettings settings);
  ~Records() override;

  void feed(std::string_view bytes) override;
  void finish() override;
  bool step(bool wait) override;
  bool done() const override { return finished_ && entries_.empty(); }
  FileFacts facts() const override;

 private:
  struct Entry {
    std::string line;  // without its end
    std::string end;   // "\n", "\r\n" or nothing
    uint64_t number = 0;
    std::optional<RecordPlaces> places;
    std::string problem;
    Unit unit{SourcePlace{}};
    std::unique_ptr<Finder> finder;
    std::vector<Span> spans;
  };

  void add_line(std::string_view line, std::string_view end);
  void emit(Entry& entry);
  std::string redacted(Entry& entry, std::string& spans);

  Redactor& redactor_;
  RecordSettings settings_;
  std::string held_;  // the start of a line
  std::deque<std::unique_ptr<Entry>> entries_;
  uint64_t line_ = 0, errors_ = 0, bytes_ = 0;
  bool finished_ = false;
};

}  // namespace anemone::redact
