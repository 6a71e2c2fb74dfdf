#include "mil/passes/tidy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "mil/passes/number_ranges.h"
#include "mil/passes/rewriter.h"
#include "mil/stored.h"

namespace anemone {
namespace {

constexpr int kMostRounds = 8;            // each round sees what the one before uncovered
constexpr int64_t kSmallConstant = 4096;  // bytes; larger ones are not compared

bool is_view(const Operation& op) {
  return op.type == "reshape" || op.type == "expand_dims" || op.type == "squeeze" || op.type == "flatten2d";
}

bool same_type(const Value* a, const Value* b) { return a->type == b->type && a->type.fixed(); }

std::vector<int64_t> without_ones(const Type& type, const std::vector<int64_t>& axes) {
  std::vector<int64_t> out;
  for (const int64_t axis : axes)
    if (type.dim(static_cast<int>(axis)) != Dim(1)) out.push_back(axis);
  return out;
}

class Tidier {
 public:
  explicit Tidier(Function& function) : function_(function) {}

  int64_t run() {
    if (truncates()) ranges_.emplace(function_);
    Rewriter r(function_);
    r_ = &r;
    return r.run([&](Operation& op) { return visit(op); });
  }

 private:
  bool visit(Operation& op) {
    if (!op.blocks.empty() || op.outputs.size() != 1 || !op.outputs[0]->type.is_tensor()) return false;
    Value* x = op.value("x");
    if (op.type == "concat") return single(op);
    if (!x || !x->type.is_tensor()) return false;
    if (op.type == "identity") return r_->replace(op, x);
    if (op.type == "cast") return cast(op, x);
    if (op.type == "transpose") return transpose(op, x);
    if (is_view(op)) return view(op, x);
    if (keeps_all(op, x)) return r_->replace(op, x);
    return false;
  }

  bool single(Operation& op) {
    const Input* values = op.input("values");
    return values && values->bindings.size() == 1 && values->bindings[0].value &&
           r_->replace(op, values->bindings[0].value);
  }

  bool cast(Operation& op, Value* x) {
    const DType to = op.outputs[0]->type.dtype;
    if (x->type.dtype == to) return r_->replace(op, x);
    const Operation* before = made_by(x, "cast");
    Value* source = before ? before->value("x") : nullptr;
    if (!source || source->type.dtype != to || !passes_through(source, x->type.dtype) ||
        !r_->replace(op, source))
      return false;
    // The same numbers, and a step on the way to x: verify finds them by the name of x.
    if (source->producer && source->name.starts_with(x->name + "_")) r_->take_name(source, x);
    return true;
  }

  // There and back again loses nothing where the type between has all of the numbers. int32 has no fractions.
  bool passes_through(const Value* source, DType between) const {
    const DType type = source->type.dtype;
    if (type == DType::boolean) return between == DType::fp32 || between == DType::int32;
    if (type == DType::fp16 && between == DType::fp32) return true;
    if (!ranges_ || !dtype_is_float(type) || between != DType::int32) return false;
    // Larger ones say to `to_half` that they must be exact.
    const NumberRange range = ranges_->of(source);
    return range.whole && range.most() <= 2048;
  }

  // Whether floats are made whole numbers and floats again somewhere: only then their ranges are of interest.
  bool truncates() const {
    bool found = false;
    for_each_op(std::as_const(function_.body), [&](const Operation& op) {
      const Operation* before = op.type == "cast" ? made_by(op.value("x"), "cast") : nullptr;
      const Value* source = before ? before->value("x") : nullptr;
      found = found || (source && source->type.is_float() && op.value("x")->type.dtype == DType::int32 &&
                        op.outputs[0]->type.dtype == source->type.dtype);
    });
    return found;
  }

  bool transpose(Operation& op, Value* x) {
    auto perm = known_integers(op, "perm");
    if (!perm || perm->size() != x->type.shape.size()) return false;
    for (int64_t& axis : *perm) axis += axis < 0 ? x->type.rank() : 0;
    if (const Operation* before = made_by(x, "transpose")) {
      auto first = known_integers(*before, "perm");
      Value* source = before->value("x");
      if (!first || !source || first->size() != perm->size()) return false;
      for (int64_t& axis : *first) axis += axis < 0 ? x->type.rank() : 0;
      std::vector<int64_t> both;
      for (const int64_t axis : *perm) both.push_back((*first)[static_cast<size_t>(axis)]);
      if (std::is_sorted(both.begin(), both.end())) return r_->replace(op, source);
      return r_->replace(op, r_->emit("transpose", {{"x", source}, {"perm", Constant::ints(both)}},
                                      op.outputs[0]->name + "_joined"));
    }
    if (std::is_sorted(perm->begin(), perm->end())) return r_->replace(op, x);
    const std::vector<int64_t> moved = without_ones(x->type, *perm);
    if (!x->type.fixed() || !std::is_sorted(moved.begin(), moved.end())) return false;
    return reshape(op, x);
  }

