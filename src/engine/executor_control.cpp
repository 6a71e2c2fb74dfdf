// What no plan holds: branches, loops, and operations whose types are known only when their inputs are there.
#include <cstring>

#include "base/error.h"
#include "engine/executor.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

// A cell with memory of its own.
Cell new_cell(const Type& type) {
  struct Owned {
    Type type;
    Buffer memory;
  };
  auto owned = std::make_shared<Owned>();
  owned->type = type;
  Cell cell;
  if (type.kind == Type::Kind::list) {
    cell.list = std::make_shared<TensorList>();
  } else {
    if (!type.fixed()) throw errorf("the shape of the result is not known").found(type.text());
    owned->memory = Buffer(static_cast<uint64_t>(type.size()) * 4);
    cell.data = owned->memory.data();
  }
  cell.type = &owned->type;
  cell.owner = std::move(owned);
  return cell;
}

// Gives the cell memory of its own: what it stands in is used again.
void keep(Cell& cell) {
  if (cell.list || !cell.type) return;
  Cell kept = new_cell(*cell.type);
  if (const int64_t count = cell.type->size(); count > 0)
    cell.halves
        ? halves_to_floats(static_cast<const std::byte*>(cell.data), count, static_cast<float*>(kept.data))
        : void(std::memcpy(kept.data, cell.data, static_cast<size_t>(count) * 4));
  kept.bounds = cell.bounds;
  cell = std::move(kept);
}

// What a block gives or a loop starts from: the cell of a value, or a constant's elements.
Cell cell_of(const FunctionInfo& info, const Cells& cells, const Value* value) {
  const int id = info.id(value);
  const Cell& cell = cells[static_cast<size_t>(id)];
  if (cell.type || !info.is_constant(id)) return cell;
  const auto weight = info.stored(id);
  Cell out = new_cell(weight->type());
  weight->read(0, weight->type().size(), out.data);
  return out;
}

bool truth(const Cell& cell, const Operation& op) {
  if (!cell.type || !cell.data || cell.type->dtype != DType::boolean || cell.type->size() != 1)
    throw errorf("the condition is not one bool")
        .at(op_place(op))
        .found(cell.type ? cell.type->text() : "nothing");
  return *static_cast<const int32_t*>(cell.data) != 0;
}

}  // namespace

// The elements of an operand: of a constant too, which is decoded into `loaded` where it does not lie ready.
const void* Executor::operand_data(Operand& operand, const Binding* source,
                                   std::deque<Buffer>& loaded) const {
  const Value* value = source ? source->value : nullptr;
  if (!value) return operand.constant ? info_.dense(*operand.constant) : nullptr;
  const int id = info_.id(value);
  const Cell& cell = cells_[static_cast<size_t>(id)];
  if (cell.list) return cell.list.get();
  if (cell.data || !info_.is_constant(id)) return cell.data;
  operand.constant = value->constant();
  if (operand.type.dtype == DType::string) return nullptr;
  if (const void* dense = info_.dense(id)) return dense;
  const auto weight = info_.stored(id);
  loaded.emplace_back(static_cast<uint64_t>(weight->type().size()) * 4);
  weight->read(0, weight->type().size(), loaded.back().data());
  return loaded.back().data();
}

// An operation whose types are known only now that its inputs are there.
void Executor::run_dynamic(const Operation& op) {
  OpBinding binding = OpBinding::bind(op, info_.function().opset, [this](const Value* value) -> const Type& {
    const Cell& cell = cells_[static_cast<size_t>(info_.id(value))];
    return cell.type ? *cell.type : value->type;
  });
  std::vector<const void*> data(binding.operands.size());
  std::deque<Buffer> loaded;
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = operand_data(binding.operands[i], binding.sources[i], loaded);
  const Types types = binding.op->infer(OpCall(binding, data));
  if (types.size() != op.outputs.size())
    throw errorf("'{}' gives {} values", op.type, types.size())
        .found(fmt::format("{} names", op.outputs.size()));
  if (!binding.op->run) throw errorf("'{}' cannot be run here", op.type);
  std::vector<void*> out;
  std::vector<Cell> results;
  for (const Type& type : types) {
    results.push_back(new_cell(type));
    out.push_back(results.back().list ? static_cast<void*>(results.back().list.get()) : results.back().data);
  }
  binding.op->run(OpCall(binding, data, types, out, pool_));
  for (size_t i = 0; i < types.size(); ++i) {
    if (half_) settle(op, types[i], results[i].data, {});
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(results[i]);
  }
}

void Executor::run_cond(const Operation& op) {
  const Value* predicate = op.value("pred");
  if (!predicate || op.blocks.size() != 2) throw errorf("needs 'pred' and two blocks").at(op_place(op));
  const Block& taken = *op.blocks[truth(cell_of(info_, cells_, predicate), op) ? 0 : 1];
  if (taken.outputs.size() != op.outputs.size())
    throw errorf("a block gives the wrong number of values").at(op_place(op));
  execute_nested(taken);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    Cell cell = cell_of(info_, cells_, taken.outputs[i]);
    keep(cell);
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(cell);
  }
}

void Executor::run_while(const Operation& op) {
  const Input* vars = op.input("loop_vars");
  if (!vars || op.blocks.size() != 2) throw errorf("needs 'loop_vars' and two blocks").at(op_place(op));
  const Block& condition = *op.blocks[0];
  const Block& body = *op.blocks[1];
  const size_t n = vars->bindings.size();
  if (condition.inputs.size() != n || body.inputs.size() != n || body.outputs.size() != n ||
      op.outputs.size() != n || condition.outputs.size() != 1)
    throw errorf("the loop's blocks do not take and give {} values", n).at(op_place(op));
  std::vector<Cell> current;
  for (const Binding& binding : vars->bindings) {
    if (!binding.value) throw errorf("a loop variable is a constant in place").at(op_place(op));
    current.push_back(cell_of(info_, cells_, binding.value));
    current.back().known = false;  // it will not be what it was
  }
  const auto enter = [&](const Block& block) {
    for (size_t i = 0; i < n; ++i) cells_[static_cast<size_t>(info_.id(block.inputs[i].get()))] = current[i];
    execute_nested(block);
  };
  for (;;) {
    enter(condition);
    if (!truth(cell_of(info_, cells_, condition.outputs[0]), op)) break;
    enter(body);
    std::vector<Cell> following;
    for (const Value* value : body.outputs) {
      following.push_back(cell_of(info_, cells_, value));
      keep(following.back());
    }
    current = std::move(following);
  }
  for (size_t i = 0; i < n; ++i) {
    keep(current[i]);
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(current[i]);
  }
}

}  // namespace anemone
