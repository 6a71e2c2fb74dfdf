#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_state.h"

namespace anemone::jinja {
namespace {

std::optional<Op> comparison(const Token& token) {
  static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {
      {{"==", Op::eq}, {"!=", Op::ne}, {"<", Op::lt}, {"<=", Op::le}, {">", Op::gt}, {">=", Op::ge}}};
  for (const auto& [text, op] : kOps) {
    if (token.is_op(text)) return op;
  }
  return std::nullopt;
}

std::optional<Op> product(const Token& token) {
  static constexpr std::array<std::pair<std::string_view, Op>, 4> kOps = {
      {{"*", Op::mul}, {"/", Op::div}, {"//", Op::floordiv}, {"%", Op::mod}}};
  for (const auto& [text, op] : kOps) {
    if (token.is_op(text)) return op;
  }
  return std::nullopt;
}

}  // namespace

ExprPtr ExpressionParser::binary(Op op, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr e = make(Expr::Kind::binary, line);
  e->ops = {op};
  e->children.push_back(std::move(left));
  e->children.push_back(std::move(right));
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr ExpressionParser::parse_condition() {
  const int line = current().line;
  const size_t unknown_before = unknown_.size();
  ExprPtr result = parse_or();
  while (skip_name("if")) {
    ExprPtr e = make(Expr::Kind::conditional, line);
    e->children.push_back(parse_or());
    e->children.push_back(std::move(result));
    e->children.push_back(skip_name("else") ? parse_expression() : nullptr);
    result = finish(std::move(e));
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(unknown_before), unknown_.end());
  }
  return result;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  if (!current().is_name("or")) return left;
  ExprPtr e = make(Expr::Kind::logical_or, left->line);
  e->children.push_back(std::move(left));
  while (skip_name("or")) e->children.push_back(parse_and());
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  if (!current().is_name("and")) return left;
  ExprPtr e = make(Expr::Kind::logical_and, left->line);
  e->children.push_back(std::move(left));
  while (skip_name("and")) e->children.push_back(parse_not());
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  ExprPtr e = make(Expr::Kind::logical_not, next().line);
  e->children.push_back(parse_not());
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr left = parse_sum();
  ExprPtr e = make(Expr::Kind::compare, left->line);
  while (true) {
    if (const std::optional<Op> op = comparison(current())) {
      next();
      e->ops.push_back(*op);
    } else if (skip_name("in")) {
      e->ops.push_back(Op::in);
    } else if (current().is_name("not") && look().is_name("in")) {
      next();
      next();
      e->ops.push_back(Op::not_in);
    } else {
      break;
    }
    if (left) e->children.push_back(std::move(left));
    e->children.push_back(parse_sum());
  }
  return e->ops.empty() ? std::move(left) : finish(std::move(e));
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_op("+") || current().is_op("-")) {
    const int line = current().line;
    const Op op = next().text == "+" ? Op::add : Op::sub;
    left = binary(op, std::move(left), parse_concat(), line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr left = parse_product();
  if (!current().is_op("~")) return left;
  ExprPtr e = make(Expr::Kind::concat, left->line);
  e->children.push_back(std::move(left));
  while (skip_op("~")) e->children.push_back(parse_product());
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (const std::optional<Op> op = product(current())) {
    const int line = next().line;
    left = binary(*op, std::move(left), parse_power(), line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary();
  while (current().is_op("**")) {
    const int line = next().line;
    left = binary(Op::pow, std::move(left), parse_unary(), line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  ExprPtr e;
  if (current().is_op("-") || current().is_op("+")) {
    const Nesting nesting(*this);
    e = make(current().is_op("-") ? Expr::Kind::negate : Expr::Kind::plus, current().line);
    next();
    e->children.push_back(parse_unary(false));
    e = finish(std::move(e));
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filter ? parse_filter_expr(std::move(e)) : std::move(e);
}

ExprPtr ExpressionParser::parse_name(bool with_namespace) {
  const int line = current().line;
  const std::string name = expect_any_name();
  ExprPtr e = make(Expr::Kind::constant, line);
  if (name == "true" || name == "True") {
    e->value = Value(true);
  } else if (name == "false" || name == "False") {
    e->value = Value(false);
  } else if (name != "none" && name != "None") {
    e->kind = Expr::Kind::name;
    e->id = name_id(name);
    e->text = name;
    if (with_namespace && skip_op(".")) {
      e->kind = Expr::Kind::namespace_attribute;
      e->text = expect_any_name();
    }
  }
  return e;
}

ExprPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = current();
  if (token.type == TokenType::name) return parse_name(with_namespace);
  if (token.is_op("[")) return parse_list();
  if (token.is_op("{")) return parse_dict();
  if (token.is_op("(")) {
    next();
    ExprPtr e = parse_tuple({.parenthesised = true});
    expect_op(")");
    return e;
  }
  ExprPtr e = make(Expr::Kind::constant, token.line);
  if (token.type == TokenType::string) {
    std::string text;
    while (current().type == TokenType::string) text += next().text;
    e->value = Value(std::move(text));
  } else if (token.type == TokenType::integer) {
    e->value = Value(next().integer);
  } else if (token.type == TokenType::floating) {
    e->value = Value(next().floating);
  } else {
    throw error(fmt::format("unexpected {}", token_name(token)));
  }
  return e;
}

bool ExpressionParser::at_tuple_end(const TupleRules& rules) const {
  const Token& token = current();
  if (token.type == TokenType::variable_end || token.type == TokenType::block_end || token.is_op(")"))
    return true;
  return !rules.end_name.empty() && token.is_name(rules.end_name);
}

ExprPtr ExpressionParser::parse_tuple(const TupleRules& rules) {
  const Nesting nesting(*this);
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_tuple_end(rules)) break;
    items.push_back(rules.names_only ? parse_primary(rules.with_namespace)
                                     : parse_expression(rules.with_condition));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.parenthesised)
      throw error("syntax error").found(token_name(current())).expected("an expression");
  }
  ExprPtr e = make(Expr::Kind::tuple, line);
  e->children = std::move(items);
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
  ExprPtr e = parse_tuple({.names_only = true, .with_namespace = with_namespace, .end_name = end_name});
  const auto assignable = [](const Expr& target, const auto& self) -> bool {
    if (target.kind == Expr::Kind::name || target.kind == Expr::Kind::namespace_attribute) return true;
    return target.kind == Expr::Kind::tuple &&
           std::all_of(target.children.begin(), target.children.end(),
                       [&](const ExprPtr& child) { return self(*child, self); });
  };
  if (!assignable(*e, assignable)) throw error("this cannot be assigned to", e->line).expected("a name");
  return e;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr e = make(Expr::Kind::list, current().line);
  expect_op("[");
  while (!current().is_op("]")) {
    if (!e->children.empty()) expect_op(",");
    if (current().is_op("]")) break;
    e->children.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr e = make(Expr::Kind::dict, current().line);
  expect_op("{");
  while (!current().is_op("}")) {
    if (!e->children.empty()) expect_op(",");
    if (current().is_op("}")) break;
    e->children.push_back(parse_expression());
    expect_op(":");
    e->children.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(e));
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr e) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) {
      e = parse_subscript(std::move(e));
    } else if (current().is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr ExpressionParser::parse_filter_expr(ExprPtr e) {
  while (true) {
    if (current().is_op("|")) {
      e = parse_filters(std::move(e), false);
    } else if (current().is_name("is")) {
      e = parse_test(std::move(e));
    } else if (current().is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr e) {
  const int line = current().line;
  if (skip_op(".")) {
    const bool by_name = current().type == TokenType::name;
    ExprPtr result = make(by_name ? Expr::Kind::attribute : Expr::Kind::item, line);
    result->children.push_back(std::move(e));
    if (by_name) {
      result->text = next().text;
      result->value = Value(result->text);
    } else if (current().type == TokenType::integer) {
      ExprPtr index = make(Expr::Kind::constant, line);
      index->value = Value(next().integer);
      result->children.push_back(std::move(index));
    } else {
      throw error("syntax error").found(token_name(current())).expected("a name or a number");
    }
    return finish(std::move(result));
  }
  expect_op("[");
  std::vector<ExprPtr> parts, slice;
  while (!current().is_op("]")) {
    if (!parts.empty() || !slice.empty()) expect_op(",");
    if (ExprPtr part = parse_subscript_part(slice)) parts.push_back(std::move(part));
  }
  expect_op("]");
  if (!slice.empty() && (!parts.empty() || slice.size() != 3))
    throw error("a slice beside other subscripts", line);
  ExprPtr result = make(slice.empty() ? Expr::Kind::item : Expr::Kind::slice, line);
  result->children.push_back(std::move(e));
  if (!slice.empty()) {
    for (ExprPtr& part : slice) result->children.push_back(std::move(part));
  } else if (parts.size() == 1) {
    result->children.push_back(std::move(parts[0]));
  } else {
    ExprPtr tuple = make(Expr::Kind::tuple, line);
    tuple->children = std::move(parts);
    result->children.push_back(finish(std::move(tuple)));
  }
  return finish(std::move(result));
}

// Either one index, or the three parts of a slice appended to `slice`.
ExprPtr ExpressionParser::parse_subscript_part(std::vector<ExprPtr>& slice) {
  ExprPtr first;
  if (!current().is_op(":")) {
    first = parse_expression();
    if (!current().is_op(":")) return first;
  }
  expect_op(":");
  slice.push_back(std::move(first));
  const auto part = [&]() -> ExprPtr {
    return current().is_op(":") || current().is_op("]") || current().is_op(",") ? nullptr
                                                                                : parse_expression();
  };
  slice.push_back(part());
  slice.push_back(skip_op(":") ? part() : nullptr);
  return nullptr;
}

CallArgs ExpressionParser::parse_call_args() {
  const int line = current().line;
  const auto ensure = [&](bool ok) {
    if (!ok) throw error("arguments in an impossible order", line).expected("f(a, *b, c=1, **d)");
  };
  CallArgs args;
  expect_op("(");
  for (bool first = true; !current().is_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(!args.star && !args.star_star);
      args.star = parse_expression();
    } else if (skip_op("**")) {
      ensure(!args.star_star);
      args.star_star = parse_expression();
    } else if (current().type == TokenType::name && look().is_op("=")) {
      ensure(!args.star_star);
      std::string name = next().text;
      next();
      for (const auto& [other, value] : args.named) ensure(other != name);
      args.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!args.star && !args.star_star && args.named.empty());
      args.positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return args;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr e = make(Expr::Kind::call, current().line);
  e->children.push_back(std::move(callee));
  e->args = parse_call_args();
  return finish(std::move(e));
}

void ExpressionParser::note_unknown(const char* what, const std::string& name, bool known, int line) {
  if (!known && !soft_) unknown_.push_back(error(fmt::format("there is no {} named '{}'", what, name), line));
}

ExprPtr ExpressionParser::parse_filters(ExprPtr operand, bool starts_inline) {
  while (starts_inline || current().is_op("|")) {
    if (!starts_inline) next();
    starts_inline = false;
    ExprPtr e = make(Expr::Kind::filter, current().line);
    e->text = expect_any_name();
    while (skip_op(".")) e->text += "." + expect_any_name();
    e->children.push_back(std::move(operand));
    if (current().is_op("(")) e->args = parse_call_args();
    note_unknown("filter", e->text, find_filter(e->text) != nullptr, e->line);
    operand = finish(std::move(e));
  }
  return operand;
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const int line = next().line;
  const bool negated = skip_name("not");
  ExprPtr e = make(Expr::Kind::test, line);
  e->text = expect_any_name();
  while (skip_op(".")) e->text += "." + expect_any_name();
  e->children.push_back(std::move(operand));
  const Token& token = current();
  const bool starts_argument = token.type == TokenType::name || token.type == TokenType::string ||
                               token.type == TokenType::integer || token.type == TokenType::floating ||
                               token.is_op("[") || token.is_op("{");
  if (token.is_op("(")) {
    e->args = parse_call_args();
  } else if (starts_argument && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) throw error("tests cannot be chained with 'is'");
    e->args.positional.push_back(parse_postfix(parse_primary()));
  }
  note_unknown("test", e->text, find_test(e->text) != nullptr, line);
  e = finish(std::move(e));
  if (!negated) return e;
  ExprPtr negation = make(Expr::Kind::logical_not, line);
  negation->children.push_back(std::move(e));
  return finish(std::move(negation));
}

}  // namespace anemone::jinja
