// Statements, scopes and macros.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/loop.h"
#include "text/jinja/objects.h"

namespace anemone::jinja {
namespace {

class Macro : public Object {
 public:
  Macro(Interpreter& interpreter, const Stmt& stmt, Scope& closure)
      : interpreter_(interpreter), stmt_(stmt), closure_(closure) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr(Runtime&) const override {
    return stmt_.kind == Stmt::Kind::call ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", stmt_.text);
  }
  bool is_callable() const override { return true; }
  Value call(Runtime&, const Args& args) override { return interpreter_.invoke(stmt_, closure_, args); }
  std::optional<Value> attribute(Runtime& rt, std::string_view name) override {
    if (name == "name") return stmt_.kind == Stmt::Kind::call ? Value() : Value(stmt_.text);
    if (name == "caller") return Value(stmt_.uses_caller);
    if (name == "catch_kwargs") return Value(stmt_.uses_kwargs);
    if (name == "catch_varargs") return Value(stmt_.uses_varargs);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Param& p : stmt_.params) names.push_back(rt.str(p.name));
    return rt.tuple(std::move(names));
  }

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  Scope& closure_;
};

}  // namespace

// A look-up costs steps too, or a template of very many names could make each one slow.
constexpr size_t kNamesPerStep = 16;

void Scope::set(Runtime& rt, NameId id, Value value) {
  rt.step(variables.size() / kNamesPerStep);
  for (auto& [known, v] : variables) {
    if (known == id) {
      v = std::move(value);
      return;
    }
  }
  variables.emplace_back(id, std::move(value));
}

const Value* Scope::find(Runtime& rt, NameId id) const {
  for (const Scope* s = this; s; s = s->parent) {
    rt.step(s->variables.size() / kNamesPerStep);
    for (const auto& [known, v] : s->variables) {
      if (known == id) return &v;
    }
  }
  return nullptr;
}

class Interpreter::Local {
 public:
  Local(Interpreter& in, Scope* parent) : in_(in), scope_(in.new_scope(parent)) {}
  ~Local() { in_.drop_scope(scope_); }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  operator Scope&() { return scope_; }
  Scope* operator->() { return &scope_; }

 private:
  Interpreter& in_;
  Scope& scope_;
};

Interpreter::Interpreter(const Template& parsed, Runtime& rt)
    : template_(parsed), rt_(rt), root_(&new_scope(&new_scope(nullptr))) {
  for (auto& [name, value] : make_globals(rt)) define(name, std::move(value));
}

void Interpreter::define(std::string_view name, Value value) {
  const auto it = std::find(template_.names.begin(), template_.names.end(), name);
  if (it != template_.names.end()) {
    root_->parent->set(rt_, static_cast<NameId>(it - template_.names.begin()), std::move(value));
  }
}

Scope& Interpreter::new_scope(Scope* parent) {
  if (free_scopes_.empty()) {
    rt_.charge(sizeof(Scope));
    scopes_.emplace_back();
    free_scopes_.push_back(&scopes_.back());
  }
  Scope& scope = *free_scopes_.back();
  free_scopes_.pop_back();
  scope.parent = parent;
  return scope;
}

void Interpreter::drop_scope(Scope& scope) {
  if (scope.captured) return;  // a macro still looks into it
  scope.variables.clear();
  free_scopes_.push_back(&scope);
}

std::string Interpreter::run() {
  return capture([&] { exec(template_.body, *root_); });
}

std::string Interpreter::capture(const std::function<void()>& write_all) {
  std::string text;
  struct Redirect {
    std::string*& out;
    std::string* old;
    ~Redirect() { out = old; }
  } redirect{out_, out_};
  out_ = &text;
  write_all();
  return text;
}

void Interpreter::write(std::string_view text) {
  rt_.step(text.size() / 64);
  if (out_->size() + text.size() > rt_.limits().output_bytes) {
    throw errorf("the template hit the limit on bytes of output ({})", rt_.limits().output_bytes)
        .hint("the template does not end, or asks for too much");
  }
  out_->append(text);
}

