#include "text/tokenizer/detokenizer.h"

#include <algorithm>
#include <charconv>

#include "text/unicode.h"

namespace anemone {
namespace {

using Kind = DetokenizerStep::Kind;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Undoes the spaces that splitting at punctuation leaves; the rules and their order are Hugging Face's.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

// The byte that "<0x41>" names.
std::optional<char> named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

std::vector<std::string> join_bytes(std::vector<std::string> tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (is_valid_utf8(run)) {
      out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), "\xef\xbf\xbd");
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = named_byte(token)) {
      run += *byte;
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  return out;
}

std::string join(const std::vector<std::string>& tokens, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += between;
    out += tokens[i];
  }
  return out;
}

std::string strip(const DetokenizerStep& step, std::string_view token) {
  std::string mark;
  append_utf8(mark, step.character);
  for (size_t i = 0; i < step.start && token.starts_with(mark); ++i) token.remove_prefix(mark.size());
  for (size_t i = 0; i < step.stop && token.ends_with(mark); ++i) token.remove_suffix(mark.size());
  return std::string(token);
}

void metaspace(const DetokenizerStep& step, bool first, std::string& token) {
  std::string mark;
  append_utf8(mark, step.character);
  replace_all(token, mark, first && step.strip_first ? "" : " ");
}

void word_piece(const DetokenizerStep& step, bool first, std::string& token) {
  if (!first) {
    if (token.starts_with(step.pattern))
      token.erase(0, step.pattern.size());
    else
      token.insert(token.begin(), ' ');
  }
  if (step.cleanup) clean_up(token);
}

}  // namespace

Detokenizer::Detokenizer(std::vector<DetokenizerStep> steps, bool join_with_spaces)
    : join_with_spaces_(join_with_spaces) {
  for (DetokenizerStep& what : steps) {
    Step step{std::move(what), std::nullopt};
    if (step.what.kind == Kind::replace && step.what.is_regex) step.regex.emplace(step.what.pattern);
    steps_.push_back(std::move(step));
  }
  piecewise_ = compile_piecewise();
}

// A stream can go token by token when no step looks at two tokens. What strips the start of the joined text is kept
// aside.
bool Detokenizer::compile_piecewise() {
  if (join_with_spaces_) return false;
  bool fused = false;
  for (const Step& step : steps_) {
    const DetokenizerStep& what = step.what;
    if (what.kind == Kind::fuse) {
      fused = true;
    } else if (what.kind == Kind::byte_level) {
      if (steps_.size() != 1) return false;
    } else if (what.kind == Kind::strip) {
      if (!fused || what.stop != 0 || strip_start_ != 0) return false;
      strip_start_ = what.start;
      strip_character_ = what.character;
    } else if (fused || what.is_regex || what.kind == Kind::bpe || what.kind == Kind::ctc) {
      return false;
    }
  }
  return true;
}

void Detokenizer::append(std::string_view token, bool first, std::string& bytes) const {
  if (steps_.size() == 1 && steps_[0].what.kind == Kind::byte_level) {
    if (!printable_to_bytes(token, bytes)) bytes += token;
    return;
  }
  std::string text(token);
  for (const Step& step : steps_) {
    const DetokenizerStep& what = step.what;
    switch (what.kind) {
      case Kind::replace: replace_all(text, what.pattern, what.content); break;
      case Kind::byte_fallback:
        if (const auto byte = named_byte(text)) text.assign(1, *byte);
        break;
      case Kind::metaspace: metaspace(what, first, text); break;
      case Kind::word_piece: word_piece(what, first, text); break;
      default: break;
    }
  }
  bytes += text;
}

std::string Detokenizer::run(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) apply(step, tokens);
  return join(tokens, join_with_spaces_ ? " " : "");
}

void Detokenizer::apply(const Step& step, std::vector<std::string>& tokens) const {
  const DetokenizerStep& what = step.what;
  switch (what.kind) {
    case Kind::byte_level: {
      std::string bytes;
      for (const std::string& token : tokens) {
        if (!printable_to_bytes(token, bytes)) bytes += token;
      }
      tokens = {is_valid_utf8(bytes) ? std::move(bytes) : to_valid_utf8(bytes)};
      break;
    }
    case Kind::replace:
      for (std::string& token : tokens) {
        if (!step.regex) {
          replace_all(token, what.pattern, what.content);
          continue;
        }
        std::string out;
        size_t done = 0;
        step.regex->for_each_match(token, [&](size_t begin, size_t end) {
          out.append(token, done, begin - done).append(what.content);
          done = end;
        });
        token = out.append(token, done);
      }
      break;
    case Kind::word_piece:
      for (size_t i = 0; i < tokens.size(); ++i) word_piece(what, i == 0, tokens[i]);
      break;
    case Kind::byte_fallback: tokens = join_bytes(std::move(tokens)); break;
    case Kind::fuse: tokens = {join(tokens, "")}; break;
    case Kind::strip:
      for (std::string& token : tokens) token = strip(what, token);
      break;
    case Kind::metaspace:
      for (size_t i = 0; i < tokens.size(); ++i) metaspace(what, i == 0, tokens[i]);
      break;
    case Kind::bpe:
      for (size_t i = 0; i < tokens.size(); ++i) {
        replace_all(tokens[i], what.pattern, i + 1 == tokens.size() ? "" : " ");
      }
      break;
    case Kind::ctc:
      tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
      for (std::string& token : tokens) {
        replace_all(token, what.pattern, "");
        if (!what.cleanup) continue;
        clean_up(token);
        replace_all(token, what.content, " ");
      }
      std::erase_if(tokens, [](const std::string& t) { return t.empty(); });
      break;
  }
}

}  // namespace anemone
