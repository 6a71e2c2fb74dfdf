#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

Error syntax_error(int line, std::string message) {
  return Error(std::move(message)).at(fmt::format("template line {}", line));
}

// One kind of line end, and none at the very end: as Jinja reads a file.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalize_newlines(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    emit(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view s, size_t at) const {
    return source_.substr(std::min(at, source_.size()), s.size()) == s;
  }
  bool looking_at(std::string_view s) const { return looking_at(s, at_); }

  void emit(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  void advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + n, '\n'));
    at_ += n;
  }

  size_t spaces_from(size_t at) const { return source_.size() - at - strip_left(source_.substr(at)).size(); }

  // Text up to the next tag, then what the tag opens.
  void root() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        data(source_.substr(at_));
        return advance(source_.size() - at_);
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const size_t opening = 2 + (sign == '-' || sign == '+' ? 1 : 0);
    data(stripped(source_.substr(at_, tag - at_), sign, kind == '{'));
    advance(tag - at_);
    line_starting_ = false;
    if (kind == '#') return comment(opening);
    if (kind == '%') {
      if (const std::optional<size_t> raw_tag = raw_begin(opening)) return raw(*raw_tag);
    }
    emit(kind == '%' ? TokenType::block_begin : TokenType::variable_begin, "");
    advance(opening);
    inside_tag(kind == '%');
  }

  void data(std::string_view text) {
    if (!text.empty()) emit(TokenType::data, std::string(text));
  }

  // What is left of the text before a tag.
  std::string_view stripped(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    return strip_left(text.substr(line_start)).empty() ? text.substr(0, line_start) : text;
  }

  // The end of a block or a comment at `at`: "+%}", "-%}" with the blanks after it, or "%}" with a newline after it.
  std::optional<size_t> tag_end(std::string_view closing, size_t at) const {
    const char sign = at < source_.size() ? source_[at] : ' ';
    if (sign == '+' && looking_at(closing, at + 1)) return 3;
    if (sign == '-' && looking_at(closing, at + 1)) return 3 + spaces_from(at + 3);
    if (!looking_at(closing, at)) return std::nullopt;
    return looking_at("\n", at + 2) ? 3 : 2;
  }

  void close(size_t n) {
    line_starting_ = source_[at_ + n - 1] == '\n';
    advance(n);
  }

  void comment(size_t opening) {
    for (size_t end = source_.find("#}", at_ + opening); end != std::string_view::npos;) {
      const char sign = end > at_ + opening ? source_[end - 1] : ' ';
      if (sign == '-' || sign == '+') --end;
      const size_t n = *tag_end("#}", end);
      advance(end - at_);
      return close(n);
    }
    throw syntax_error(line_, "the comment is not closed").expected("#}");
  }

  std::optional<size_t> raw_begin(size_t opening) const {
    size_t i = at_ + opening;
    i += spaces_from(i);
    if (!looking_at("raw", i)) return std::nullopt;
    i += 3;
    i += spaces_from(i);
    if (looking_at("-%}", i)) return i + 3 + spaces_from(i + 3) - at_;
    if (looking_at("%}", i)) return i + 2 - at_;
    return std::nullopt;
  }

  void raw(size_t opening) {
    const int line = line_;
    close(opening);
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      size_t i = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      i += spaces_from(i);
      if (!looking_at("endraw", i)) continue;
      i += 6;
      i += spaces_from(i);
      const std::optional<size_t> end = tag_end("%}", i);
      if (!end) continue;
      data(stripped(source_.substr(at_, tag - at_), sign, false));
      return close(i + *end - at_);
    }
    throw syntax_error(line, "the raw block is not closed").expected("{% endraw %}");
  }

  bool tag_closed(bool block) {
    if (!brackets_.empty()) return false;
    if (block) {
      const std::optional<size_t> n = tag_end("%}", at_);
      if (!n) return false;
      emit(TokenType::block_end, "");
      close(*n);
      return true;
    }
    const bool trim = looking_at("-}}");
    if (!trim && !looking_at("}}")) return false;
    emit(TokenType::variable_end, "");
    close(trim ? 3 + spaces_from(at_ + 3) : 2);
    return true;
  }

  void inside_tag(bool block) {
    const int line = line_;
    while (at_ < source_.size()) {
      if (tag_closed(block)) return;
      if (const size_t n = spaces_from(at_)) {
        advance(n);
      } else if (is_ascii_digit(source_[at_])) {
        number();
      } else if (source_[at_] == '"' || source_[at_] == '\'') {
        string();
      } else if (!name()) {
        op();
      }
    }
    throw syntax_error(line, fmt::format("the tag is not closed")).expected(block ? "%}" : "}}");
  }

  bool name() {
    size_t i = at_;
    while (i < source_.size()) {
      if (is_name_byte(source_[i])) {
        ++i;
        continue;
      }
      if ((source_[i] & 0x80) == 0) break;
      const CodePoint c = decode_at(source_, i);
      if (!is_word(c.value)) break;
      i += c.bytes;
    }
    if (i == at_) return false;
    emit(TokenType::name, std::string(source_.substr(at_, i - at_)));
    at_ = i;
    return true;
  }

  // Digits with single underscores between them.
  size_t digits_from(size_t i) const {
    while (i < source_.size() &&
           (is_ascii_digit(source_[i]) || (source_[i] == '_' && i > at_ && is_ascii_digit(source_[i - 1]) &&
                                           i + 1 < source_.size() && is_ascii_digit(source_[i + 1])))) {
      ++i;
    }
    return i;
  }

  bool digit_at(size_t i) const { return i < source_.size() && is_ascii_digit(source_[i]); }

  void number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = digits_from(at_);
    bool is_float = false;
    if (!after_dot) {
      size_t i = end;
      if (looking_at(".", i) && digit_at(i + 1)) {
        i = digits_from(i + 1);
        is_float = true;
        end = i;
      }
      if (i < source_.size() && (source_[i] == 'e' || source_[i] == 'E')) {
        ++i;
        if (looking_at("+", i) || looking_at("-", i)) ++i;
        if (digit_at(i)) {
          is_float = true;
          end = digits_from(i);
        }
      }
    }
    if (is_float) return emit_float(end);
    emit_integer(end);
  }

  static std::string without_underscores(std::string_view text) {
    std::string out(text);
    std::erase(out, '_');
    return out;
  }

  void emit_float(size_t end) {
    const std::string text = without_underscores(source_.substr(at_, end - at_));
    emit(TokenType::floating, text);
    tokens_.back().floating = parse_double(text).value_or(0);
    at_ = end;
  }

  void emit_integer(size_t end) {
    int base = 10;
    size_t begin = at_;
    if (source_[at_] == '0') {
      const char kind = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : ' ';
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (base != 10) {
        begin = at_ + 2;
        end = begin;
        const auto fits = [&](char c) {
          const char low = static_cast<char>(c | 0x20);
          const int digit = is_ascii_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
          return digit < base;
        };
        while (end < source_.size() && (fits(source_[end]) || source_[end] == '_')) ++end;
      } else {
        end = begin;  // zeros only; what follows them is another token, and an error
        while (end < source_.size() && (source_[end] == '0' || source_[end] == '_')) ++end;
      }
    }
    const std::string text = without_underscores(source_.substr(begin, end - begin));
    int64_t value = 0;
    const auto [last, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (ec != std::errc() || last != text.data() + text.size()) {
      throw syntax_error(line_,
                         fmt::format("the integer '{}' cannot be read", source_.substr(at_, end - at_)))
          .expected("an integer of 64 bits");
    }
    emit(TokenType::integer, std::string(source_.substr(at_, end - at_)));
    tokens_.back().integer = value;
    at_ = end;
  }

  void string() {
    const char quote = source_[at_];
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) i += source_[i] == '\\' ? 2 : 1;
    if (i >= source_.size())
      throw syntax_error(line_, "the string is not closed").expected(std::string(1, quote));
    emit(TokenType::string, unescaped(source_.substr(at_ + 1, i - at_ - 1)));
    advance(i + 1 - at_);
  }

  char32_t hex_escape(std::string_view text, size_t at, size_t digits) const {
    uint32_t value = 0;
    const char* begin = text.data() + at;
    if (at + digits > text.size()) throw syntax_error(line_, "a \\x, \\u or \\U escape is cut short");
    const auto [last, ec] = std::from_chars(begin, begin + digits, value, 16);
    if (ec != std::errc() || last != begin + digits || value > 0x10ffff) {
      throw syntax_error(line_, fmt::format("'\\{}' is not an escape", text.substr(at - 1, digits + 1)));
    }
    return value;
  }

  std::string unescaped(std::string_view text) const {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      if (const size_t k = kLetters.find(c); k != std::string_view::npos) {
        out += kMeanings[k];
      } else if (c == '\n') {
        // a line continuation
      } else if (is_octal(c)) {
        uint32_t value = 0;
        const size_t last = std::min(i + 3, text.size());
        for (; i < last && is_octal(text[i]); ++i) value = value * 8 + static_cast<uint32_t>(text[i] - '0');
        --i;
        append_utf8(out, value);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        char32_t value = hex_escape(text, i + 1, digits);
        i += digits;
        if (value >= 0xd800 && value < 0xdc00 && text.substr(i + 1, 2) == "\\u") {  // a surrogate pair
          const char32_t low = hex_escape(text, i + 3, 4);
          if (low >= 0xdc00 && low < 0xe000) {
            value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
            i += 6;
          }
        }
        if (value >= 0xd800 && value < 0xe000)
          throw syntax_error(line_, "a string holds half of a surrogate pair");
        append_utf8(out, value);
      } else if (c == 'N') {
        throw syntax_error(line_, "a string uses \\N{...}: characters by name are not supported");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void op() {
    static constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    for (std::string_view s : kLong) {
      if (looking_at(s)) return emit_op(s);
    }
    if (kShort.find(source_[at_]) == std::string_view::npos) {
      const size_t n = decode_at(source_, at_).bytes;
      throw syntax_error(line_, fmt::format("unexpected character '{}'", source_.substr(at_, n)));
    }
    balance(source_[at_]);
    emit_op(source_.substr(at_, 1));
  }

  void emit_op(std::string_view s) {
    emit(TokenType::op, std::string(s));
    at_ += s.size();
  }

  void balance(char c) {
    if (c == '{') brackets_ += '}';
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c != '}' && c != ')' && c != ']') return;
    if (brackets_.empty()) throw syntax_error(line_, fmt::format("unexpected '{}'", c));
    if (brackets_.back() != c) {
      throw syntax_error(line_, fmt::format("unexpected '{}'", c))
          .expected(fmt::format("'{}'", brackets_.back()));
    }
    brackets_.pop_back();
  }

  std::string owned_;
  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // the closing brackets still to come
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) { return Lexer(source).run(); }

std::string token_name(const Token& token) {
  switch (token.type) {
    case TokenType::data: return "text";
    case TokenType::block_begin: return "the start of a statement";
    case TokenType::block_end: return "the end of the statement";
    case TokenType::variable_begin: return "the start of an expression";
    case TokenType::variable_end: return "the end of the expression";
    case TokenType::end: return "the end of the template";
    case TokenType::string: return "a string";
    default: return fmt::format("'{}'", token.text);
  }
}

}  // namespace anemone::jinja
