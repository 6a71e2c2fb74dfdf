// What the two halves of the parser share: the token stream, names, limits. Expressions are parsed in parser_expr.cpp,
// statements in parser.cpp.
//     ExpressionParser p(lex(source));
//     ExprPtr e = p.parse_tuple({});
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace anemone::jinja {

// Brackets, blocks and prefix operators nest at most this deep in a template.
inline constexpr int kMaxSyntaxNesting = 100;
// Height of one expression's tree: chains such as a + b + c … lean to the left.
inline constexpr int kMaxExprDepth = 256;

struct TupleRules {
  bool names_only = false;      // an assignment target
  bool with_condition = true;   // `a if b else c` allowed
  bool with_namespace = false;  // `ns.a` allowed as a target
  bool parenthesised = false;   // () is an empty tuple
  std::string_view end_name{};  // a name that ends the tuple: `in`, `recursive`
};

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens);

 protected:
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_tuple(const TupleRules& rules);
  ExprPtr parse_target(bool with_namespace, std::string_view end_name = {});
  ExprPtr parse_filters(ExprPtr operand, bool starts_inline);

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenType type, std::string_view what);
  std::string expect_any_name();
  Error error(std::string message) const { return error(std::move(message), current().line); }
  Error error(std::string message, int line) const;

  NameId name_id(const std::string& name);

  class Nesting {  // one more level while it lives
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  std::vector<std::string> names_;
  bool soft_ = false;  // inside an if: an unknown filter or test fails when it runs, else at once
  std::vector<Error> unknown_;

 private:
  ExprPtr make(Expr::Kind kind, int line) const;
  ExprPtr finish(ExprPtr e) const;
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr e);
  ExprPtr parse_filter_expr(ExprPtr e);
  ExprPtr parse_subscript(ExprPtr e);
  ExprPtr parse_subscript_part(std::vector<ExprPtr>& slice);
  ExprPtr parse_call(ExprPtr e);
  ExprPtr parse_test(ExprPtr e);
  CallArgs parse_call_args();
  bool at_tuple_end(const TupleRules& rules) const;
  ExprPtr binary(Op op, ExprPtr left, ExprPtr right, int line) const;
  void note_unknown(const char* what, const std::string& name, bool known, int line);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace anemone::jinja
