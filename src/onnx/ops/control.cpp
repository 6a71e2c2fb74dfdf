// If, Loop and Scan. What is known now is decided now: a known branch is taken, a known number of rounds is written
// out. The rest becomes MIL's cond and while_loop.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "mil/verify.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

constexpr int64_t kMostRounds = 512;  // written out; a loop with more stays a loop

// A graph whose nodes go to the caller's own block, with its own names.
OnnxScope inner_scope(OnnxScope& outer) {
  OnnxScope scope;
  scope.outer = &outer;
  scope.builder = outer.builder;
  scope.block = outer.block;
  return scope;
}

// Operands that outlive the scope: tensors become values of the block.
std::vector<OnnxOperand> outputs_of(OnnxCall& n, const OnnxGraph& graph, OnnxScope& scope) {
  std::vector<OnnxOperand> out;
  for (const OnnxValueInfo& output : graph.outputs) {
    OnnxOperand operand = n.lowering().find(scope, output.name);
    operand.value = n.lowering().value(scope, operand, output.name);
    out.push_back(std::move(operand));
  }
  return out;
}

Value* scalar(OnnxCall& n, Value* v) { return v->type.rank() ? n.reshape(v, {}) : v; }

// Puts an operation with blocks behind what is there, and gives its values.
std::vector<Value*> append(OnnxCall& n, std::unique_ptr<Operation> op, std::string_view name) {
  op->attributes.emplace("name", Constant::text(safe_name(name)));
  const Types types = declared_types(*op, n.opset());
  std::vector<Value*> out;
  for (size_t k = 0; k < types.size(); ++k) {
    op->outputs.push_back(std::make_unique<Value>(
        Value{n.scope().builder->unique_name(fmt::format("{}_{}", name, k)), types[k], op.get(), {}}));
    out.push_back(op->outputs.back().get());
  }
  n.scope().block->ops.push_back(std::move(op));
  return out;
}

void take_branch(OnnxCall& n, const OnnxGraph& graph) {
  OnnxScope scope = inner_scope(n.scope());
  n.lowering().lower_graph(graph, scope);
  std::vector<OnnxOperand> outs = outputs_of(n, graph, scope);
  for (size_t k = 0; k < outs.size(); ++k) n.out_operand(k, outs[k]);
}

std::vector<OnnxOperand> branch_block(OnnxCall& n, const OnnxGraph& graph, Block& block) {
  Builder builder(*n.scope().builder, block);
  OnnxScope scope = inner_scope(n.scope());
  scope.builder = &builder;
  scope.block = &block;
  n.lowering().lower_graph(graph, scope);
  std::vector<OnnxOperand> outs = outputs_of(n, graph, scope);
  for (OnnxOperand& out : outs) {
    // A block's output must be made in the block.
    const bool own =
        out.value->producer && std::any_of(block.ops.begin(), block.ops.end(),
                                           [&](const auto& op) { return op.get() == out.value->producer; });
    if (!own) out.value = builder.op("identity", {{"x", out.value}}, "branch");
    block.outputs.push_back(out.value);
  }
  return outs;
}

// What a condition asks of one input of the function: "sr == 16000". Empty where it is something else.
struct Question {
  std::string input;
  int64_t value = 0;
  bool equal = true;
};

std::optional<Question> question_of(OnnxCall& n, const Value* condition) {
  while (condition->producer &&
         (condition->producer->type == "squeeze" || condition->producer->type == "reshape"))
    condition = condition->producer->value("x");
  const Operation* compare = condition->producer;
  if (!compare || (compare->type != "equal" && compare->type != "not_equal")) return std::nullopt;
  for (const auto& [side, other] : {std::pair("x", "y"), std::pair("y", "x")}) {
    const Value* asked = compare->value(side);
    const auto value = known_ints(compare->value(other));
    while (asked && asked->producer &&
           (asked->producer->type == "squeeze" || asked->producer->type == "reshape"))
      asked = asked->producer->value("x");
    if (!asked || asked->producer || !value || value->size() != 1) continue;
    for (const auto& input : n.lowering().function().inputs)
      if (input.get() == asked) return Question{asked->name, value->at(0), compare->type == "equal"};
  }
  return std::nullopt;
}

