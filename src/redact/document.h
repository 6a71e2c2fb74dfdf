// Document: a file or a stream that is redacted while it is read. Memory does not grow with its length.
//     Document document(redactor, {.format = Format::csv, .write = [&](std::string_view bytes) { … }});
//     while (…) { document.feed(bytes); while (document.step(redactor.busy())) {} }
//     document.finish();
//     while (document.step(true)) {}
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
#include "redact/walker.h"

namespace anemone::redact {

struct DocumentSettings {
  Format format = Format::text;
  std::optional<Encoding> encoding;  // empty: found by its first bytes
  WalkerSettings walker;
  std::function<void(std::string_view bytes)> write;       // what comes out
  std::function<void(const Finding& finding)> found = {};  // each of them, in order
  std::function<void(std::string_view raw)> passed = {};   // what stays, between them
};

class Document : public Stream, private UnitSink {
 public:
  Document(Redactor& redactor, DocumentSettings settings);
  ~Document() override;

  void feed(std::string_view bytes) override;
  void pause() override;
  void finish() override;
  bool step(bool wait) override;
  bool done() const override { return finished_ && entries_.empty(); }
  FileFacts facts() const override;

  Encoding encoding() const { return encoding_.value_or(Encoding::utf8); }

 private:
  struct Entry {
    Unit unit;
    std::unique_ptr<Finder> finder;
  };

  Unit& unit() override;
  void end_unit() override;
  void problem(const std::string& what) override;

  void decide_encoding(bool last);
  void walk(bool last);
  void emit(Entry& entry, const std::vector<Span>& spans);
  void replace(const Span& span, Entry& entry);
  void pass(uint64_t upto);
  void skip(uint64_t upto);

  Redactor& redactor_;
  DocumentSettings settings_;
  std::optional<Encoding> encoding_;
  std::optional<CharReader> reader_;
  std::unique_ptr<Walker> walker_;
  std::vector<SourceChar> chars_;
  std::string head_;  // bytes before the encoding is known
  std::string raw_;   // bytes that are not written, from raw_begin_ on; the first raw_done_ of it are
  uint64_t raw_begin_ = 0, raw_done_ = 0;
  std::deque<Entry> entries_;  // units whose spans are not all known; the last one is being read
  SourcePlace next_;           // where the next unit begins
  bool open_ = false;          // the last entry is being read
  bool begun_ = false, finished_ = false, started_ = false;
  uint64_t bytes_ = 0, characters_ = 0, malformed_ = 0;
  uint64_t line_ = 1;  // of what is written
  std::vector<std::string> problems_;
};

}  // namespace anemone::redact
