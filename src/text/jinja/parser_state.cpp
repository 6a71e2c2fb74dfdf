#include "text/jinja/parser_state.h"

#include <algorithm>

namespace anemone::jinja {

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) name_id(name);  // kLoopId …
}

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser.nesting_ > kMaxSyntaxNesting) {
    --parser.nesting_;
    throw parser.error(fmt::format("the template nests more than {} levels deep", kMaxSyntaxNesting))
        .hint("limit: syntax nesting");
  }
}

Error ExpressionParser::error(std::string message, int line) const {
  return Error(std::move(message)).at(fmt::format("template line {}", line));
}

NameId ExpressionParser::name_id(const std::string& name) {
  const auto [it, added] = ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(name);
  return it->second;
}

bool ExpressionParser::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op))
    throw error("syntax error").found(token_name(current())).expected(fmt::format("'{}'", op));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name))
    throw error("syntax error").found(token_name(current())).expected(fmt::format("'{}'", name));
}

void ExpressionParser::expect(TokenType type, std::string_view what) {
  if (current().type != type)
    throw error("syntax error").found(token_name(current())).expected(std::string(what));
  next();
}

std::string ExpressionParser::expect_any_name() {
  if (current().type != TokenType::name)
    throw error("syntax error").found(token_name(current())).expected("a name");
  const std::string& name = next().text;
  if (name[0] >= '0' && name[0] <= '9') throw error(fmt::format("'{}' is not a name", name));
  return name;
}

ExprPtr ExpressionParser::make(Expr::Kind kind, int line) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = line;
  return e;
}

// Computes the height once the children are in place.
ExprPtr ExpressionParser::finish(ExprPtr e) const {
  int below = 0;
  const auto see = [&](const ExprPtr& child) { below = std::max(below, child ? child->depth : 0); };
  for (const ExprPtr& child : e->children) see(child);
  for (const ExprPtr& child : e->args.positional) see(child);
  for (const auto& [name, child] : e->args.named) see(child);
  see(e->args.star);
  see(e->args.star_star);
  e->depth = below + 1;
  if (e->depth > kMaxExprDepth) {
    throw error(fmt::format("an expression is more than {} operations deep", kMaxExprDepth), e->line)
        .hint("limit: expression depth");
  }
  return e;
}

}  // namespace anemone::jinja
