// Builder: writes operations at the end of a block, infers their types and makes readable, unique names.
//     Function& f = add_function(program, "main", Opset::ios18);
//     Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 64, 1, 8}));
//     Builder b(f);
//     Value* y = b.op("add", {{"x", x}, {"y", Constant::number(1, DType::fp16)}}, "y");
//     b.output(y);
// Constants become `const` operations in front of their user, as Core ML wants them; those of constexpr
// operations stay in place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "mil/op.h"
#include "mil/program.h"

namespace anemone {

// What a parameter is given: a value, several, or a constant.
using Arg = std::variant<Value*, std::vector<Value*>, Constant>;
using Args = std::initializer_list<std::pair<std::string_view, Arg>>;

class Builder {
 public:
  // Appends to the function's block. Names already in the function are taken.
  explicit Builder(Function& function);
  // Appends to a nested block of the same function.
  Builder(Builder& outer, Block& block);

  // The first output of a new operation; Error naming it when the parameters do not fit. `name` is made
  // unique. A parameter whose value is null is left out.
  Value* op(std::string_view type, Args args, std::string_view name = "");
  // All of its outputs.
  std::vector<Value*> ops(std::string_view type, Args args, std::string_view name = "") {
    return ops_of(type, std::span(args.begin(), args.size()), name);
  }
  // The same where the parameters are not known beforehand.
  std::vector<Value*> ops_of(std::string_view type, std::span<const std::pair<std::string_view, Arg>> args,
                             std::string_view name);
  // The same for an operation whose parameters are attributes: the constexpr ones of iOS 16.
  Value* with_attributes(std::string_view type, Attributes attributes, std::string_view name);
  Value* constant(Constant value, std::string_view name);
  void output(Value* value) { block_->outputs.push_back(value); }
  // Calls an operation's single output, and the operation with it, by another name, made unique.
  void rename(Value* value, std::string_view name);

  // A name like that which no value has yet; it is taken from now on.
  std::string unique_name(std::string_view wanted) { return unique(wanted); }

  Function& function() { return *function_; }

 private:
  std::string unique(std::string_view wanted);
  Operation& append(std::string_view type, std::string_view name);
  std::vector<Value*> add_outputs(Operation& op, const std::string& name);

  Function* function_;
  Block* block_;
  struct Names {
    std::unordered_set<std::string> taken;
    std::unordered_map<std::string, int64_t> next;  // the number to try next, by the name without one
  };
  std::shared_ptr<Names> names_;
};

Function& add_function(Program& program, std::string name, Opset opset);
Value* add_input(Function& function, std::string name, Type type);

// A name as Core ML takes it: [A-Za-z_][A-Za-z0-9_]*, no keyword of MIL text.
std::string safe_name(std::string_view name);

}  // namespace anemone
