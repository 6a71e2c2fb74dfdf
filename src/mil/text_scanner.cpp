#include "mil/text_scanner.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace anemone {
namespace {

constexpr int kMostNesting = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@' ||
         c == '.' || c == '/';
}

}  // namespace

std::string MilScanner::place() const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < std::min(pos_, text_.size()); ++i) {
    ++column;
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  return fmt::format("{}:{}:{}", name_, line, column);
}

Error MilScanner::at_here(Error e) const {
  e.at(place());
  return e;
}

char MilScanner::peek() {
  for (;;) {
    while (pos_ < text_.size() && std::strchr(" \t\r\n", text_[pos_]) && text_[pos_]) ++pos_;
    if (text_.substr(pos_, 2) != "//") break;
    while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
  }
  return pos_ < text_.size() ? text_[pos_] : '\0';
}

bool MilScanner::accept(char c) {
  if (peek() != c || pos_ >= text_.size()) return false;
  ++pos_;
  return true;
}

void MilScanner::expect(char c) {
  const char found = peek();
  if (!accept(c))
    throw at_here(errorf("'{}' is missing", c)
                      .found(found ? fmt::format("'{}'", found) : std::string("the end of the text")));
}

std::string MilScanner::word() {
  peek();
  const size_t begin = pos_;
  while (pos_ < text_.size() && is_word(text_[pos_])) ++pos_;
  if (begin == pos_) throw at_here(errorf("a name is missing"));
  return std::string(text_.substr(begin, pos_ - begin));
}

void MilScanner::expect_word(std::string_view expected) {
  const std::string found = word();
  if (found != expected) throw at_here(errorf("'{}' is missing", expected).found("'" + found + "'"));
}

bool MilScanner::at_word(std::string_view expected) {
  peek();
  return text_.substr(pos_, expected.size()) == expected;
}

std::string MilScanner::string() {
  expect('"');
  std::string out;
  while (pos_ < text_.size() && text_[pos_] != '"') {
    char c = text_[pos_++];
    if (c == '\\' && pos_ < text_.size()) {
      c = text_[pos_++];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    out += c;
  }
  if (pos_ >= text_.size()) throw at_here(errorf("a string is not closed"));
  ++pos_;
  return out;
}

std::string MilScanner::number_token() {
  peek();
  const size_t begin = pos_;
  while (pos_ < text_.size() && (is_word(text_[pos_]) || text_[pos_] == '-' || text_[pos_] == '+')) ++pos_;
  if (begin == pos_) throw at_here(errorf("a number is missing"));
  return std::string(text_.substr(begin, pos_ - begin));
}

double MilScanner::floating() {
  const std::string token = number_token();
  char* end = nullptr;
  const double value = std::strtod(token.c_str(), &end);
  if (end != token.c_str() + token.size()) throw at_here(errorf("not a number").found(token));
  return value;
}

uint64_t MilScanner::integer(DType dtype) {
  const std::string token = number_token();
  const bool negative = token[0] == '-';
  const int base = token.compare(negative ? 1 : 0, 2, "0x") == 0 ? 16 : 10;
  char* end = nullptr;
  errno = 0;
  const uint64_t value = negative ? static_cast<uint64_t>(std::strtoll(token.c_str(), &end, base))
                                  : std::strtoull(token.c_str(), &end, base);
  if (errno != 0 || end != token.c_str() + token.size())
    throw at_here(errorf("not a whole number of 64 bits").found(token));
  const bool with_sign = dtype_is_signed(dtype);
  const uint64_t highest = ~uint64_t{0} >> (64 - dtype_bits(dtype) + (with_sign ? 1 : 0));
  const bool fits = negative && value != 0 ? with_sign && ~value <= highest : value <= highest;
  if (!fits)
    throw at_here(errorf("the number is outside its type")
                      .found(token)
                      .expected(fmt::format("{}: {} to {}", dtype_name(dtype),
                                            with_sign ? -static_cast<int64_t>(highest) - 1 : 0, highest)));
  return value;
}

bool MilScanner::boolean() {
  const std::string w = word();
  if (w != "true" && w != "false" && w != "0" && w != "1") throw at_here(errorf("not a bool").found(w));
  return w == "true" || w == "1";
}

MilScanner::Nest::Nest(MilScanner& scanner) : scanner_(scanner) {
  if (++scanner.depth_ > kMostNesting) throw scanner.at_here(errorf("nested deeper than {}", kMostNesting));
}

}  // namespace anemone