Interpreter::Flow Interpreter::exec(const Body& body, Scope& scope) {
  const Runtime::Deeper deeper(rt_);
  for (const Stmt& s : body) {
    rt_.step();
    Flow flow = Flow::normal;
    try {
      flow = exec_one(s, scope);
    } catch (Error& error) {
      if (error.where().empty()) error.at(fmt::format("template line {}", s.line));
      throw;
    }
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::exec_one(const Stmt& s, Scope& scope) {
  using Kind = Stmt::Kind;
  switch (s.kind) {
    case Kind::text: write(s.text); break;
    case Kind::print: {
      const Value v = eval(*s.value, scope);
      if (v.is_string()) {
        write(v.text());
      } else {
        write(rt_.text(v));
      }
      break;
    }
    case Kind::if_: return exec_if(s, scope);
    case Kind::for_: run_loop(s, scope, eval(*s.value, scope), 0); break;
    case Kind::set: assign(*s.target, eval(*s.value, scope), scope); break;
    case Kind::set_block: {
      std::string text;
      const Flow flow = captured_body(s, scope, text);
      if (flow != Flow::normal) return flow;
      Value v = rt_.str(std::move(text));
      assign(*s.target, s.value ? eval_filter(*s.value, scope, &v) : v, scope);
      break;
    }
    case Kind::macro: scope.set(rt_, s.id, make_macro(s, scope)); break;
    case Kind::call: exec_call(s, scope); break;
    case Kind::generation:
    case Kind::scope: {
      Local local(*this, s.at_root ? root_ : &scope);
      return exec(s.body, local);
    }
    case Kind::filter: {
      std::string text;
      const Flow flow = captured_body(s, scope, text);
      if (flow != Flow::normal) return flow;
      const Value v = rt_.str(std::move(text));
      const Value made = eval_filter(*s.value, scope, &v);
      if (!made.is_string()) throw errorf("a filter block must end in a string, not in {}", rt_.repr(made));
      write(rt_.text(made));
      break;
    }
    case Kind::with: return exec_with(s, scope);
    case Kind::break_: return Flow::break_loop;
    case Kind::continue_: return Flow::next_turn;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::exec_if(const Stmt& s, Scope& scope) {
  for (const Stmt::Branch& branch : s.branches) {
    if (rt_.truth(eval(*branch.condition, scope))) return exec(branch.body, scope);
  }
  return exec(s.else_body, scope);
}

Interpreter::Flow Interpreter::captured_body(const Stmt& s, Scope& scope, std::string& out) {
  Flow flow = Flow::normal;
  out = capture([&] {
    Local local(*this, &scope);
    flow = exec(s.body, local);
  });
  return flow;
}

Interpreter::Flow Interpreter::exec_with(const Stmt& s, Scope& scope) {
  Local local(*this, &scope);
  std::vector<Value> values;
  for (const auto& [target, value] : s.pairs) values.push_back(eval(*value, scope));
  for (size_t i = 0; i < values.size(); ++i) assign(*s.pairs[i].first, values[i], local);
  return exec(s.body, local);
}

void Interpreter::run_loop(const Stmt& s, Scope& scope, const Value& source, int depth) {
  Iter items(rt_, source);
  const auto pull = [&](Value& out) {
    while (items.next(out)) {
      if (!s.condition) return true;
      Local local(*this, &scope);
      assign(*s.target, out, local);
      if (rt_.truth(eval(*s.condition, local))) return true;
    }
    return false;
  };
  std::function<Value(const Value&)> recurse;
  if (s.recursive) {
    recurse = [this, &s, &scope, depth](const Value& inner) {
      return rt_.str(capture([&] { run_loop(s, scope, inner, depth + 1); }));
    };
  }
  auto* loop = rt_.make<LoopContext>(pull, s.condition ? std::nullopt : rt_.length(source), depth, recurse);
  struct Finish {
    LoopContext* loop;
    ~Finish() { loop->finish(); }
  } finish{loop};
  bool completed_a_turn = false;
  for (Value item; loop->advance(item);) {
    Local local(*this, &scope);
    local->set(rt_, kLoopId, Value(loop));
    assign(*s.target, item, local);
    const Flow flow = exec(s.body, local);
    if (flow == Flow::break_loop) break;
    // Jinja marks a turn only at its end: where every turn is left by `continue`, `else` still runs.
    if (flow == Flow::normal) completed_a_turn = true;
  }
  if (!completed_a_turn && !s.else_body.empty()) {
    Local local(*this, &scope);
    exec(s.else_body, local);
  }
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == Expr::Kind::name) return scope.set(rt_, target.id, value);
  if (target.kind == Expr::Kind::namespace_attribute) {
    const Value* found = scope.find(rt_, target.id);
    auto* ns = found ? found->as<Namespace>() : nullptr;
    if (!ns) throw errorf("cannot assign attribute '{}': it is not on a namespace", target.text);
    return ns->set(rt_, rt_.str(target.text), value);
  }
  const std::vector<Value> parts = rt_.to_vector(value);
  if (parts.size() != target.children.size()) {
    throw errorf("cannot unpack {} values into {} names", parts.size(), target.children.size());
  }
  for (size_t i = 0; i < parts.size(); ++i) assign(*target.children[i], parts[i], scope);
}

Value Interpreter::make_macro(const Stmt& s, Scope& scope) {
  for (Scope* p = &scope; p; p = p->parent) p->captured = true;
  return Value(rt_.make<Macro>(*this, s, scope));
}

void Interpreter::exec_call(const Stmt& s, Scope& scope) {
  const Value caller = make_macro(s, scope);
  write(rt_.text(eval_call(*s.value, scope, &caller)));
}

void Interpreter::bind(const Stmt& macro, Scope& scope, const Args& args) {
  std::vector<std::pair<std::string, Value>> named = args.named;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    const auto it = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (it == named.end()) return std::nullopt;
    Value v = std::move(it->second);
    named.erase(it);
    return v;
  };
  bool explicit_caller = false;
  for (size_t i = 0; i < macro.params.size(); ++i) {
    const Param& p = macro.params[i];
    explicit_caller |= p.id == kCallerId;
    if (i < args.positional.size()) {
      scope.set(rt_, p.id, args.positional[i]);
    } else if (std::optional<Value> v = take(p.name)) {
      scope.set(rt_, p.id, *std::move(v));
    } else if (p.fallback) {
      scope.set(rt_, p.id, Value::undefined(fmt::format("parameter '{}' was not provided", p.name)));
      scope.set(rt_, p.id, eval(*p.fallback, scope));
    } else {
      scope.set(rt_, p.id, Value::undefined(fmt::format("parameter '{}' was not provided", p.name)));
    }
  }
  if (macro.uses_caller && !explicit_caller) {
    scope.set(rt_, kCallerId, take("caller").value_or(Value::undefined("No caller defined")));
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (auto& [name, v] : named) rt_.set(rest, rt_.str(name), std::move(v));
    scope.set(rt_, kKwargsId, rt_.dict(std::move(rest)));
  } else if (!named.empty()) {
    throw errorf("macro '{}' takes no keyword argument '{}'", macro.text, named[0].first);
  }
  const size_t taken = std::min(args.positional.size(), macro.params.size());
  if (macro.uses_varargs) {
    scope.set(
        rt_, kVarargsId,
        rt_.tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(taken), args.positional.end()}));
  } else if (args.positional.size() > taken) {
    throw errorf("macro '{}' takes not more than {} argument(s), not {}", macro.text, macro.params.size(),
                 args.positional.size());
  }
}

Value Interpreter::invoke(const Stmt& macro, Scope& closure, const Args& args) {
  Local local(*this, &closure);
  bind(macro, local, args);
  return rt_.str(capture([&] { exec(macro.body, local); }));
}

}  // namespace anemone::jinja
