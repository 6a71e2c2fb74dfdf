// Interpreter: walks a Template once and writes the text it renders to.
//     Interpreter in(parsed, rt);
//     in.define("messages", messages);
//     std::string text = in.run();
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace anemone::jinja {

// Variables of one block. Macros keep the scope they were written in; other scopes are used again.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;
  std::vector<std::pair<NameId, Value>> variables;

  void set(Runtime& rt, NameId id, Value value);
  const Value* find(Runtime& rt, NameId id) const;  // here and outwards
};

class Interpreter {
 public:
  Interpreter(const Template& parsed, Runtime& rt);

  void define(std::string_view name, Value value);  // a name the template does not use is dropped
  std::string run();

  Value eval(const Expr& e, Scope& scope);
  // Runs a macro's body with its parameters bound.
  Value invoke(const Stmt& macro, Scope& closure, const Args& args);
  // Runs a loop over `source`; `depth` counts the calls of a recursive loop.
  void run_loop(const Stmt& s, Scope& scope, const Value& source, int depth);
  // What `write` sends to the output, as a string instead.
  std::string capture(const std::function<void()>& write);
  Runtime& runtime() { return rt_; }

 private:
  enum class Flow { normal, break_loop, next_turn };
  class Local;  // a scope that lives as long as a C++ block

  // eval.cpp
  Value eval_kind(const Expr& e, Scope& scope);
  Value eval_name(const Expr& e, Scope& scope);
  Value eval_dict(const Expr& e, Scope& scope);
  Value eval_slice(const Expr& e, Scope& scope);
  Value eval_call(const Expr& e, Scope& scope, const Value* caller);
  Value eval_filter(const Expr& e, Scope& scope, const Value* operand);
  Value eval_test(const Expr& e, Scope& scope);
  Value eval_compare(const Expr& e, Scope& scope);
  Value eval_concat(const Expr& e, Scope& scope);
  Value eval_conditional(const Expr& e, Scope& scope);
  Value eval_logical(const Expr& e, Scope& scope);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& list, Scope& scope);
  Args eval_args(const CallArgs& args, Scope& scope);

  // exec.cpp
  Flow exec(const Body& body, Scope& scope);
  Flow exec_one(const Stmt& s, Scope& scope);
  Flow exec_if(const Stmt& s, Scope& scope);
  void exec_call(const Stmt& s, Scope& scope);
  Flow exec_with(const Stmt& s, Scope& scope);
  Flow captured_body(const Stmt& s, Scope& scope, std::string& out);
  void assign(const Expr& target, const Value& value, Scope& scope);
  void bind(const Stmt& macro, Scope& scope, const Args& args);
  Value make_macro(const Stmt& s, Scope& scope);
  void write(std::string_view text);

  Scope& new_scope(Scope* parent);
  void drop_scope(Scope& scope);

  const Template& template_;
  Runtime& rt_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* root_;
  std::string* out_ = nullptr;
};

}  // namespace anemone::jinja
