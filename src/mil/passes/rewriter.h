// Rewriter: goes through a function from its first operation to its last, and puts others in the place of some.
//     Rewriter r(function);
//     r.run([&](Operation& op) { return op.type == "identity" && r.replace(op, op.value("x")); });
// The visitor sees operations whose inputs are already rebound, nested blocks included. What it writes with `emit`
// stands in front of the operation that it looks at, and is computed at once where it follows from constants.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mil/builder.h"
#include "mil/known.h"
#include "mil/program.h"

namespace anemone {

class Rewriter {
 public:
  // True: the operation was replaced and goes away.
  using Visit = std::function<bool(Operation&)>;

  explicit Rewriter(Function& function);

  // Gives how many operations were replaced. Operations that nobody uses after that are removed.
  int64_t run(const Visit& visit);

  Value* emit(std::string_view type, Args args, std::string_view name);
  // From now on `by` is the single result of the operation; it takes over its name where it was just written. False,
  // and no change, where an output of a block would lose its name or its place.
  bool replace(Operation& op, Value* by);
  // `value` gets the name of `from`, which gets another one. Outputs keep theirs.
  void take_name(Value* value, Value* from);
  // How many operations and outputs use a value.
  int64_t uses(const Value* value) const;
  bool is_output(const Value* value) const { return outputs_.contains(value); }

 private:
  void count_uses(const Block& block);
  void rewrite(Block& block, Builder& builder, const Visit& visit);
  void rebind(Operation& op) const;
  Value* current(Value* value) const;

  Function& function_;
  Builder builder_;
  Builder* here_ = nullptr;
  Block* block_ = nullptr;
  size_t mark_ = 0;  // where the operations begin that the visitor wrote for the one it looks at
  int64_t replaced_count_ = 0;
  std::unordered_map<const Value*, Value*> replaced_;
  std::unordered_map<const Value*, int64_t> uses_;
  std::unordered_set<const Value*> outputs_;
  std::vector<std::unique_ptr<Operation>> gone_;  // values of these may still be looked at
};

// What matchers ask.
// The operation that makes a value, when it is of that type; else empty.
Operation* made_by(const Value* value, std::string_view type);
// The one number of a constant with one element.
std::optional<float> one_number(const Value* value);
// The integers behind a parameter of an operation, where they are constant.
std::optional<std::vector<int64_t>> known_integers(const Operation& op, std::string_view param);

}  // namespace anemone
