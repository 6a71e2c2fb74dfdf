#include "compress/find.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/shape.h"
#include "mil/function_info.h"

namespace anemone {
namespace {

struct Consumer {
  const Operation* op;
  std::string param;
};
using Consumers = std::unordered_map<const Value*, std::vector<Consumer>>;

bool is_constexpr(const Operation& op) { return op.type.starts_with("constexpr_"); }

Consumers consumers_of(const Function& function) {
  Consumers out;
  for_each_op(std::as_const(function.body), [&](const Operation& op) {
    for (const Input& input : op.inputs)
      for (const Binding& b : input.bindings)
        if (b.value) out[b.value].push_back({&op, input.name});
  });
  return out;
}

bool flag_of(const Operation& op, const char* name) {
  const Input* input = op.input(name);
  if (!input || input->bindings.size() != 1) return false;
  const Constant* c = input->bindings[0].constant();
  return c && c->type.dtype == DType::boolean && !c->bytes().empty() && c->bytes()[0] != std::byte{0};
}

// Output and input channels, by what uses the weight.
std::pair<int, int> axes_for(const Consumer& use, int rank) {
  if (use.op->type == "conv_transpose") return {1, 0};
  if (use.op->type == "matmul") {
    const bool y = use.param == "y", turned = flag_of(*use.op, y ? "transpose_y" : "transpose_x");
    return y != turned ? std::pair{rank - 1, rank - 2} : std::pair{rank - 2, rank - 1};
  }
  return {0, 1};
}

// All constants behind a value: what it is made of.
void constants_of(const Value& value, std::vector<const Constant*>& out) {
  if (const Constant* c = value.constant()) {
    out.push_back(c);
    return;
  }
  for (const Input& input : value.producer->inputs)
    for (const Binding& b : input.bindings) {
      if (b.literal)
        out.push_back(b.literal.get());
      else if (b.value && b.value->producer)
        constants_of(*b.value, out);
    }
  for (const auto& [name, c] : value.producer->attributes)
    if (name != "name") out.push_back(&c);
}

bool is_weight(const Operation& op) {
  if ((op.type != "const" && !is_constexpr(op)) || op.outputs.size() != 1) return false;
  const Type& type = op.outputs[0]->type;
  if (!type.is_tensor() || !type.fixed() || type.rank() < 2 || type.size() == 0) return false;
  return type.dtype == DType::fp16 || type.dtype == DType::fp32;
}

// Numbers that are compared with others must stay exact: the rows of --argmax-output, the numbers of experts.
bool is_compared(const std::vector<Consumer>& uses) {
  return std::any_of(uses.begin(), uses.end(), [](const Consumer& use) {
    for (const char* op : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
      if (use.op->type == op) return true;
    return false;
  });
}

// What uses the weight says which axes are its channels, and what it is multiplied with. False when it is only a part
// of another weight.
bool add_uses(Weight& w, const std::vector<Consumer>& uses) {
  std::set<std::string> kinds;
  std::set<std::pair<int, int>> axes;
  for (const Consumer& use : uses) {
    if (is_constexpr(*use.op)) return false;
    kinds.insert(use.op->type);
    if (const Value* x = use.op->value("x"); x && use.param == "weight") w.input = x->name;
    axes.insert(axes_for(use, w.type.rank()));
  }
  // Uses that disagree get the usual axes: every form is still right, only the groups may be less apt.
  if (axes.size() == 1) std::tie(w.output_axis, w.input_axis) = *axes.begin();
  w.kinds.assign(kinds.begin(), kinds.end());
  return true;
}

}  // namespace

FoundWeights::FoundWeights(const Program& program) {
  for (const auto& function : program.functions) {
    infos_.push_back(std::make_unique<FunctionInfo>(*function));
    add(*function, *infos_.back());
  }
}

FoundWeights::~FoundWeights() = default;

const FoundWeight* FoundWeights::find(const std::string& function, const std::string& value) const {
  for (const FoundWeight& w : weights_)
    for (const FoundUse& use : w.uses)
      if (use.function == function && use.value == value) return &w;
  return nullptr;
}

void FoundWeights::add(const Function& function, const FunctionInfo& info) {
  const Consumers consumers = consumers_of(function);
  for_each_op(std::as_const(function.body), [&](const Operation& op) {
    if (!is_weight(op)) return;
    const Value& value = *op.outputs[0];
    const auto uses = consumers.find(&value);
    if (uses == consumers.end() || is_compared(uses->second)) return;
    FoundWeight found;
    Weight& w = found.weight;
    w.name = value.name;
    w.type = value.type;
    w.plain = op.type == "const";
    w.sparse = op.type == "constexpr_sparse_to_dense";
    if (!add_uses(w, uses->second)) return;
    add_parts(found, value);
    const auto same = std::find_if(weights_.begin(), weights_.end(), [&](const FoundWeight& other) {
      return other.weight.type == w.type && other.parts == found.parts &&
             other.weight.output_axis == w.output_axis;
    });
    if (same != weights_.end()) {
      same->uses.push_back({function.name, value.name});
      return;
    }
    w.stored = info.stored(info.id(&value));
    found.uses.push_back({function.name, value.name});
    weights_.push_back(std::move(found));
  });
}

void FoundWeights::add_parts(FoundWeight& found, const Value& value) {
  std::vector<const Constant*> parts;
  constants_of(value, parts);
  std::set<const void*> counted;
  for (const Constant* c : parts) {
    if (!c->type.is_tensor() || c->type.dtype == DType::string) continue;
    found.parts.push_back(origin(*c, value.name));
    if (counted.insert(found.parts.back()).second)
      found.weight.stored_bytes += packed_bytes(c->type.size(), dtype_bits(c->type.dtype));
    if (const auto* blob = std::get_if<Blob>(&c->data); blob && blob->file) found.weight.file = blob->file;
  }
}

// Where the data comes from. Functions share records of a weight file and sources; of constants in place each function
// has its own copy, under the same name.
const void* FoundWeights::origin(const Constant& c, const std::string& value) {
  if (const auto* blob = std::get_if<Blob>(&c.data); blob && blob->file) return c.bytes().data();
  if (const auto* source = std::get_if<Constant::Source>(&c.data)) return source->get();
  const auto* bytes = std::get_if<Constant::Bytes>(&c.data);
  if (!bytes) return &c;
  std::vector<const Constant*>& known = in_place_[value];
  for (const Constant* other : known)
    if (other->type == c.type && std::get<Constant::Bytes>(other->data) == *bytes) return other;
  known.push_back(&c);
  return &c;
}

void for_each_constant(const Program& program, const std::function<void(const Constant&)>& visit) {
  for (const auto& function : program.functions)
    for_each_op(std::as_const(function->body), [&](const Operation& op) {
      for (const auto& [name, c] : op.attributes) visit(c);
      for (const Input& input : op.inputs)
        for (const Binding& b : input.bindings)
          if (b.literal) visit(*b.literal);
    });
}

void prepare_sources(const Program& program, ThreadPool& pool) {
  std::set<const WeightSource*> done;
  for_each_constant(program, [&](const Constant& c) {
    if (const auto* source = std::get_if<Constant::Source>(&c.data))
      if (done.insert(source->get()).second) (*source)->prepare(pool);
  });
}

}  // namespace anemone