struct Branch {
  std::unique_ptr<Block> block = std::make_unique<Block>();
  std::vector<OnnxOperand> outs;
  std::optional<Error> error;
  bool misfit = false;  // the shapes do not fit this branch
};

Branch try_branch(OnnxCall& n, const OnnxGraph& graph) {
  Branch b;
  try {
    b.outs = branch_block(n, graph, *b.block);
  } catch (const Error& e) {
    b.error = e;
    b.misfit = n.lowering().misfit;
  }
  n.lowering().misfit = false;
  return b;
}

// The branch that fits is taken for good, and said aloud.
void take_only(OnnxCall& n, Branch& branch, bool yes, const std::optional<Question>& question) {
  OnnxChoice choice{n.node.place(), "", std::nullopt, ""};
  if (question) {
    choice.input = question->input;
    if (question->equal == yes) choice.value = question->value;
    choice.why = fmt::format("the shapes of the inputs fit only {} {} {}, so this is fixed", question->input,
                             question->equal == yes ? "==" : "!=", question->value);
  } else {
    choice.why = fmt::format("the shapes of the inputs fit only its {} branch, so this is fixed",
                             yes ? "then" : "else");
  }
  n.lowering().choices.push_back(std::move(choice));
  for (auto& op : branch.block->ops) n.scope().block->ops.push_back(std::move(op));
  for (size_t k = 0; k < branch.outs.size(); ++k) n.out_operand(k, branch.outs[k]);
}

void lower_if(OnnxCall& n) {
  const OnnxGraph *yes = n.node.graph("then_branch"), *no = n.node.graph("else_branch");
  if (!yes || !no) throw errorf("If needs then_branch and else_branch");
  if (const auto known = n.find_ints(0)) return take_branch(n, known->at(0) ? *yes : *no);
  Value* condition = scalar(n, n.in(0));
  const auto question = question_of(n, condition);
  const std::string fix =
      question ? fmt::format("fix the branch with --constant {}={}", question->input, question->value)
               : "fix the branch with --constant, if an input of the model decides it";
  Branch a = try_branch(n, *yes), b = try_branch(n, *no);
  if (a.error && !b.error && a.misfit) return take_only(n, b, false, question);
  if (b.error && !a.error && b.misfit) return take_only(n, a, true, question);
  for (Branch* each : {&a, &b})
    if (each->error) throw each->error->within(each == &a ? "then branch" : "else branch").hint(fix);
  auto op = std::make_unique<Operation>();
  op->type = "cond";
  op->inputs.push_back({"pred", {{condition, nullptr, {}}}, {}});
  op->blocks.push_back(std::move(a.block));
  op->blocks.push_back(std::move(b.block));
  std::vector<Value*> values;
  try {
    values = append(n, std::move(op), n.node.output(0));
  } catch (Error& e) {
    throw e.hint(fix);
  }
  for (size_t k = 0; k < values.size(); ++k)
    n.out_operand(k, OnnxOperand{values[k], a.outs[k].type, nullptr});
}

// One round: the body with its inputs bound, in the caller's block.
std::vector<OnnxOperand> round(OnnxCall& n, const OnnxGraph& body, const std::vector<OnnxOperand>& inputs) {
  OnnxScope scope = inner_scope(n.scope());
  if (inputs.size() != body.inputs.size())
    throw errorf("the body takes {} values, and gets {}", body.inputs.size(), inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) scope.names.emplace(body.inputs[k].name, inputs[k]);
  n.lowering().lower_graph(body, scope);
  return outputs_of(n, body, scope);
}

// Scan outputs: one slice per round, stacked.
Value* stacked(OnnxCall& n, const std::vector<OnnxOperand>& slices, int64_t axis) {
  std::vector<Value*> values;
  for (const OnnxOperand& slice : slices) values.push_back(n.expand(slice.value, {axis}));
  if (values.size() == 1) return values[0];
  return n.concat(values, axis);
}

