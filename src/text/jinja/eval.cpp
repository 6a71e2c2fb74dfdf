// Expressions.
#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace anemone::jinja {

Value Interpreter::eval(const Expr& e, Scope& scope) {
  const Runtime::Deeper deeper(rt_);
  rt_.step();
  try {
    return eval_kind(e, scope);
  } catch (Error& error) {
    if (error.where().empty()) error.at(fmt::format("template line {}", e.line));
    throw;
  }
}

Value Interpreter::eval_kind(const Expr& e, Scope& scope) {
  using Kind = Expr::Kind;
  switch (e.kind) {
    case Kind::constant: return e.value;
    case Kind::name: return eval_name(e, scope);
    case Kind::list: return rt_.list(eval_all(e.children, scope));
    case Kind::tuple: return rt_.tuple(eval_all(e.children, scope));
    case Kind::dict: return eval_dict(e, scope);
    case Kind::attribute: return rt_.attribute(eval(*e.children[0], scope), e.text);
    case Kind::item: {
      const Value v = eval(*e.children[0], scope);
      return rt_.item(v, eval(*e.children[1], scope));
    }
    case Kind::slice: return eval_slice(e, scope);
    case Kind::call: return eval_call(e, scope, nullptr);
    case Kind::filter: return eval_filter(e, scope, nullptr);
    case Kind::test: return eval_test(e, scope);
    case Kind::negate: return rt_.negate(eval(*e.children[0], scope), true);
    case Kind::plus: return rt_.negate(eval(*e.children[0], scope), false);
    case Kind::logical_not: return Value(!rt_.truth(eval(*e.children[0], scope)));
    case Kind::logical_and:
    case Kind::logical_or: return eval_logical(e, scope);
    case Kind::binary: {
      const Value a = eval(*e.children[0], scope);
      return rt_.binary(e.ops[0], a, eval(*e.children[1], scope));
    }
    case Kind::concat: return eval_concat(e, scope);
    case Kind::compare: return eval_compare(e, scope);
    case Kind::conditional: return eval_conditional(e, scope);
    case Kind::namespace_attribute: break;
  }
  throw errorf("a target was used as a value");
}

Value Interpreter::eval_name(const Expr& e, Scope& scope) {
  if (const Value* v = scope.find(rt_, e.id)) return *v;
  return Value::undefined(fmt::format("'{}' is undefined", e.text));
}

std::vector<Value> Interpreter::eval_all(const std::vector<ExprPtr>& list, Scope& scope) {
  std::vector<Value> out;
  out.reserve(list.size());
  for (const ExprPtr& e : list) out.push_back(eval(*e, scope));
  return out;
}

Value Interpreter::eval_dict(const Expr& e, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    const Value key = eval(*e.children[i], scope);
    rt_.set(dict, key, eval(*e.children[i + 1], scope));
  }
  return rt_.dict(std::move(dict));
}

Value Interpreter::eval_slice(const Expr& e, Scope& scope) {
  const Value v = eval(*e.children[0], scope);
  const auto part = [&](size_t i) { return e.children[i] ? eval(*e.children[i], scope) : Value(); };
  const Value start = part(1), stop = part(2);
  return rt_.slice(v, start, stop, part(3));
}

Args Interpreter::eval_args(const CallArgs& args, Scope& scope) {
  Args out;
  out.positional = eval_all(args.positional, scope);
  for (const auto& [name, e] : args.named) out.named.emplace_back(name, eval(*e, scope));
  if (args.star) {
    for (Value& v : rt_.to_vector(eval(*args.star, scope))) out.positional.push_back(std::move(v));
  }
  if (args.star_star) {
    const Value more = eval(*args.star_star, scope);
    if (!more.is_dict()) throw errorf("the argument after ** must be a mapping, not {}", more.type_name());
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is_string()) throw errorf("keywords must be strings, not {}", key.type_name());
      for (const auto& [name, v] : out.named) {
        if (name == key.text()) throw errorf("got multiple values for keyword argument '{}'", name);
      }
      rt_.charge(key.text().size() + 64);
      out.named.emplace_back(key.text(), value);
    }
  }
  return out;
}

Value Interpreter::eval_call(const Expr& e, Scope& scope, const Value* caller) {
  const Expr& callee = *e.children[0];
  const bool is_method = callee.kind == Expr::Kind::attribute;
  const Value target = eval(is_method ? *callee.children[0] : callee, scope);
  if (is_method) refuse_undefined(target);
  Args args = eval_args(e.args, scope);
  if (caller) args.named.emplace_back("caller", *caller);
  return is_method ? rt_.call_method(target, callee.text, callee.value, args) : rt_.call(target, args);
}

Value Interpreter::eval_filter(const Expr& e, Scope& scope, const Value* operand) {
  // In a filter block the innermost filter has no operand of its own: it takes the block's text.
  const Expr* inner = e.children[0].get();
  Value v;
  if (!inner) {
    v = operand ? *operand : Value();
  } else if (operand && inner->kind == Expr::Kind::filter) {
    const Runtime::Deeper deeper(rt_);
    v = eval_filter(*inner, scope, operand);
  } else {
    v = eval(*inner, scope);
  }
  const Filter filter = find_filter(e.text);
  if (!filter) throw errorf("there is no filter named '{}'", e.text);
  return filter(rt_, v, eval_args(e.args, scope));
}

Value Interpreter::eval_test(const Expr& e, Scope& scope) {
  const Value v = eval(*e.children[0], scope);
  const Test* test = find_test(e.text);
  if (!test) throw errorf("there is no test named '{}'", e.text);
  return Value((*test)(rt_, v, eval_args(e.args, scope)));
}

Value Interpreter::eval_compare(const Expr& e, Scope& scope) {
  Value left = eval(*e.children[0], scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.children[i + 1], scope);
    if (!rt_.compare(e.ops[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::eval_concat(const Expr& e, Scope& scope) {
  std::string out;
  for (const ExprPtr& child : e.children) {
    const Value v = eval(*child, scope);
    out += rt_.text(v);
    rt_.check_size(out.size());
  }
  return rt_.str(std::move(out));
}

Value Interpreter::eval_conditional(const Expr& e, Scope& scope) {
  if (rt_.truth(eval(*e.children[0], scope))) return eval(*e.children[1], scope);
  if (e.children[2]) return eval(*e.children[2], scope);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined", e.line));
}

Value Interpreter::eval_logical(const Expr& e, Scope& scope) {
  const bool stops_at = e.kind == Expr::Kind::logical_or;
  Value v;
  for (const ExprPtr& child : e.children) {
    v = eval(*child, scope);
    if (rt_.truth(v) == stops_at) break;
  }
  return v;
}

}  // namespace anemone::jinja
