// Lexer: template source → tokens, with the whitespace rules that chat templates are written for. trim_blocks: the
// newline after a block goes. lstrip_blocks: blanks before a block at the start of a line go. `-` and `+` override
// both.
//     std::vector<Token> tokens = lex("{% if x -%} a {{ x }}{% endif %}");
//     tokens[0].type == TokenType::block_begin;
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anemone::jinja {

enum class TokenType : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  floating,
  op,
  end
};

struct Token {
  TokenType type;
  int line;
  std::string text;  // data, name, string (unescaped), op as written
  int64_t integer = 0;
  double floating = 0;

  bool is_op(std::string_view op_text) const { return type == TokenType::op && text == op_text; }
  bool is_name(std::string_view name) const { return type == TokenType::name && text == name; }
};

std::vector<Token> lex(std::string_view source);

// What to call a token in an error: "end of statement block", "'foo'".
std::string token_name(const Token& token);

}  // namespace anemone::jinja
