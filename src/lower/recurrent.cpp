#include "lower/recurrent.h"

#include "base/error.h"
#include "lower/ops.h"

namespace anemone::lower {

void RecurrentStates::declare(Function& f, size_t layer, const RecurrentShape& shape, const LayersSpec& spec,
                              FunctionInterface& interface) {
  spec_ = spec;
  if (!advance_ && spec.tokens.most > 1) {
    advance_ =
        add_input(f, "advance", Type::tensor(kHalf, {1, 1, shape.columns, shape.columns + spec.tokens.most}));
    interface.inputs.push_back({"advance", {.kind = Role::Kind::advance}});
  }
  const std::string name = fmt::format("state_{}{}", layer, spec.state_suffix);
  const Shape dims{1, 1, shape.columns, shape.width};
  const bool state = spec.kv == KvKind::state;
  Value* store = add_input(f, name, state ? Type::state(kHalf, dims) : Type::tensor(kHalf, dims));
  (state ? interface.states : interface.inputs)
      .push_back({name, {.kind = Role::Kind::recurrent, .layers = {static_cast<int64_t>(layer)}}});
  entries_[layer] = {shape, store, nullptr};
}

Value* RecurrentStates::read(Builder& b, size_t layer) {
  Value* store = entries_.at(layer).store;
  return spec_.kv == KvKind::state
             ? b.op("read_state", {{"input", store}}, fmt::format("state_{}_old", layer))
             : store;
}

void RecurrentStates::advance(Builder& b, size_t layer, Value* columns) {
  Entry& entry = entries_.at(layer);
  const std::string name = fmt::format("state_{}_next", layer);
  // One token moves all columns on by one; of several, the host says how many are real.
  Value* next = advance_ ? b.op("matmul",
                                {{"x", advance_},
                                 {"y", columns},
                                 {"transpose_x", Constant::boolean(false)},
                                 {"transpose_y", Constant::boolean(false)}},
                                name)
                         : slice_axis(b, columns, 2, 1, 1 + entry.shape.columns, name);
  if (spec_.kv == KvKind::state)
    b.op("write_state", {{"input", entry.store}, {"data", next}}, fmt::format("state_{}_write", layer));
  else
    entry.next = next;
}

void RecurrentStates::end(Builder& b, FunctionInterface& interface) {
  for (const auto& [layer, entry] : entries_) {
    if (!entry.next) continue;
    const std::string name = fmt::format("state_new_{}", layer);
    b.output(b.op("identity", {{"x", entry.next}}, name));
    interface.outputs.push_back(
        {name, {.kind = Role::Kind::new_recurrent, .layers = {static_cast<int64_t>(layer)}}});
  }
}

}  // namespace anemone::lower