// Rounds that are written out: their number is known, and the condition is known after each.
bool unrolled_loop(OnnxCall& n, const OnnxGraph& body) {
  const size_t carried = n.count() < 2 ? 0 : n.count() - 2;
  const auto most = n.has(0) ? n.find_ints(0) : std::nullopt;
  const auto go = n.has(1) ? n.find_ints(1) : std::optional(std::vector<int64_t>{1});
  if (!go || (n.has(0) && !most)) return false;
  const int64_t rounds = most ? most->at(0) : kMostRounds + 1;
  std::vector<OnnxOperand> state;
  for (size_t k = 0; k < carried; ++k) state.push_back(n.operand(k + 2));
  std::vector<std::vector<OnnxOperand>> scans(body.outputs.size() - 1 - carried);
  bool running = go->at(0) != 0;
  // Written twice where the condition turns out to be computed: the first try is then dropped.
  if (most && go->at(0) && rounds > kMostRounds && rounds < INT32_MAX) return false;
  const size_t mark = n.scope().block->ops.size();
  for (int64_t i = 0; running && i < rounds; ++i) {
    if (i == kMostRounds) {
      n.scope().drop_from(mark);
      return false;
    }
    std::vector<OnnxOperand> inputs = {{n.constant(n.i(i)), OnnxType::int64, nullptr},
                                       {n.constant(n.flag(true)), OnnxType::boolean, nullptr}};
    inputs.insert(inputs.end(), state.begin(), state.end());
    std::vector<OnnxOperand> outs = round(n, body, inputs);
    const auto next = known_ints(outs[0].value);
    if (!next) {
      n.scope().drop_from(mark);
      return false;
    }
    running = next->at(0) != 0;
    for (size_t k = 0; k < carried; ++k) state[k] = outs[k + 1];
    for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(outs[1 + carried + k]);
  }
  for (size_t k = 0; k < carried; ++k) n.out_operand(k, state[k]);
  for (size_t k = 0; k < scans.size(); ++k) {
    if (!n.wants(carried + k)) continue;
    if (scans[k].empty()) throw n.refused("a loop without rounds whose scan outputs are used");
    n.out_operand(carried + k, OnnxOperand{stacked(n, scans[k], 0), scans[k][0].type, nullptr});
  }
  return true;
}

struct LoopParts {
  std::vector<Value*> start;      // loop variables before the first round
  std::vector<OnnxType> types;    // of the carried values
  std::vector<OnnxType> scanned;  // of the scan outputs
  size_t carried = 0;
};

// The body's block: round, condition, carried values, then one list per scan output.
void loop_body(OnnxCall& n, const OnnxGraph& body, Operation& op, LoopParts& parts,
               const std::vector<Type>& vars) {
  Block& block = *op.blocks[1];
  for (size_t k = 0; k < vars.size(); ++k)
    block.inputs.push_back(
        std::make_unique<Value>(Value{n.scope().builder->unique_name("loop_var"), vars[k], nullptr, {}}));
  Builder builder(*n.scope().builder, block);
  OnnxScope scope = inner_scope(n.scope());
  scope.builder = &builder;
  scope.block = &block;
  scope.names.emplace(body.inputs[0].name, OnnxOperand{block.inputs[0].get(), OnnxType::int64, nullptr});
  scope.names.emplace(body.inputs[1].name, OnnxOperand{block.inputs[1].get(), OnnxType::boolean, nullptr});
  for (size_t k = 0; k < parts.carried; ++k)
    scope.names.emplace(body.inputs[k + 2].name,
                        OnnxOperand{block.inputs[k + 2].get(), parts.types[k], nullptr});
  n.lowering().lower_graph(body, scope);
  std::vector<OnnxOperand> outs = outputs_of(n, body, scope);
  const auto own = [&](Value* v) { return builder.op("identity", {{"x", v}}, "next"); };
  block.outputs.push_back(
      builder.op("add", {{"x", block.inputs[0].get()}, {"y", Constant::integer(1)}}, "round"));
  Value* go = outs[0].value;
  if (go->type.rank()) go = builder.op("squeeze", {{"x", go}}, "go");
  block.outputs.push_back(own(go));
  for (size_t k = 0; k < parts.carried; ++k) block.outputs.push_back(own(outs[k + 1].value));
  for (size_t k = parts.carried; k + 1 < outs.size(); ++k) {
    Value* list = block.inputs[2 + k].get();
    block.outputs.push_back(
        builder.op("list_write",
                   {{"ls", list}, {"index", block.inputs[0].get()}, {"value", outs[k + 1].value}}, "scan"));
  }
}

