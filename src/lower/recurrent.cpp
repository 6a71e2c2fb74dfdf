#include "lower/recurrent.h"

#include "base/error.h"
#include "lower/ops.h"

namespace anemone::lower {
namespace {

// "3", and "3_1" for its second slot.
std::string numbered(size_t layer, size_t slot) {
  return slot == 0 ? fmt::format("{}", layer) : fmt::format("{}_{}", layer, slot);
}

Role role_of(Role::Kind kind, size_t layer, size_t slot) {
  return {.kind = kind, .index = slot, .layers = {static_cast<int64_t>(layer)}};
}

}  // namespace

void RecurrentStates::declare(Function& f, size_t layer, std::span<const RecurrentShape> slots,
                              const LayersSpec& spec, FunctionInterface& interface) {
  spec_ = spec;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const RecurrentShape& shape = slots[slot];
    if (spec.tokens.most > 1 && !advance_.contains(shape.columns)) {
      const std::string name = advance_.empty() ? "advance" : fmt::format("advance_{}", shape.columns);
      advance_[shape.columns] =
          add_input(f, name, Type::tensor(kHalf, {1, 1, shape.columns, shape.columns + spec.tokens.most}));
      interface.inputs.push_back(
          {name, {.kind = Role::Kind::advance, .index = static_cast<size_t>(shape.columns)}});
    }
    const std::string name = "state_" + numbered(layer, slot) + spec.state_suffix;
    const Shape dims{1, 1, shape.columns, shape.width};
    const bool state = spec.kv == KvKind::state;
    Value* store = add_input(f, name, state ? Type::state(kHalf, dims) : Type::tensor(kHalf, dims));
    (state ? interface.states : interface.inputs)
        .push_back({name, role_of(Role::Kind::recurrent, layer, slot)});
    const bool fresh = entries_.emplace(std::pair(layer, slot), Entry{shape, store, nullptr}).second;
    ANEMONE_CHECK(fresh);  // one block of a layer lists all its states
  }
}

Value* RecurrentStates::read(Builder& b, size_t layer, size_t slot) {
  Value* store = entries_.at({layer, slot}).store;
  return spec_.kv == KvKind::state
             ? b.op("read_state", {{"input", store}}, fmt::format("state_{}_old", numbered(layer, slot)))
             : store;
}

Value* RecurrentStates::last_columns(Builder& b, size_t layer, size_t slot, Value* columns) {
  const int64_t count = entries_.at({layer, slot}).shape.columns;
  const std::string name = fmt::format("state_{}_next", numbered(layer, slot));
  // One token moves all columns on by one; of several, the host says how many are real.
  if (advance_.empty()) return slice_axis(b, columns, 2, 1, 1 + count, name);
  return b.op("matmul",
              {{"x", advance_.at(count)},
               {"y", columns},
               {"transpose_x", Constant::boolean(false)},
               {"transpose_y", Constant::boolean(false)}},
              name);
}

void RecurrentStates::write(Builder& b, size_t layer, size_t slot, Value* next) {
  Entry& entry = entries_.at({layer, slot});
  if (spec_.kv == KvKind::state)
    b.op("write_state", {{"input", entry.store}, {"data", next}},
         fmt::format("state_{}_write", numbered(layer, slot)));
  else
    entry.next = next;
}

void RecurrentStates::end(Builder& b, FunctionInterface& interface) {
  for (const auto& [key, entry] : entries_) {
    if (!entry.next) continue;
    const std::string name = "state_new_" + numbered(key.first, key.second);
    b.output(b.op("identity", {{"x", entry.next}}, name));
    interface.outputs.push_back({name, role_of(Role::Kind::new_recurrent, key.first, key.second)});
  }
}

}  // namespace anemone::lower
