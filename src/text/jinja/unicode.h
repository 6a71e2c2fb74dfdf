// Python's view of a UTF-8 string: code points, whitespace, case.
//     size_t n = code_points(text);
//     std::string up = upper("straße");  // "STRASSE"
// Bytes that are not UTF-8 count as one code point each and are passed through unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anemone::jinja {

struct CodePoint {
  char32_t value;
  size_t bytes;
};

CodePoint decode_at(std::string_view text, size_t at);  // at < text.size()
void append_utf8(std::string& out, char32_t c);

size_t code_points(std::string_view text);
size_t byte_offset(std::string_view text, size_t code_point);  // text.size() where past the end

bool is_space(char32_t c);       // str.isspace, and \s of a regular expression
bool is_line_break(char32_t c);  // what str.splitlines splits at
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);  // category Nd
bool is_digit(char32_t c);    // str.isdigit: decimals and superscripts
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_word(char32_t c);       // \w
bool is_printable(char32_t c);  // what repr shows as itself

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swapcase(std::string_view text);
std::string casefold(std::string_view text);

std::string_view strip_left(std::string_view text);  // whitespace
std::string_view strip_right(std::string_view text);

}  // namespace anemone::jinja
