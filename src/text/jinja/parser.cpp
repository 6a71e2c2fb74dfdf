#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/parser_state.h"

namespace anemone::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

// Which of caller, varargs and kwargs a macro's body mentions decides what the macro accepts.
class UsageFinder {
 public:
  explicit UsageFinder(Stmt& macro) : macro_(macro) {
    visit(macro.body);
    for (const Param& p : macro.params) visit(p.fallback);
  }

 private:
  void visit(const ExprPtr& e) {
    if (!e) return;
    if (e->kind == Expr::Kind::name) {
      macro_.uses_caller |= e->id == kCallerId;
      macro_.uses_varargs |= e->id == kVarargsId;
      macro_.uses_kwargs |= e->id == kKwargsId;
    }
    for (const ExprPtr& child : e->children) visit(child);
    for (const ExprPtr& child : e->args.positional) visit(child);
    for (const auto& [name, child] : e->args.named) visit(child);
    visit(e->args.star);
    visit(e->args.star_star);
  }

  void visit(const Body& body) {
    for (const Stmt& s : body) {
      visit(s.value);
      visit(s.condition);
      for (const Param& p : s.params) visit(p.fallback);
      for (const auto& [target, value] : s.pairs) visit(value);
      for (const Stmt::Branch& branch : s.branches) {
        visit(branch.condition);
        visit(branch.body);
      }
      visit(s.body);
      visit(s.else_body);
    }
  }

