#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode.h"

namespace anemone {
namespace {

template <class F>
std::string map_chars(std::string_view text, F&& f) {  // f(character, out) writes what the character becomes
  std::string out;
  out.reserve(text.size());
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) f(decode_utf8(p, end), out);
  return out;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (left && p < end) {
    const char* next = p;
    if (!(class_of(decode_utf8(next, end)) & kSpace)) break;
    p = next;
  }
  while (right && p < end) {
    const char* last = end - 1;
    while (last > p && (static_cast<unsigned char>(*last) & 0xc0) == 0x80) --last;
    const char* at = last;
    if (!(class_of(decode_utf8(at, end)) & kSpace)) break;
    end = last;
  }
  return {p, static_cast<size_t>(end - p)};
}

std::string bert(const NormalizerStep& step, std::string text) {
  if (step.clean_text) {
    text = map_chars(text, [](char32_t c, std::string& out) {
      const bool blank = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xfffd || (!blank && is_control_8(c))) return;
      if (blank || (class_of(c) & kSpace))
        out += ' ';
      else
        append_utf8(out, c);
    });
  }
  if (step.chinese) {
    text = map_chars(text, [](char32_t c, std::string& out) {
      if (is_bert_ideograph(c)) out += ' ';
      append_utf8(out, c);
      if (is_bert_ideograph(c)) out += ' ';
    });
  }
  if (step.accents) {
    text = map_chars(normalize(text, NormalForm::nfd), [](char32_t c, std::string& out) {
      if (!is_nonspacing_8(c)) append_utf8(out, c);
    });
  }
  return step.lower ? to_lower(text) : text;
}

// SentencePiece's NMT rules: some controls vanish, the blanks and the invisible become spaces.
std::string nmt(std::string_view text) {
  return map_chars(text, [](char32_t c, std::string& out) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
      return;
    const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                       (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xfeff || c == 0xfffd;
    append_utf8(out, space ? U' ' : c);
  });
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (from.empty() || at == std::string::npos) return;
  std::string out;
  out.reserve(text.size() * 2);
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done);
    out += to;
    done = at + from.size();
  }
  out.append(text, done);
  text = std::move(out);
}

void replace_all(std::string& text, const Regex& regex, std::string_view to) {
  std::string out;
  size_t done = 0;
  regex.for_each_match(text, [&](size_t begin, size_t end) {
    out.append(text, done, begin - done);
    out += to;
    done = end;
  });
  out.append(text, done);
  text = std::move(out);
}

// A grapheme shorter than 6 bytes is looked up whole. If that fails, it is looked up character by character (the
// shortest key first, as the Hugging Face library does).
std::string precompiled(const Charsmap& map, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto transform = [&](std::string_view part) {
    const auto match = map.shortest(part);
    if (match) out += match->replacement;
    return match.has_value();
  };
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char* const start = p;
    char32_t before = decode_utf8(p, end);
    utf8proc_int32_t state = 0;
    while (p < end) {
      const char* next = p;
      const char32_t c = decode_utf8(next, end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                           static_cast<utf8proc_int32_t>(c), &state)) {
        break;
      }
      before = c;
      p = next;
    }
    if (p - start < 6 && transform({start, static_cast<size_t>(p - start)})) continue;
    for (const char* at = start; at < p;) {
      const char* const from = at;
      decode_utf8(at, p);
      if (!transform({from, static_cast<size_t>(at - from)})) out.append(from, at);
    }
  }
  return out;
}

}  // namespace

