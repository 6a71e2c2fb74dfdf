#include "redact/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

using Json = nlohmann::json;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Walks over a line that is known to be valid JSON.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip(char) { ++at_; }
  size_t at() const { return at_; }

  std::string_view string() {
    const size_t begin = at_++;
    while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    return text_.substr(begin, ++at_ - begin);
  }

  // Any value; brackets inside of it are counted.
  std::string_view value() {
    skip_space();
    const size_t begin = at_;
    int depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        string();
        continue;
      }
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      ++at_;
      if (depth == 0 && c != '}' && c != ']')
        while (at_ < text_.size() && !is_space(text_[at_]) && text_[at_] != ',' && text_[at_] != '}' &&
               text_[at_] != ']')
          ++at_;
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::string json_string(std::string_view text) { return json_text(Json(std::string(text))); }

// {…, "name": value}
std::string with_member(const std::string& object, const RecordPlaces& places, std::string_view name,
                        std::string_view value) {
  return fmt::format("{}{}{}: {}{}", object.substr(0, places.close), places.empty ? "" : ", ",
                     json_string(name), value, object.substr(places.close));
}

}  // namespace

std::optional<RecordPlaces> find_record(std::string_view line, std::string_view field, std::string& problem) {
  if (!Json::accept(line)) {
    problem = "the line is no JSON";
    return std::nullopt;
  }
  Scanner scan(line);
  if (scan.peek() != '{') {
    problem = "the line is no JSON object";
    return std::nullopt;
  }
  RecordPlaces out;
  scan.skip('{');
  out.empty = scan.peek() == '}';
  bool found = false, texts = false;
  while (scan.peek() != '}') {
    const std::string key = Json::parse(scan.string()).get<std::string>();
    scan.skip_space();
    scan.skip(':');
    const std::string_view value = scan.value();
    const size_t end = scan.at(), begin = end - value.size();
    if (key == field) {
      if (found) problem = fmt::format("the field '{}' stands there twice", field);
      found = true;
      if (value.front() != '"')
        problem = fmt::format("the field '{}' is no string", field);
      else
        out.text = Json::parse(value).get<std::string>();
      texts |= value.find('"') != std::string_view::npos;
      out.text_begin = begin;
      out.text_end = end;
    }
    if (key == "spans") {
      out.spans_begin = begin;
      out.spans_end = end;
    }
    if (scan.peek() == ',') scan.skip(',');
    scan.skip_space();
  }
  out.close = scan.at();
  if (!found) problem = fmt::format("the object has no field '{}'", field);
  if (texts && !problem.empty()) return std::nullopt;
  return out;
}

Records::Records(Redactor& redactor, RecordSettings settings)
    : redactor_(redactor), settings_(std::move(settings)) {}

Records::~Records() = default;

void Records::feed(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      held_ += bytes;
      return;
    }
    held_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    const bool returns = held_.ends_with('\r');
    if (returns) held_.pop_back();
    add_line(held_, returns ? "\r\n" : "\n");
    held_.clear();
  }
}

void Records::finish() {
  if (!held_.empty()) add_line(held_, "");
  held_.clear();
  finished_ = true;
}

FileFacts Records::facts() const {
  FileFacts out;
  out.format = "records";
  out.bytes = bytes_;
  out.records = line_;
  out.bad_records = errors_;
  return out;
}

void Records::add_line(std::string_view line, std::string_view end) {
  auto entry = std::make_unique<Entry>();
  entry->line = line;
  entry->end = end;
  entry->number = ++line_;
  std::string text;
  if (!std::all_of(line.begin(), line.end(), is_space)) {
    entry->places = find_record(line, settings_.field, entry->problem);
    // What is no object is redacted as it stands, so that nothing personal gets out by a mistake.
    if (!entry->places)
      text = to_valid_utf8(line);
    else if (entry->problem.empty())
      text = entry->places->text;
  }
  const char* const stop = text.data() + text.size();
  for (const char* p = text.data(); p < stop;) {
    const char* const before = p;
    const char32_t c = decode_utf8(p, stop);
    entry->unit.put(Part::open, c, static_cast<uint64_t>(p - before), 1);
  }
  entry->unit.end();
  entry->finder = redactor_.finder();
  entry->finder->feed(entry->unit);
  entries_.push_back(std::move(entry));
}

bool Records::step(bool wait) {
  if (entries_.empty()) return false;
  Entry& entry = *entries_.front();
  if (!entry.finder->take(entry.unit, wait, entry.spans)) return false;
  if (entry.finder->done()) {
    emit(entry);
    entries_.pop_front();
  }
  return true;
}

// The text, and the array of its spans as JSON.
std::string Records::redacted(Entry& entry, std::string& spans) {
  std::string out;
  uint64_t at = 0;
  spans = "[";
  for (const Span& span : entry.spans)
    for (const SourceRange& r : entry.unit.sources(span.begin, span.end)) {
      const std::string_view text = entry.unit.view(r.view_begin, r.view_end);
      const std::string replacement = redactor_.replacer().text(span.kind, text);
      if (settings_.found) settings_.found({span.kind, span.score, r, text, replacement, entry.number});
      out += entry.unit.view(at, r.view_begin);
      out += replacement;
      at = r.view_end;
      spans += fmt::format(
          "{}{{\"start\": {}, \"end\": {}, \"start_byte\": {}, \"end_byte\": {}, \"label\": {}, \"score\": "
          "{:.4f}}}",
          spans.size() > 1 ? ", " : "", r.begin.character, r.end.character, r.begin.byte, r.end.byte,
          json_string(redactor_.kinds()[static_cast<size_t>(span.kind)]), static_cast<double>(span.score));
    }
  spans += "]";
  out += entry.unit.view(at, entry.unit.view_end());
  return out;
}

void Records::emit(Entry& entry) {
  redactor_.replacer().next_document();
  const bool blank = !entry.places && entry.problem.empty();
  if (blank) return settings_.write(entry.line + entry.end);
  std::string spans;
  const std::string text = redacted(entry, spans);
  if (!entry.problem.empty()) {
    ++errors_;
    const std::string problem = json_string(fmt::format("line {}: {}", entry.number, entry.problem));
    if (entry.places)
      return settings_.write(with_member(entry.line, *entry.places, "error", problem) + entry.end);
    return settings_.write(
        fmt::format("{{\"error\": {}, \"line\": {}}}{}", problem, json_string(text), entry.end));
  }
  RecordPlaces& p = *entry.places;
  std::string& line = entry.line;
  // From the back to the front, so that places stay right.
  const bool before = p.spans_end > 0 && p.spans_begin < p.text_begin;
  const auto put_text = [&] { line.replace(p.text_begin, p.text_end - p.text_begin, json_string(text)); };
  if (before) put_text();
  if (p.spans_end > 0)
    line.replace(p.spans_begin, p.spans_end - p.spans_begin, spans);
  else
    line = with_member(line, p, "spans", spans);
  if (!before) put_text();
  settings_.write(line + entry.end);
}

}  // namespace anemone::redact