  Stmt& macro_;
};

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Template run() {
    Template parsed;
    parsed.body = parse_body({});
    if (!unknown_.empty()) throw unknown_.front();
    parsed.names = std::move(names_);
    return parsed;
  }

 private:
  // What a statement changes about its body, put back at the end of it.
  template <class T>
  class Restore {
   public:
    Restore(T& variable, T value) : variable_(variable), old_(variable) { variable = value; }
    ~Restore() { variable_ = old_; }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;

   private:
    T& variable_;
    T old_;
  };

  Stmt make(Stmt::Kind kind, int line) const {
    Stmt s{.kind = kind};
    s.line = line;
    return s;
  }

  bool at_any(Names names) const {
    return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return current().is_name(n); });
  }

  // Up to one of the end tags, which stays the current token; with no end tags, to the end of the template.
  Body parse_body(Names ends) {
    const Nesting nesting(*this);
    Body body;
    const int line = current().line;
    while (current().type != TokenType::end) {
      if (current().type == TokenType::data) {
        Stmt s = make(Stmt::Kind::text, current().line);
        s.text = next().text;
        body.push_back(std::move(s));
      } else if (current().type == TokenType::variable_begin) {
        Stmt s = make(Stmt::Kind::print, next().line);
        s.value = parse_tuple({});
        expect(TokenType::variable_end, "'}}'");
        body.push_back(std::move(s));
      } else {
        expect(TokenType::block_begin, "a statement");
        if (at_any(ends)) return body;
        parse_statement(body);
        expect(TokenType::block_end, "'%}'");
      }
    }
    if (ends.size() > 0) {
      throw error("the template ends inside a block", line).expected(fmt::format("'{}'", *(ends.end() - 1)));
    }
    return body;
  }

  // The body of a block whose opening tag has been read but for its end.
  Body parse_block(Names ends) {
    skip_op(":");
    expect(TokenType::block_end, "'%}'");
    return parse_body(ends);
  }

  Body parse_to(std::string_view end) {
    Body body = parse_block({end});
    next();
    return body;
  }

  void parse_statement(Body& out) {
    const int line = current().line;
    const std::string tag = expect_any_name();
    if (tag == "if") return out.push_back(parse_if(line));
    if (tag == "for") return out.push_back(parse_for(line));
    if (tag == "set") return out.push_back(parse_set(line));
    if (tag == "macro") return out.push_back(parse_macro(line));
    if (tag == "call") return out.push_back(parse_call_block(line));
    if (tag == "filter") return out.push_back(parse_filter_block(line));
    if (tag == "with") return out.push_back(parse_with(line));
    if (tag == "generation") return out.push_back(parse_generation(line));
    if (tag == "block") return out.push_back(parse_named_block(line));
    if (tag == "autoescape") return out.push_back(parse_autoescape(line));
    if (tag == "print") return parse_print(line, out);
    if (tag == "break" || tag == "continue") {
      if (!in_loop_) throw error(fmt::format("'{}' outside of a loop", tag), line);
      return out.push_back(make(tag == "break" ? Stmt::Kind::break_ : Stmt::Kind::continue_, line));
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      throw error(fmt::format("'{}' is not possible: a chat template is one file", tag), line);
    }
    throw error(fmt::format("unknown tag '{}'", tag), line);
  }

  Stmt parse_if(int line) {
    const Restore soft(soft_, true);
    Stmt s = make(Stmt::Kind::if_, line);
    do {
      Stmt::Branch branch;
      branch.condition = parse_tuple({.with_condition = false});
      branch.body = parse_block({"elif", "else", "endif"});
      s.branches.push_back(std::move(branch));
    } while (skip_name("elif"));
    if (skip_name("else")) s.else_body = parse_block({"endif"});
    next();
    return s;
  }

  Stmt parse_for(int line) {
    Stmt s = make(Stmt::Kind::for_, line);
    s.target = parse_target(false, "in");
    if (s.target->kind == Expr::Kind::name && s.target->id == kLoopId) {
      throw error("a loop cannot assign to its own variable 'loop'", line);
    }
    expect_name("in");
    s.value = parse_tuple({.with_condition = false, .end_name = "recursive"});
    const Restore soft(soft_, false);
    if (skip_name("if")) s.condition = parse_expression();
    s.recursive = skip_name("recursive");
    {
      const Restore in_loop(in_loop_, true);
      s.body = parse_block({"else", "endfor"});
    }
    if (skip_name("else")) s.else_body = parse_block({"endfor"});
    next();
    return s;
  }

  Stmt parse_set(int line) {
    Stmt s = make(Stmt::Kind::set, line);
    s.target = parse_target(true);
    if (skip_op("=")) {
      s.value = parse_tuple({});
      return s;
    }
    const Restore soft(soft_, false);
    s.kind = Stmt::Kind::set_block;
    s.value = parse_filters(nullptr, false);
    s.body = parse_to("endset");
    return s;
  }

  void parse_params(Stmt& s) {
    expect_op("(");
    while (!current().is_op(")")) {
      if (!s.params.empty()) expect_op(",");
      Param p;
      p.name = expect_any_name();
      p.id = name_id(p.name);
      for (const Param& other : s.params) {
        if (other.id == p.id) throw error(fmt::format("two parameters are called '{}'", p.name));
      }
      if (skip_op("=")) {
        p.fallback = parse_expression();
      } else if (!s.params.empty() && s.params.back().fallback) {
        throw error(fmt::format("parameter '{}' has no default but follows one that has", p.name));
      }
      s.params.push_back(std::move(p));
    }
    expect_op(")");
  }

  // A body that runs as a function of its own: loops outside of it cannot be left from within.
  void parse_function_body(Stmt& s, std::string_view end) {
    const Restore in_loop(in_loop_, false);
    const Restore soft(soft_, false);
    s.body = parse_to(end);
    UsageFinder{s};
  }

  Stmt parse_macro(int line) {
    Stmt s = make(Stmt::Kind::macro, line);
    s.text = expect_any_name();
    s.id = name_id(s.text);
    parse_params(s);
    parse_function_body(s, "endmacro");
    return s;
  }

  Stmt parse_call_block(int line) {
    Stmt s = make(Stmt::Kind::call, line);
    s.text = "caller";
    if (current().is_op("(")) parse_params(s);
    s.value = parse_expression();
    if (s.value->kind != Expr::Kind::call)
      throw error("a call block calls nothing", line).expected("a call: f(…)");
    parse_function_body(s, "endcall");
    return s;
  }

  Stmt parse_generation(int line) {
    Stmt s = make(Stmt::Kind::generation, line);
    parse_function_body(s, "endgeneration");
    return s;
  }

  Stmt parse_filter_block(int line) {
    Stmt s = make(Stmt::Kind::filter, line);
    s.value = parse_filters(nullptr, true);
    const Restore soft(soft_, false);
    s.body = parse_to("endfilter");
    return s;
  }

  Stmt parse_with(int line) {
    Stmt s = make(Stmt::Kind::with, line);
    while (current().type != TokenType::block_end) {
      if (!s.pairs.empty()) expect_op(",");
      ExprPtr target = parse_target(false);
      expect_op("=");
      ExprPtr value = parse_expression();
      s.pairs.emplace_back(std::move(target), std::move(value));
    }
    const Restore soft(soft_, false);
    s.body = parse_to("endwith");
    return s;
  }

  Stmt parse_named_block(int line) {
    Stmt s = make(Stmt::Kind::scope, line);
    s.text = expect_any_name();
    s.at_root = !skip_name("scoped");
    skip_name("required");
    const Restore in_loop(in_loop_, false);
    const Restore soft(soft_, false);
    s.body = parse_to("endblock");
    skip_name(s.text);
    return s;
  }

  Stmt parse_autoescape(int line) {
    Stmt s = make(Stmt::Kind::scope, line);
    const ExprPtr on = parse_expression();
    if (on->kind != Expr::Kind::constant || !on->value.is_bool() || on->value.as_bool()) {
      throw error("autoescape can only be false: chat templates do not write HTML", line);
    }
    s.body = parse_to("endautoescape");
    return s;
  }

  void parse_print(int line, Body& out) {
    for (bool first = true; current().type != TokenType::block_end; first = false) {
      if (!first) expect_op(",");
      Stmt s = make(Stmt::Kind::print, line);
      s.value = parse_expression();
      out.push_back(std::move(s));
    }
  }

  bool in_loop_ = false;
};

}  // namespace

Template parse(std::string_view source) { return Parser(lex(source)).run(); }

}  // namespace anemone::jinja
