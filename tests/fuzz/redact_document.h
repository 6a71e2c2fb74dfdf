// A document of any bytes through redact with one pattern, checked: no byte is lost, and places are right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "redact/document.h"
#include "redact/records.h"

namespace anemone {

inline void expect(bool holds) {
  if (!holds) std::abort();
}

inline redact::Redactor& one_pattern() {
  static redact::RedactSettings settings = [] {
    redact::RedactSettings s;
    s.also = {"a+|\\d\\d"};
    return s;
  }();
  static redact::Redactor redactor(settings, nullptr);
  return redactor;
}

// The first byte says how the bytes are cut and read.
inline void redact_any(const uint8_t* data, size_t size, redact::Format format) {
  if (size == 0) return;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string out, made;
  uint64_t at = 0;
  redact::DocumentSettings settings;
  settings.format = format;
  settings.walker.header = data[0] & 1;
  if (data[0] & 2) settings.walker.fields = redact::FieldFilter({"a", "b.c", "2"});
  redact::Document* read = nullptr;
  settings.write = [&](std::string_view b) { out += b; };
  settings.found = [&](const redact::Finding& f) {
    expect(f.range.begin.byte >= at && f.range.end.byte > f.range.begin.byte &&
           f.range.end.byte <= bytes.size());
    expect(f.line == 1 + redact::count_lines(bytes.substr(0, f.range.begin.byte), read->encoding()));
    made += bytes.substr(at, f.range.begin.byte - at);
    made += redact::encoded_ascii(f.replacement, read->encoding());
    at = f.range.end.byte;
  };
  redact::Document document(one_pattern(), settings);
  read = &document;
  const size_t piece = 1 + data[0] / 8;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    document.feed(bytes.substr(i, piece));
    if (data[0] & 4) document.pause();
    while (document.step(true)) {
    }
  }
  document.finish();
  while (document.step(true)) {
  }
  expect(document.done());
  made += bytes.substr(at);
  expect(made == out);
}

inline void redact_records(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t lines = 0, wanted = 0;
  redact::Records records(one_pattern(), {.write = [&](std::string_view) { ++lines; }});
  records.feed(bytes);
  records.finish();
  while (records.step(true)) {
  }
  for (const char c : bytes) wanted += c == '\n';
  wanted += !bytes.empty() && bytes.back() != '\n';
  expect(records.done() && lines == wanted);
}

}  // namespace anemone