void loop_condition(OnnxCall& n, Operation& op, const std::vector<Type>& vars, Value* most) {
  Block& block = *op.blocks[0];
  for (const Type& type : vars)
    block.inputs.push_back(
        std::make_unique<Value>(Value{n.scope().builder->unique_name("loop_var"), type, nullptr, {}}));
  Builder builder(*n.scope().builder, block);
  Value* go = nullptr;
  if (most) {
    Value* more = builder.op("less", {{"x", block.inputs[0].get()}, {"y", most}}, "more");
    go = builder.op("logical_and", {{"x", more}, {"y", block.inputs[1].get()}}, "go");
  } else {
    go = builder.op("identity", {{"x", block.inputs[1].get()}}, "go");
  }
  block.outputs.push_back(go);
}

// The types of scan outputs are found by writing one round to a block that is thrown away.
std::vector<OnnxOperand> trial(OnnxCall& n, const OnnxGraph& body, const LoopParts& parts, Block& block,
                               const std::vector<Type>& vars) {
  Builder builder(*n.scope().builder, block);
  OnnxScope scope = inner_scope(n.scope());
  scope.builder = &builder;
  scope.block = &block;
  for (size_t k = 0; k < vars.size(); ++k) {
    block.inputs.push_back(
        std::make_unique<Value>(Value{n.scope().builder->unique_name("trial"), vars[k], nullptr, {}}));
    const OnnxType type = k == 0 ? OnnxType::int64 : k == 1 ? OnnxType::boolean : parts.types[k - 2];
    scope.names.emplace(body.inputs[k].name, OnnxOperand{block.inputs[k].get(), type, nullptr});
  }
  n.lowering().lower_graph(body, scope);
  return outputs_of(n, body, scope);
}

void loop(OnnxCall& n) {
  const OnnxGraph* body = n.node.graph("body");
  if (!body) throw errorf("Loop needs a body");
  if (body->inputs.size() != std::max<size_t>(2, n.count()) || body->outputs.size() + 1 < body->inputs.size())
    throw errorf("the body of Loop has {} inputs and {} outputs", body->inputs.size(), body->outputs.size());
  if (unrolled_loop(n, *body)) return;
  LoopParts parts;
  parts.carried = body->inputs.size() - 2;
  parts.start = {n.constant(n.i(0)), n.has(1) ? scalar(n, n.in(1)) : n.constant(n.flag(true))};
  for (size_t k = 0; k < parts.carried; ++k) {
    parts.start.push_back(n.in(k + 2));
    parts.types.push_back(n.type(k + 2));
  }
  std::vector<Type> vars;
  for (const Value* v : parts.start) vars.push_back(v->type);
  Block scratch;
  const std::vector<OnnxOperand> outs = trial(n, *body, parts, scratch, vars);
  for (size_t k = parts.carried; k + 1 < outs.size(); ++k) {
    const OnnxOperand& out = outs[k + 1];
    parts.scanned.push_back(out.type);
    std::vector<Value*> sizes;
    for (const int64_t d : n.dims(out.value)) sizes.push_back(n.constant(n.i(d)));
    if (sizes.empty()) throw n.refused("a computed loop that collects scalars");
    Value* list = n.op("make_list", {{"init_length", n.i(1)},
                                     {"dynamic_length", n.flag(true)},
                                     {"elem_shape", sizes},
                                     {"dtype", n.text(dtype_name(out.value->type.dtype))}});
    parts.start.push_back(list);
    vars.push_back(list->type);
  }
  auto op = std::make_unique<Operation>();
  op->type = "while_loop";
  Input input{"loop_vars", {}, {}};
  for (Value* v : parts.start) input.bindings.push_back({v, nullptr, {}});
  op->inputs.push_back(std::move(input));
  op->blocks.push_back(std::make_unique<Block>());
  op->blocks.push_back(std::make_unique<Block>());
  loop_condition(n, *op, vars, n.has(0) ? scalar(n, n.in(0)) : nullptr);
  loop_body(n, *body, *op, parts, vars);
  const std::vector<Value*> values = append(n, std::move(op), n.node.output(0));
  for (size_t k = 0; k < parts.carried; ++k)
    n.out_operand(k, OnnxOperand{values[k + 2], parts.types[k], nullptr});
  for (size_t k = 0; k < parts.scanned.size(); ++k) {
    Value* rounds = n.op("range_1d", {{"end", values[0]}, {"start", n.i(0)}, {"step", n.i(1)}});
    Value* all = n.op("list_gather", {{"ls", values[2 + parts.carried + k]}, {"indices", rounds}});
    n.out_operand(parts.carried + k, OnnxOperand{all, parts.scanned[k], nullptr});
  }
}

