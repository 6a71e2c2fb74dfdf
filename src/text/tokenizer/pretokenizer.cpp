#include "text/tokenizer/pretokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

bool is_space(char32_t c) { return (class_of(c) & kSpace) != 0; }

// Every character for which `is` holds is a match; what lies between is one part.
template <class Part, class F>
std::vector<Part> char_parts(std::string_view text, F&& is) {
  std::vector<Part> parts;
  const char* p = text.data();
  const char* const end = p + text.size();
  size_t done = 0;
  while (p < end) {
    const auto begin = static_cast<size_t>(p - text.data());
    if (!is(decode_utf8(p, end))) continue;
    if (done < begin) parts.push_back({done, begin, false});
    done = static_cast<size_t>(p - text.data());
    parts.push_back({begin, done, true});
  }
  if (done < text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps, bool raw_bytes) : raw_bytes_(raw_bytes) {
  using Kind = PreTokenizerStep::Kind;
  for (PreTokenizerStep& what : steps) {
    Step step{std::move(what), std::nullopt, std::nullopt};
    const PreTokenizerStep& w = step.what;
    if (w.kind == Kind::unicode_scripts) {
      throw errorf("pre-tokenizer 'UnicodeScripts' is not supported").hint("no script data is built in");
    }
    if (w.kind == Kind::fixed_length && w.length == 0)
      throw errorf("pre-tokenizer 'FixedLength' has length 0");
    if (w.kind == Kind::byte_level && w.use_regex) step.scanner = Scanner::recognise(kGpt2);
    if (w.kind == Kind::split) {
      if (w.is_regex && !w.invert && w.behavior == PreTokenizerStep::Behavior::isolated) {
        step.scanner = Scanner::recognise(w.pattern);
      }
      if (!step.scanner) step.regex.emplace(w.is_regex ? w.pattern : Regex::escape(w.pattern));
    }
    steps_.push_back(std::move(step));
  }
}

bool PreTokenizer::ends_in_bytes(const std::vector<PreTokenizerStep>& steps) {
  const auto is_bytes = [](const PreTokenizerStep& s) {
    return s.kind == PreTokenizerStep::Kind::byte_level;
  };
  return std::count_if(steps.begin(), steps.end(), is_bytes) == 1 && is_bytes(steps.back());
}

void PreTokenizer::cut(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  using Kind = PreTokenizerStep::Kind;
  using Behavior = PreTokenizerStep::Behavior;
  if (index == steps_.size()) return sink.call(sink.function, text);
  const PreTokenizerStep& what = steps_[index].what;
  const auto by_char = [&](auto&& is, Behavior behavior) {
    cut_parts(index, text, at_start, char_parts<Part>(text, is), behavior, sink);
  };
  switch (what.kind) {
    case Kind::byte_level: return byte_level(index, text, at_start, sink);
    case Kind::metaspace: return metaspace(index, text, at_start, sink);
    case Kind::bert_words: return bert_words(index, text, sink);
    case Kind::whitespace_split: return by_char(is_space, Behavior::removed);
    case Kind::punctuation: return by_char(is_punctuation_8, what.behavior);
    case Kind::digits:
      return by_char(is_number_17, what.individual_digits ? Behavior::isolated : Behavior::contiguous);
    case Kind::delimiter: return by_char([&](char32_t c) { return c == what.character; }, Behavior::removed);
    case Kind::split: return cut_split(index, text, at_start, sink);
    case Kind::whitespace:
    case Kind::bert: return cut_runs(index, text, at_start, sink);
    case Kind::fixed_length: return cut_lengths(index, text, at_start, sink);
    case Kind::unicode_scripts: return;  // refused when made
  }
}

void PreTokenizer::cut_split(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  const Step& step = steps_[index];
  const PreTokenizerStep& what = step.what;
  if (step.scanner) return cut_isolated(index, *step.scanner, text, at_start, sink);
  std::vector<Part> parts;
  size_t done = 0;
  step.regex->for_each_match(text, [&](size_t begin, size_t end) {
    if (done < begin) parts.push_back({done, begin, what.invert});
    parts.push_back({begin, end, !what.invert});
    done = end;
  });
  if (done < text.size()) parts.push_back({done, text.size(), what.invert});
  cut_parts(index, text, at_start, std::move(parts), what.behavior, sink);
}

// Runs of word characters and runs of other characters, without white space. For BERT: runs of anything, and each
// punctuation mark alone.
void PreTokenizer::cut_runs(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  const bool bert = steps_[index].what.kind == PreTokenizerStep::Kind::bert;
  const char* const end = text.data() + text.size();
  const char* start = nullptr;
  bool start_word = false;
  const auto flush = [&](const char* to) {
    if (start == nullptr) return;
    hand_on(index, {start, static_cast<size_t>(to - start)}, at_start && start == text.data(), sink);
    start = nullptr;
  };
  for (const char* p = text.data(); p < end;) {
    const char* const at = p;
    const char32_t c = decode_utf8(p, end);
    const bool word = bert ? !is_punctuation_8(c) : (class_of(c) & kWord) != 0;
    if (is_space(c) && (bert || !word)) {
      flush(at);
      continue;
    }
    if (start != nullptr && (word != start_word || (bert && !word))) flush(at);
    if (start == nullptr) start = at, start_word = word;
  }
  flush(end);
}

void PreTokenizer::cut_lengths(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  const size_t length = steps_[index].what.length;
  size_t begin = 0, chars = 0;
  for (size_t at = 0; at < text.size();) {
    at += static_cast<size_t>(utf8_length(text[at]));
    if (++chars % length != 0 && at < text.size()) continue;
    hand_on(index, text.substr(begin, at - begin), at_start && begin == 0, sink);
    begin = at;
  }
}

void PreTokenizer::cut_isolated(size_t index, const Scanner& scanner, std::string_view text, bool at_start,
                                const Sink& sink) const {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const bool last = index + 1 == steps_.size();
  const char* gap = begin;
  const auto emit = [&](const char* from, const char* to) {
    const std::string_view piece(from, static_cast<size_t>(to - from));
    if (last)
      sink.call(sink.function, piece);
    else
      cut(index + 1, piece, at_start && from == begin, sink);
  };
  for (const char* p = begin; p < end;) {
    const size_t n = scanner.match(p, end);
    if (n == 0) {
      p += utf8_length(*p);
      continue;
    }
    if (gap < p) emit(gap, p);
    emit(p, p + n);
    p += n;
    gap = p;
  }
  if (gap < end) emit(gap, end);
}

void PreTokenizer::cut_parts(size_t index, std::string_view text, bool at_start, std::vector<Part> parts,
                             PreTokenizerStep::Behavior behavior, const Sink& sink) const {
  using Behavior = PreTokenizerStep::Behavior;
  const auto emit = [&](const Part& part) {
    hand_on(index, text.substr(part.begin, part.end - part.begin), at_start && part.begin == 0, sink);
  };
  if (behavior == Behavior::isolated || behavior == Behavior::removed) {
    for (const Part& part : parts) {
      if (behavior == Behavior::isolated || !part.match) emit(part);
    }
    return;
  }
  std::vector<Part> joined;
  bool previous = false;
  if (behavior == Behavior::merged_with_next) std::reverse(parts.begin(), parts.end());
  for (const Part& part : parts) {
    const bool join = behavior == Behavior::contiguous ? part.match == previous : part.match && !previous;
    if (!join || joined.empty())
      joined.push_back(part);
    else if (behavior == Behavior::merged_with_next)
      joined.back().begin = part.begin;
    else
      joined.back().end = part.end;
    previous = part.match;
  }
  if (behavior == Behavior::merged_with_next) std::reverse(joined.begin(), joined.end());
  for (const Part& part : joined) emit(part);
}

void PreTokenizer::byte_level(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  const Step& step = steps_[index];
  std::string prefixed;
  if (step.what.add_prefix_space && !text.starts_with(' ')) {
    prefixed.reserve(text.size() + 1);
    prefixed += ' ';
    prefixed += text;
    text = prefixed;
  }
  if (raw_bytes_) {  // always the last step then
    if (step.scanner) return cut_isolated(index, *step.scanner, text, at_start, sink);
    return sink.call(sink.function, text);
  }
  const auto emit = [&](std::string_view piece) {
    hand_on(index, bytes_to_printable(piece), at_start && piece.data() == text.data(), sink);
  };
  if (!step.scanner) return emit(text);
  for (size_t at = 0; at < text.size();) {  // the expression matches everywhere
    const size_t n = step.scanner->match(text.data() + at, text.data() + text.size());
    emit(text.substr(at, n));
    at += n;
  }
}

void PreTokenizer::metaspace(size_t index, std::string_view text, bool at_start, const Sink& sink) const {
  using Prepend = PreTokenizerStep::Prepend;
  const PreTokenizerStep& what = steps_[index].what;
  std::string mark;
  append_utf8(mark, what.character);
  std::string out;
  out.reserve(text.size() * 2 + mark.size());
  const bool marked = text.starts_with(' ') || text.starts_with(mark);
  if (!marked && (what.prepend == Prepend::always || (what.prepend == Prepend::first && at_start)))
    out += mark;
  for (char c : text) {
    if (c == ' ')
      out += mark;
    else
      out += c;
  }
  if (!what.cut) return hand_on(index, out, at_start, sink);
  const std::string_view all = out;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(mark, begin + 1), all.size());
    hand_on(index, all.substr(begin, end - begin), at_start && begin == 0, sink);
    begin = end;
  }
}

// llama.cpp's BERT: takes the first part of a character's decomposition, drops controls and accents, lower-cases, and
// cuts at white space. Punctuation, ASCII symbols and ideographs stand alone.
void PreTokenizer::bert_words(size_t index, std::string_view text, const Sink& sink) const {
  const PreTokenizerStep& what = steps_[index].what;
  std::string word;
  const auto flush = [&] {
    hand_on(index, word, false, sink);
    word.clear();
  };
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    char32_t c = decode_utf8(p, end);
    if (what.accents) c = first_of_decomposition(c);
    const auto bits = class_of(c);
    if (bits & kSpace) {
      flush();
      continue;
    }
    if (c == 0 || c == 0xfffd || (bits & kControl) || (what.accents && (bits & kMark))) continue;
    const bool alone = (bits & kPunctuation) || (c < 0x7f && (bits & kSymbol)) || is_bert_ideograph(c);
    if (alone) flush();
    append_utf8(word, what.lower ? to_lower(c) : c);
    if (alone) flush();
  }
  flush();
}

}  // namespace anemone