Normalizer::Normalizer(std::vector<NormalizerStep> steps, std::vector<std::string> user_defined)
    : user_defined_(std::move(user_defined)) {
  using Kind = NormalizerStep::Kind;
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (const std::string& text : user_defined_) texts.emplace_back(text, 0);
  user_trie_ = TokenTrie(std::move(texts));
  for (NormalizerStep& what : steps) {
    Step step;
    if (what.kind == Kind::precompiled || what.kind == Kind::sentencepiece)
      step.charsmap = Charsmap(what.content);
    if (what.kind == Kind::replace && what.is_regex) step.regex.emplace_back(what.pattern);
    step.what = std::move(what);
    static constexpr Kind droppers[] = {Kind::strip, Kind::strip_accents, Kind::replace, Kind::bert,
                                        Kind::nmt};
    may_drop_start_ |=
        std::find(std::begin(droppers), std::end(droppers), step.what.kind) != std::end(droppers);
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::run(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) apply(step, out);
  return out;
}

bool Normalizer::keeps_start(std::string_view text) const {
  if (!may_drop_start_) return true;
  std::string at_hand(text);
  for (const Step& step : steps_) {
    if (drops_start(step, at_hand)) return false;
    apply(step, at_hand);
  }
  return true;
}

bool Normalizer::drops_start(const Step& step, std::string_view text) const {
  using Kind = NormalizerStep::Kind;
  const NormalizerStep& what = step.what;
  if (text.empty()) return false;
  const auto length = static_cast<size_t>(utf8_length(text[0]));
  const std::string_view first = text.substr(0, length);
  switch (what.kind) {
    case Kind::strip: return strip(first, what.strip_left, false).empty();
    case Kind::strip_accents:
    case Kind::bert:
    case Kind::nmt: {
      std::string left(first);
      apply(step, left);
      return left.empty();
    }
    case Kind::replace: {  // of a longer match the last character counts
      size_t end = 0;
      if (!what.is_regex) {
        end = text.starts_with(what.pattern) ? what.pattern.size() : 0;
      } else {
        step.regex[0].for_each_match(
            text, [&](size_t from, size_t to) { end = from == 0 ? std::max(end, to) : end; });
      }
      return end > 0 && (what.content.empty() || end > length);
    }
    default: return false;
  }
}

void Normalizer::apply(const Step& step, std::string& text) const {
  using Kind = NormalizerStep::Kind;
  const NormalizerStep& what = step.what;
  switch (what.kind) {
    case Kind::nfc: text = normalize(text, NormalForm::nfc); break;
    case Kind::nfd: text = normalize(text, NormalForm::nfd); break;
    case Kind::nfkc: text = normalize(text, NormalForm::nfkc); break;
    case Kind::nfkd: text = normalize(text, NormalForm::nfkd); break;
    case Kind::lowercase: text = to_lower(text); break;
    case Kind::strip: text = std::string(strip(text, what.strip_left, what.strip_right)); break;
    case Kind::strip_accents:
      text = map_chars(text, [](char32_t c, std::string& out) {
        if (!is_mark_9(c)) append_utf8(out, c);
      });
      break;
    case Kind::replace:
      if (what.is_regex)
        replace_all(text, step.regex[0], what.content);
      else
        replace_all(text, what.pattern, what.content);
      break;
    case Kind::prepend:
      if (!text.empty()) text.insert(0, what.content);
      break;
    case Kind::bert: text = bert(what, std::move(text)); break;
    case Kind::precompiled:
      if (!step.charsmap.empty()) text = precompiled(step.charsmap, text);
      break;
    case Kind::nmt: text = nmt(text); break;
    case Kind::byte_level: text = bytes_to_printable(text); break;
    case Kind::sentencepiece: text = sentencepiece(step, text); break;
  }
}

std::string Normalizer::sentencepiece(const Step& step, std::string_view text) const {
  const NormalizerStep& what = step.what;
  const std::string_view space = what.escape ? "\u2581" : " ";
  std::string out;
  out.reserve(text.size() + text.size() / 2 + 3);
  bool prepended = false;
  bool in_word = false;
  if (what.add_prefix && !what.suffix && !what.before_word && !what.squeeze && !text.empty()) {
    out += space;
    prepended = true;
  }
  const auto put = [&](std::string_view part) {
    for (char c : part) {
      if (c == ' ') {
        in_word = false;
        if (!what.squeeze) out += space;
        continue;
      }
      if (!in_word) {
        in_word = true;
        const bool first = !prepended && what.add_prefix && !what.suffix;
        if (first || (what.squeeze && (prepended || !out.empty() || first))) out += space;
        prepended = true;
      }
      out += c;
    }
  };
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    size_t user = 0;
    user_trie_.for_each_prefix(rest, [&](size_t bytes, int32_t) { user = bytes; });
    if (user > 0) {
      put(rest.substr(0, user));
      at += user;
    } else if (const auto match = step.charsmap.longest(rest)) {
      put(match->replacement);
      at += match->size;
    } else {
      const auto length = std::min<size_t>(rest.size(), static_cast<size_t>(utf8_length(rest[0])));
      put(rest.substr(0, length));
      at += length;
    }
  }
  if (what.add_prefix && what.suffix && !out.empty()) out += space;
  return out;
}

}  // namespace anemone
