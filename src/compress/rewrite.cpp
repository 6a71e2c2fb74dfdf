#include "compress/rewrite.h"

#include <iterator>

#include "base/error.h"
#include "compress/build.h"

namespace anemone {
namespace {

class Rewriter {
 public:
  Rewriter(Function& function, const Replacements& replacements)
      : function_(function), builder_(function), replacements_(replacements) {}

  void run() {
    block(function_.body);
    remove_dead_ops(function_);
  }

 private:
  void block(Block& b) {
    for (size_t i = 0; i < b.ops.size(); ++i) {
      for (const auto& inner : b.ops[i]->blocks) block(*inner);
      if (b.ops[i]->outputs.size() != 1) continue;
      const auto found = replacements_.find({function_.name, b.ops[i]->outputs[0]->name});
      if (found == replacements_.end()) continue;
      i += replace(b, i, *found->second) - 1;
    }
  }

  // Puts what gives the weight in the place of operation i; how many operations that are.
  size_t replace(Block& b, size_t i, Sources& sources) {
    const std::string name = b.ops[i]->outputs[0]->name;
    Block fresh;
    Builder builder(builder_, fresh);
    Value* value = nullptr;
    try {
      value = build_encoded(builder, sources, name);
    } catch (Error& e) {
      e.within(fmt::format("weight '{}'", name));
      throw;
    }
    replace_uses(function_.body, b.ops[i]->outputs[0].get(), value);
    // The name is free from here on.
    value->name = name;
    value->producer->attributes["name"] = Constant::text(b.ops[i]->name());
    const size_t count = fresh.ops.size();
    const auto place = b.ops.erase(b.ops.begin() + static_cast<std::ptrdiff_t>(i));
    b.ops.insert(place, std::make_move_iterator(fresh.ops.begin()), std::make_move_iterator(fresh.ops.end()));
    return count;
  }

  Function& function_;
  Builder builder_;
  const Replacements& replacements_;
};

}  // namespace

Program rewrite(const Program& program, const Replacements& replacements) {
  Program out = program.clone();
  for (const auto& function : out.functions) Rewriter(*function, replacements).run();
  return out;
}

}  // namespace anemone
