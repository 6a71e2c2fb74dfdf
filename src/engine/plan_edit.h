// PlanEdit: the steps of a plan before memory is given out, as patterns see them: who makes a value, who
// looks at it, and a way to put one fused step in the place of several.
//     const int matmul = edit.maker(edit.input(step, "x"));     // seen through views
//     edit.replace({matmul, add, softmax}, fused, softmax);
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/fused.h"
#include "engine/plan.h"

namespace anemone {

class PlanEdit {
 public:
  // `plan` is of `block` from operation `begin`; `staying`: values that are looked at behind it.
  PlanEdit(Plan& plan, const FunctionInfo& info, const Block& block, size_t begin, std::set<int> staying,
           bool half, bool fast = false);

  bool half() const { return half_; }  // fp16 arithmetic
  bool fast() const { return fast_; }  // `fast` arithmetic
  int size() const { return static_cast<int>(plan_.steps.size()); }
  const Step& step(int i) const { return plan_.steps[static_cast<size_t>(i)]; }
  bool is(int i, std::string_view op) const;  // a step that runs this op by its own kernel; i may be -1
  bool writes_state(int i) const { return std::holds_alternative<WriteState>(step(i).work); }
  // Of a step that runs one op.
  const OpBinding& binding(int i) const { return std::get<RunOp>(step(i).work).binding; }

  // Views: the value whose memory a value shares, and where in it it starts.
  int root(int id) const;
  int64_t offset(int id) const;
  // The step that computes the value's memory, provided the value is all of it; -1: none in the plan.
  int maker(int id) const;
  int maker(const Source& source) const { return source.id < 0 ? -1 : maker(source.id); }
  const Type& type(int id) const;  // of a value that a step or a view of this plan gives

  // The steps that look at the value's memory, in order; each once.
  const std::vector<int>& users(int id) const;
  // Only that step looks at the value's memory, in this plan and behind it.
  bool only_for(int id, int step) const;
  bool stays(int id) const { return staying_.contains(root(id)); }
  // Everything that the function does with the state is in this plan: reads, and one write.
  bool owns_state(int state) const;
  // A step between the two, neither of them included, changes the value's memory.
  bool changed_between(int id, int first, int last) const;

  // Operands of a step that runs one op, by parameter; nothing for other steps.
  const Source& input(int step, std::string_view param, int i = 0) const;
  const Type& input_type(int step, std::string_view param, int i = 0) const;
  int count(int step, std::string_view param) const;
  int constant(int step, std::string_view param) const;  // its value number; -1: none, or bound in place
  // For small constant parameters: flag(), integers() … of the step's operation.
  template <class F>
  auto with_call(int step, F f) const {
    std::vector<const void*> data;
    for (const Source& s : this->step(step).in) data.push_back(s.fixed);
    return f(OpCall(binding(step), data));
  }

  // Puts `fused` at the place of step `at` and takes `steps` (in order, `at` among them) out. What they make
  // and nobody else looks at is made no more. `fused` is a RunFused, whose plain way they become.
  void replace(const std::vector<int>& steps, Step fused, int at);
  void remove(int step);
  // From step `at` on, `id` is a view of `of`; it is computed no longer.
  void make_view(int id, int of, int64_t offset, const Type& type, int at);
  // A number for a value that fused steps share.
  int new_value() { return plan_.values++; }
  // A step that is put before step `at` once all patterns are done.
  void insert(Step step, int at) { inserted_.emplace_back(at, std::move(step)); }

  // Takes removed steps out of the list, and says where each that is left stood. The edit is of no use after that.
  std::vector<int> finish();

 private:
  struct View {
    int of;
    int64_t offset;
    Type type;
  };

  void add(int step);
  void drop(int step);
  void look(int step, int id);
  int operand(int step, std::string_view param, int i) const;

  Plan& plan_;
  const FunctionInfo& info_;
  const Block& block_;
  const size_t begin_;
  const bool half_, fast_;
  std::set<int> staying_;  // roots
  std::vector<bool> removed_;
  std::unordered_map<int, View> views_;
  std::unordered_map<int, int> maker_;               // by root
  std::unordered_map<int, std::vector<int>> users_;  // by root, in order
  std::vector<std::pair<int, Step>> inserted_;
};

}  // namespace anemone
