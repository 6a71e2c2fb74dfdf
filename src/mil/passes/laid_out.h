// LaidOut: a function that is written anew, whose values may lie in other orders than the old function's.
//     LaidOut out(function);                     // takes the old operations; the function's block is empty now
//     Value* x = out.stored_as(old, {0, 2, kUnit, 1});   // moves axes where it must
//     Value* y = out.plain(old);
// Values are asked for by their old selves. Each lies in the program's order, in another one, or in both once somebody
// asked for both.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mil/builder.h"
#include "mil/passes/layout.h"
#include "mil/program.h"

namespace anemone {

class LaidOut {
 public:
  struct Held {
    Value* plain = nullptr;   // in the program's order
    Value* stored = nullptr;  // in another one
    Layout layout;            // of `stored`
    int region = -1;          // values that convs hold together
  };
  // Convs that share values, and the transposes at their border.
  struct Region {
    std::vector<size_t> convs;
    int64_t transposes = 0;
  };

  explicit LaidOut(Function& function);

  std::vector<std::unique_ptr<Operation>>& old() { return old_; }
  const Held& held(const Value* old) const { return held_.at(old); }

  Value* plain(Value* old);
  Value* stored_as(Value* old, const Layout& layout, int region);
  // A smaller operand of an elementwise operation, as it meets a value of that rank in that layout.
  Value* operand_as(Value* old, int rank, const Layout& layout, int region);

  Value* emit(std::string_view type, Args args, std::string_view name);
  Value* constant(Constant value, std::string_view name) { return builder_.constant(std::move(value), name); }
  // The old operation with some parameters changed, and the program's order for the others.
  std::vector<Value*> emit_like(const Operation& op, const std::map<std::string, Arg>& changes);
  // The old operation as it is.
  void keep(std::unique_ptr<Operation> op);
  // What stands for a result of an old operation from now on.
  void settle(Value* old, Value* stored, Layout layout, int region);
  // The outputs of the function, under their names.
  void finish();

  int new_region(size_t conv);
  int join(int a, int b);
  std::vector<Region> regions() const;
  const std::map<std::string, Layout>& layouts() const { return layouts_; }

 private:
  Value* relaid(Value* value, const std::vector<int64_t>& dims, const Layout& from, const Layout& to,
                const std::string& name, int region);
  int root(int region) const;
  void rebind(Block& block);

  Function& function_;
  Builder builder_;
  std::vector<std::unique_ptr<Operation>> old_;
  std::unordered_map<const Value*, Held> held_;
  std::unordered_set<const Value*> outputs_, named_;  // named_: carry the name of an old value
  std::map<std::string, Layout> layouts_;
  std::vector<int> parents_;
  std::vector<Region> regions_;
};

}  // namespace anemone
