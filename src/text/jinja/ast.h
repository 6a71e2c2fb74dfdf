// The syntax tree of a template. Nodes are plain data; parser.cpp makes them, the Interpreter walks them.
//     Template t = parse("{{ a + 1 }}");
//     t.body[0].kind == Stmt::Kind::print;
// Names are numbered once per template, so that a look-up at run time compares integers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace anemone::jinja {

using NameId = uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;  // f(*star, **star_star)
};

enum class Op : uint8_t {
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,  // binary
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in,  // comparisons
};

struct Expr {
  enum class Kind : uint8_t {
    constant,  // value
    name,      // id, text
    list,
    tuple,      // children
    dict,       // children: key, value, key, value …
    attribute,  // children[0].text
    item,       // children[0][children[1]]
    slice,      // children[0][children[1] : children[2] : children[3]], absent ones null
    call,       // children[0](args)
    filter,     // children[0] | text(args); children[0] is null in filter blocks
    test,       // children[0] is text(args)
    negate,
    plus,
    logical_not,  // children[0]
    logical_and,
    logical_or,           // children
    binary,               // children[0] ops[0] children[1]
    concat,               // children joined as text
    compare,              // children[0] ops[0] children[1] ops[1] children[2] …
    conditional,          // children[1] if children[0] else children[2], the last may be null
    namespace_attribute,  // target only: id.text
  };
  Kind kind;
  int line = 0;
  int depth = 1;  // height of the tree below and including this node
  NameId id = 0;
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<Op> ops;
  CallArgs args;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Param {
  NameId id;
  std::string name;
  ExprPtr fallback;  // null where there is none
};

struct Stmt {
  enum class Kind : uint8_t {
    text,        // text
    print,       // value
    if_,         // branches, else_body
    for_,        // target in value if condition: body, else_body
    set,         // target = value
    set_block,   // target = body | value
    macro,       // id(params): body
    call,        // value(…, caller = macro(params): body)
    generation,  // body, in a scope of its own
    filter,      // body | value
    with,        // pairs: target = value …; body
    scope,       // body; block and autoescape
    break_,
    continue_,
  };
  struct Branch;

  Kind kind;
  int line = 0;
  NameId id = 0;
  std::string text;
  ExprPtr target, value, condition;
  bool recursive = false;
  bool at_root = false;  // scope: sees the template's variables alone
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;  // macro and call
  std::vector<Param> params;
  std::vector<std::pair<ExprPtr, ExprPtr>> pairs;
  std::vector<Branch> branches;
  Body body, else_body;
};

struct Stmt::Branch {
  ExprPtr condition;
  Body body;
};

// A parsed template.
struct Template {
  Body body;
  std::vector<std::string> names;  // NameId → name
};

// Numbers that the parser gives to the names it and the interpreter treat apart.
enum : NameId { kLoopId = 0, kCallerId = 1, kVarargsId = 2, kKwargsId = 3 };

}  // namespace anemone::jinja
