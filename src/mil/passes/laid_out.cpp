#include "mil/passes/laid_out.h"

#include <algorithm>

#include "mil/passes/fold_constants.h"

namespace anemone {

LaidOut::LaidOut(Function& function)
    : function_(function),
      builder_(function),
      old_(std::move(function.body.ops)),
      outputs_(function.body.outputs.begin(), function.body.outputs.end()) {
  function.body.ops.clear();
  for (const auto& input : function.inputs) held_[input.get()].plain = input.get();
}

Value* LaidOut::emit(std::string_view type, Args args, std::string_view name) {
  Value* out = builder_.op(type, args, name);
  fold_operation(function_.body, function_.body.ops.size() - 1, function_.opset);
  return out;
}

Value* LaidOut::relaid(Value* value, const std::vector<int64_t>& dims, const Layout& from, const Layout& to,
                       const std::string& name, int region) {
  const auto reshaped = [&](Value* v, const Layout& layout) {
    const std::vector<int64_t> shape = stored_shape(dims, layout);
    if (v->type.dims() == shape) return v;
    if (shape.empty()) return emit("squeeze", {{"x", v}}, name);  // reshape makes no scalars
    return emit("reshape", {{"x", v}, {"shape", Constant::ints(shape)}}, name);
  };
  if (same_elements(dims, from, to)) return reshaped(value, to);
  if (region >= 0 && !value->constant()) ++regions_[static_cast<size_t>(root(region))].transposes;
  if (const auto perm = permutation(from, to))
    return emit("transpose", {{"x", value}, {"perm", Constant::ints(*perm)}}, name);
  const Layout narrow = without_units(from), wanted = without_units(to);
  Value* moved =
      emit("transpose",
           {{"x", reshaped(value, narrow)}, {"perm", Constant::ints(*permutation(narrow, wanted))}}, name);
  return reshaped(moved, to);
}

Value* LaidOut::plain(Value* old) {
  Held& h = held_.at(old);
  if (!h.plain)
    h.plain = relaid(h.stored, old->type.dims(), h.layout, plain_layout(old->type.rank()),
                     old->name + "_plain", h.region);
  return h.plain;
}

Value* LaidOut::stored_as(Value* old, const Layout& layout, int region) {
  Held& h = held_.at(old);
  if (h.stored && h.layout == layout) {
    h.region = join(h.region, region);
    return h.stored;
  }
  const std::vector<int64_t> dims = old->type.dims();
  const bool free = h.stored && same_elements(dims, h.layout, layout);
  const bool from_stored = h.stored && (free || !h.plain);
  Value* made =
      relaid(from_stored ? h.stored : h.plain, dims, from_stored ? h.layout : plain_layout(old->type.rank()),
             layout, old->name + "_moved", region);
  if (free || h.plain || region >= 0) {  // others will ask for it
    h.stored = made;
    h.layout = layout;
    h.region = join(h.region, region);
  }
  return made;
}

Value* LaidOut::operand_as(Value* old, int rank, const Layout& layout, int region) {
  if (old->type.size() == 1) return plain(old);
  if (old->type.rank() == rank) return stored_as(old, layout, region);
  std::vector<int64_t> dims = old->type.dims();
  dims.insert(dims.begin(), static_cast<size_t>(rank) - dims.size(), 1);
  Value* wide = emit("reshape", {{"x", plain(old)}, {"shape", Constant::ints(dims)}}, old->name + "_wide");
  return relaid(wide, dims, plain_layout(rank), layout, old->name + "_moved", region);
}

std::vector<Value*> LaidOut::emit_like(const Operation& op, const std::map<std::string, Arg>& changes) {
  std::vector<std::pair<std::string_view, Arg>> args;
  for (const Input& input : op.inputs) {
    if (changes.contains(input.name)) continue;
    if (input.bindings.size() == 1 && input.bindings[0].literal) {
      args.emplace_back(input.name, *input.bindings[0].literal);
      continue;
    }
    std::vector<Value*> values;
    for (const Binding& binding : input.bindings) values.push_back(plain(binding.value));
    args.emplace_back(input.name, values);
  }
  for (const auto& [name, arg] : changes) args.emplace_back(name, arg);
  return builder_.ops_of(op.type, args, op.name());
}

void LaidOut::rebind(Block& block) {
  for (const auto& op : block.ops) {
    for (Input& input : op->inputs)
      for (Binding& binding : input.bindings)
        if (binding.value && held_.contains(binding.value)) binding.value = plain(binding.value);
    for (const auto& inner : op->blocks) rebind(*inner);
  }
  for (Value*& output : block.outputs)
    if (held_.contains(output)) output = plain(output);
}

void LaidOut::keep(std::unique_ptr<Operation> op) {
  for (Input& input : op->inputs)
    for (Binding& binding : input.bindings)
      if (binding.value) binding.value = plain(binding.value);
  for (const auto& inner : op->blocks) rebind(*inner);
  for (const auto& output : op->outputs) {
    held_[output.get()].plain = output.get();
    named_.insert(output.get());
  }
  function_.body.ops.push_back(std::move(op));
}

void LaidOut::settle(Value* old, Value* stored, Layout layout, int region) {
  const bool fresh = stored->producer && !named_.contains(stored);
  if (fresh && !outputs_.contains(old)) {
    std::swap(stored->name, old->name);
    if (stored->producer->outputs.size() == 1)
      stored->producer->attributes.insert_or_assign("name", Constant::text(stored->name));
    named_.insert(stored);
    if (!same_elements(old->type.dims(), layout, plain_layout(old->type.rank())))
      layouts_[stored->name] = without_units(layout);
  }
  if (layout == plain_layout(old->type.rank()))
    held_[old] = Held{stored, nullptr, {}, -1};
  else
    held_[old] = Held{nullptr, stored, std::move(layout), region};
}

void LaidOut::finish() {
  std::unordered_set<const Value*> given;
  for (Value*& output : function_.body.outputs) {
    Value* old = output;
    Value* value = plain(old);
    if (value != old) {
      const bool own = value->producer && !value->constant() && !named_.contains(value) &&
                       !given.contains(value) && value->producer->outputs.size() == 1;
      if (!own) value = builder_.op("identity", {{"x", value}}, old->name);
      std::swap(value->name, old->name);
      value->producer->attributes.insert_or_assign("name", Constant::text(value->name));
      named_.insert(value);
    }
    given.insert(value);
    output = value;
  }
  remove_dead_ops(function_);
}

int LaidOut::new_region(size_t conv) {
  parents_.push_back(static_cast<int>(parents_.size()));
  regions_.push_back({{conv}, 0});
  return parents_.back();
}

int LaidOut::root(int region) const {
  while (parents_[static_cast<size_t>(region)] != region) region = parents_[static_cast<size_t>(region)];
  return region;
}

int LaidOut::join(int a, int b) {
  if (a < 0 || b < 0) return std::max(a, b);
  a = root(a);
  b = root(b);
  if (a == b) return a;
  parents_[static_cast<size_t>(b)] = a;
  Region &into = regions_[static_cast<size_t>(a)], &from = regions_[static_cast<size_t>(b)];
  into.convs.insert(into.convs.end(), from.convs.begin(), from.convs.end());
  into.transposes += from.transposes;
  return a;
}

std::vector<LaidOut::Region> LaidOut::regions() const {
  std::vector<Region> out;
  for (size_t r = 0; r < regions_.size(); ++r)
    if (parents_[r] == static_cast<int>(r)) out.push_back(regions_[r]);
  return out;
}

}  // namespace anemone