// Version 8 has sequence_lens first and a batch dimension; from 9 on states come first.
void scan(OnnxCall& n) {
  const OnnxGraph* body = n.node.graph("body");
  if (!body) throw errorf("Scan needs a body");
  const bool old = n.node.version < 9;
  const size_t first = old ? 1 : 0;
  const auto scanned = static_cast<size_t>(n.node.integer("num_scan_inputs", 0));
  const size_t given = n.count() - first;
  if (scanned < 1 || scanned > given) throw errorf("num_scan_inputs is {}", scanned);
  const size_t carried = given - scanned, results = body->outputs.size() - carried;
  if (old && (n.has(0) || n.dims(n.in(first)).at(0) != 1))
    throw n.refused("Scan of version 8 with batches or lengths");
  const std::vector<int64_t> in_ways =
      n.node.integers(old ? "directions" : "scan_input_directions", std::vector<int64_t>(scanned, 0));
  const std::vector<int64_t> in_axes = n.node.integers("scan_input_axes", std::vector<int64_t>(scanned, 0));
  const std::vector<int64_t> out_ways =
      n.node.integers("scan_output_directions", std::vector<int64_t>(results, 0));
  const std::vector<int64_t> out_axes = n.node.integers("scan_output_axes", std::vector<int64_t>(results, 0));
  std::vector<OnnxOperand> state;
  for (size_t k = 0; k < carried; ++k) {
    OnnxOperand operand = n.operand(first + k);
    if (old) operand = OnnxOperand{n.squeeze(n.in(first + k), {0}), operand.type, nullptr};
    state.push_back(operand);
  }
  std::vector<Value*> sources;
  for (size_t k = 0; k < scanned; ++k) {
    Value* x = n.in(first + carried + k);
    sources.push_back(old ? n.squeeze(x, {0}) : x);
  }
  const int64_t rounds =
      n.dims(sources[0]).at(static_cast<size_t>(n.axis(in_axes[0], sources[0]->type.rank())));
  if (rounds > 4 * kMostRounds) throw n.refused(fmt::format("Scan over {} steps", rounds));
  std::vector<std::vector<OnnxOperand>> slices(results);
  for (int64_t i = 0; i < rounds; ++i) {
    std::vector<OnnxOperand> inputs = state;
    for (size_t k = 0; k < scanned; ++k) {
      const int64_t axis = n.axis(in_axes[k], sources[k]->type.rank()), at = in_ways[k] ? rounds - 1 - i : i;
      Value* part = n.squeeze(n.slice(sources[k], axis, at, at + 1), {axis});
      inputs.push_back({part, n.type(first + carried + k), nullptr});
    }
    std::vector<OnnxOperand> outs = round(n, *body, inputs);
    for (size_t k = 0; k < carried; ++k) state[k] = outs[k];
    for (size_t k = 0; k < results; ++k)
      slices[k].insert(out_ways[k] ? slices[k].begin() : slices[k].end(), outs[carried + k]);
  }
  const auto batch = [&](Value* v) { return old ? n.expand(v, {0}) : v; };
  for (size_t k = 0; k < carried; ++k) {
    if (old) state[k] = {batch(n.lowering().value(n.scope(), state[k], "state")), state[k].type, nullptr};
    n.out_operand(k, state[k]);
  }
  for (size_t k = 0; k < results; ++k) {
    const int64_t axis = n.axis(out_axes[k], slices[k].at(0).value->type.rank() + 1);
    n.out_operand(carried + k, {batch(stacked(n, slices[k], axis)), slices[k][0].type, nullptr});
  }
}

const OnnxOp kOps[] = {{"If", lower_if}, {"Loop", loop}, {"Scan", scan}};

}  // namespace

std::span<const OnnxOp> onnx_control() { return kOps; }

}  // namespace anemone::onnx_ops