  bool reshape(Operation& op, Value* x) {
    return r_->replace(op,
                       r_->emit("reshape", {{"x", x}, {"shape", Constant::ints(op.outputs[0]->type.dims())}},
                                op.outputs[0]->name + "_view"));
  }

  bool view(Operation& op, Value* x) {
    if (!op.outputs[0]->type.fixed() || !x->type.fixed()) return false;
    if (same_type(x, op.outputs[0].get())) return r_->replace(op, x);
    Operation* before = x->producer && is_view(*x->producer) ? x->producer : nullptr;
    Value* source = before ? before->value("x") : nullptr;
    if (!source || !source->type.fixed()) return false;
    if (same_type(source, op.outputs[0].get())) return r_->replace(op, source);
    if (op.outputs[0]->type.rank() == 0) return false;
    return reshape(op, source);
  }

  static bool all(const Operation& op, std::string_view param, int64_t value) {
    const auto given = known_integers(op, param);
    return given && std::all_of(given->begin(), given->end(), [&](int64_t v) { return v == value; });
  }

  // Operations whose result is x itself.
  bool keeps_all(const Operation& op, const Value* x) const {
    if (!same_type(x, op.outputs[0].get())) return false;
    if (op.type == "tile") return all(op, "reps", 1);
    if (op.type == "pad") return all(op, "pad", 0);
    if (op.type == "slice_by_size") return true;
    if (op.type == "slice_by_index") return !op.input("stride") || all(op, "stride", 1);
    if (op.type == "mul" || op.type == "real_div" || op.type == "pow")
      return one_number(op.value("y")) == 1.0f;
    if (op.type == "add" || op.type == "sub") return one_number(op.value("y")) == 0.0f;
    return false;
  }

  Function& function_;
  std::optional<NumberRanges> ranges_;
  Rewriter* r_ = nullptr;
};

// Equal constants and equal operations over equal values become one.
class Merger {
 public:
  explicit Merger(Function& function) : function_(function) {}

  int64_t run() {
    merge_constants();
    Rewriter r(function_);
    return r.run([&](Operation& op) {
      if (!mergeable(op)) return false;
      const auto [it, first] = seen_.emplace(key(op), op.outputs[0].get());
      return !first && it->second->type == op.outputs[0]->type && r.replace(op, it->second);
    });
  }

 private:
  // Only operations of the function's own block: those of branches do not see each other.
  bool mergeable(const Operation& op) const {
    const Op* schema = find_op(op.type);
    return schema && schema->run && !schema->random && op.blocks.empty() && op.outputs.size() == 1 &&
           op.outputs[0]->type.is_tensor() && own_.contains(&op);
  }

  static std::string key(const Operation& op) {
    std::map<std::string, std::string> parts;
    for (const Input& input : op.inputs) {
      std::string& part = parts[input.name];
      for (const Binding& binding : input.bindings) {
        const void* at = binding.value ? static_cast<const void*>(binding.value) : binding.literal.get();
        part += fmt::format("{},", at);
      }
    }
    std::string out = op.type;
    for (const auto& [name, part] : parts) out += ";" + name + "=" + part;
    return out;
  }

  void merge_constants() {
    std::map<std::string, Value*> known;
    std::unordered_map<const Value*, Value*> same;
    for (const auto& op : function_.body.ops) {
      own_.insert(op.get());
      if (op->type != "const" || op->outputs.size() != 1) continue;
      const Constant* constant = op->outputs[0]->constant();
      if (!constant || !constant->type.is_tensor()) continue;
      std::string key = constant->type.text() + ":";
      if (const auto* strings = std::get_if<Constant::Strings>(&constant->data)) {
        for (const std::string& text : *strings) key += text + "\n";
      } else if (const auto* bytes = std::get_if<Constant::Bytes>(&constant->data)) {
        if (static_cast<int64_t>(bytes->size()) > kSmallConstant) continue;
        key.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      } else {
        continue;
      }
      const auto [it, first] = known.emplace(std::move(key), op->outputs[0].get());
      if (!first) same.emplace(op->outputs[0].get(), it->second);
    }
    rebind(function_.body, same);
  }

  static void rebind(Block& block, const std::unordered_map<const Value*, Value*>& same) {
    for (const auto& op : block.ops) {
      for (Input& input : op->inputs)
        for (Binding& binding : input.bindings)
          if (const auto it = same.find(binding.value); it != same.end()) binding.value = it->second;
      for (const auto& inner : op->blocks) rebind(*inner, same);
    }
  }

  Function& function_;
  std::unordered_set<const Operation*> own_;
  std::map<std::string, Value*> seen_;
};

}  // namespace

int64_t count_operations(const Function& function) {
  int64_t count = 0;
  for_each_op(function.body, [&](const Operation& op) { count += op.type != "const"; });
  return count;
}

TidyReport tidy(Function& function) {
  TidyReport report{count_operations(function), 0};
  remove_dead_ops(function);
  for (int round = 0; round < kMostRounds; ++round) {
    const int64_t merged = Merger(function).run();
    if (Tidier(function).run() + merged == 0) break;
  }
  report.after = count_operations(function);
  return report;
}

}  // namespace anemone
