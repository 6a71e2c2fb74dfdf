#include "redact/document.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kHead = 4096;        // bytes that are waited for before the encoding is chosen
constexpr size_t kKeptRaw = 1 << 16;  // written bytes at the front: erased only when it is worth it
constexpr size_t kMostProblems = 20;
constexpr char32_t kByteOrderMark = 0xfeff;

bool all_space(std::string_view text) {
  for (const char* p = text.data(); p < text.data() + text.size();)
    if (!(class_of(decode_utf8(p, text.data() + text.size())) & kSpace)) return false;
  return true;
}

}  // namespace

Document::Document(Redactor& redactor, DocumentSettings settings)
    : redactor_(redactor), settings_(std::move(settings)), encoding_(settings_.encoding) {
  walker_ = make_walker(settings_.format, settings_.walker);
}

Document::~Document() = default;

Unit& Document::unit() {
  if (!open_) {
    entries_.push_back({Unit(next_), redactor_.finder()});
    open_ = true;
  }
  return entries_.back().unit;
}

void Document::end_unit() {
  if (!open_) return;
  Entry& entry = entries_.back();
  entry.unit.end();
  entry.finder->feed(entry.unit);
  next_ = entry.unit.source_end();
  open_ = false;
}

void Document::problem(const std::string& what) {
  if (problems_.size() < kMostProblems) problems_.push_back(what);
}

void Document::feed(std::string_view bytes) {
  bytes_ += bytes.size();
  raw_ += bytes;
  if (!reader_) {
    head_ += bytes;
    decide_encoding(false);
    return;
  }
  reader_->feed(bytes, chars_);
  walk(false);
}

// A line that came through a pipe decides it, so that it need not wait for those behind it.
void Document::pause() {
  if (!reader_ && head_.find('\n') != std::string::npos) decide_encoding(true);
}

void Document::decide_encoding(bool last) {
  if (!encoding_) {
    if (head_.size() < kHead && !last) return;
    encoding_ = detect_encoding(head_);
    if (looks_binary(head_)) problem("there are zeros in it; what is no text was not understood");
  }
  reader_.emplace(*encoding_);
  reader_->feed(head_, chars_);
  head_ = {};
  walk(false);
}

void Document::finish() {
  if (!reader_) decide_encoding(true);
  reader_->finish(chars_);
  walk(true);
  walker_->finish(*this);
  finished_ = true;
}

void Document::walk(bool last) {
  std::span<const SourceChar> chars = chars_;
  for (const SourceChar& c : chars) malformed_ += !c.sound;
  characters_ += chars.size();
  if (!begun_ && !chars.empty()) {
    begun_ = true;
    if (chars[0].code == kByteOrderMark && *encoding_ != Encoding::latin1) {
      unit().put(Part::fixed, chars[0]);
      chars = chars.subspan(1);
    }
  }
  walker_->feed(chars, *this);
  chars_.clear();
  if (open_ && !last) entries_.back().finder->feed(entries_.back().unit);
}

bool Document::step(bool wait) {
  if (!started_) {
    started_ = true;
    redactor_.replacer().next_document();
  }
  if (entries_.empty()) return false;
  Entry& entry = entries_.front();
  std::vector<Span> spans;
  if (!entry.finder->take(entry.unit, wait, spans)) return false;
  emit(entry, spans);
  if (entry.finder->done()) entries_.pop_front();
  return true;
}

FileFacts Document::facts() const {
  FileFacts out;
  out.format = format_name(settings_.format);
  out.encoding = encoding_name(encoding());
  out.bytes = bytes_;
  out.characters = characters_;
  out.malformed = malformed_;
  out.notes = problems_;
  return out;
}

void Document::emit(Entry& entry, const std::vector<Span>& spans) {
  for (const Span& span : spans) replace(span, entry);
  const uint64_t settled = entry.finder->settled();
  if (entry.finder->done()) return pass(entry.unit.source_end().byte);
  pass(entry.unit.source_byte_before(settled));
  entry.unit.drop(settled);
}

void Document::replace(const Span& span, Entry& entry) {
  for (const SourceRange& range : entry.unit.sources(span.begin, span.end)) {
    const std::string_view text = entry.unit.view(range.view_begin, range.view_end);
    if (all_space(text)) continue;
    pass(range.begin.byte);
    const std::string replacement = redactor_.replacer().text(span.kind, text);
    if (settings_.found) settings_.found({span.kind, span.score, range, text, replacement, line_});
    settings_.write(encoded_ascii(replacement, *encoding_));
    skip(range.end.byte);
  }
}

// What stands before the place in the source and was not written stays as it is.
void Document::pass(uint64_t upto) {
  const uint64_t from = raw_begin_ + raw_done_;
  if (upto <= from) return;
  const std::string_view bytes = std::string_view(raw_).substr(raw_done_, upto - from);
  settings_.write(bytes);
  if (settings_.passed) settings_.passed(bytes);
  skip(upto);
}

void Document::skip(uint64_t upto) {
  const uint64_t done = upto - raw_begin_;
  line_ += count_lines(std::string_view(raw_).substr(raw_done_, done - raw_done_), *encoding_);
  raw_done_ = done;
  if (raw_done_ < kKeptRaw && raw_done_ < raw_.size()) return;
  raw_.erase(0, raw_done_);
  raw_begin_ += raw_done_;
  raw_done_ = 0;
}

}  // namespace anemone::redact
