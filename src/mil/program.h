// Program: MIL in memory. A program has functions, a function one block, a block operations in order, and an
// operation binds its inputs to values that stand before it.
//     for (const auto& op : program.find_function("main")->body.ops) fmt::print("{}\n", op->type);
// A Value is owned by what defines it (an operation, a block's or a function's input) and does not move while
// that lives, so values are referred to by plain pointers. Programs move; clone() copies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mil/constant.h"
#include "mil/opset.h"
#include "mil/type.h"

namespace anemone {

struct Operation;
struct Block;

struct Value {
  std::string name;
  Type type;
  Operation* producer = nullptr;  // empty for an input of a function or block
  std::string extra;              // fields of the file that we do not know, here and below

  // The constant behind this value when a `const` operation defines it.
  const Constant* constant() const;
};

using Attributes = std::map<std::string, Constant>;

// What a parameter is bound to: a value, or a constant written in place.
struct Binding {
  Value* value = nullptr;
  std::shared_ptr<const Constant> literal;  // set when `value` is not
  std::string extra;

  const Type& type() const { return value ? value->type : literal->type; }
  // The constant, in place or behind the value; empty for a value that is computed.
  const Constant* constant() const { return value ? value->constant() : literal.get(); }
};

// One parameter of an operation: ordinary ones have one binding, `concat.values` and the like several.
struct Input {
  std::string name;
  std::vector<Binding> bindings;
  std::string extra;
};

struct Operation {
  std::string type;                             // "conv"
  std::vector<Input> inputs;                    // in the order of the file
  std::vector<std::unique_ptr<Value>> outputs;  // none for write_state
  std::vector<std::unique_ptr<Block>> blocks;   // cond: true, false; while_loop: condition, body
  Attributes attributes;  // `name`; of `const` also `val`; of iOS 16 constexpr ops all parameters
  std::string extra;

  const Input* input(std::string_view name) const;
  Input* input(std::string_view name);
  // The attribute `name`, or else the first output's name.
  std::string name() const;
  // The single value bound to an input; empty when it is absent or a constant in place.
  Value* value(std::string_view name) const;
};

struct Block {
  std::vector<std::unique_ptr<Value>> inputs;  // loop variables; empty for a function's own block
  std::vector<std::unique_ptr<Operation>> ops;
  std::vector<Value*> outputs;
  Attributes attributes;
  std::string extra;
};

struct Function {
  std::string name;
  Opset opset = Opset::ios18;
  std::vector<std::unique_ptr<Value>> inputs;  // tensors, then states
  Block body;
  Attributes attributes;
  std::string extra;
};

struct Program {
  int64_t version = 1;
  std::vector<std::unique_ptr<Function>> functions;
  Attributes attributes;  // buildInfo
  std::string extra;

  const Function* find_function(std::string_view name) const;
  Function* find_function(std::string_view name);
  Program clone() const;
};

// Calls `visit` for every operation, those of nested blocks after the operation that holds them.
void for_each_op(const Block& block, const std::function<void(const Operation&)>& visit);
void for_each_op(Block& block, const std::function<void(Operation&)>& visit);

// Rebinds every use of a value in the block, its nested blocks and its outputs.
void replace_uses(Block& block, const Value* from, Value* to);

// Removes operations whose results nobody uses; write_state and what it needs stay.
void remove_dead_ops(Function& function);

// The same type and the same bytes; of weight files the same place.
bool same_constant(const Constant& a, const Constant& b);

// Equal in everything that a program means: names, types, bindings and constants (by their bytes where they
// are there).
bool same_program(const Program& a, const Program& b);

}  // namespace anemone
