// LSTM, GRU and RNN. The usual LSTM with known weights is Core ML's own; everything else is written out step by step.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

struct Layer {
  int64_t gates = 1, hidden = 1, steps = 1, batch = 1, directions = 1;
  std::string direction = "forward";
  std::vector<std::string> activations;
  std::vector<float> alpha, beta;
  float clip = 0;
  bool batch_first = false;
};

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

// The parameters are lists in order, and only activations that take one use an entry up.
void set_parameters(OnnxCall& n, Layer& l) {
  const std::vector<float> alphas = n.node.numbers("activation_alpha"),
                           betas = n.node.numbers("activation_beta");
  size_t a = 0, b = 0;
  for (const std::string& name : l.activations) {
    const bool both = name == "affine" || name == "scaledtanh" || name == "hardsigmoid";
    const bool one = both || name == "leakyrelu" || name == "thresholdedrelu" || name == "elu";
    const float alpha = name == "leakyrelu" ? 0.01f : name == "hardsigmoid" ? 0.2f : 1.0f;
    l.alpha.push_back(one && a < alphas.size() ? alphas[a++] : alpha);
    l.beta.push_back(both && b < betas.size() ? betas[b++]
                     : name == "hardsigmoid"  ? 0.5f
                     : name == "scaledtanh"   ? 1.0f
                                              : 0.0f);
  }
}

Layer layer_of(OnnxCall& n, int64_t gates, std::vector<std::string> usual) {
  Layer l;
  l.gates = gates;
  l.batch_first = n.node.integer("layout", 0) != 0;
  const std::vector<int64_t> x = n.dims(n.in(0)), r = n.dims(n.in(2));
  l.steps = x.at(l.batch_first ? 1 : 0);
  l.batch = x.at(l.batch_first ? 0 : 1);
  l.hidden = r.at(2);
  l.direction = std::string(n.node.text("direction", "forward"));
  l.directions = l.direction == "bidirectional" ? 2 : 1;
  if (r.at(0) != l.directions || r.at(1) != gates * l.hidden)
    throw errorf("the weights do not fit direction and hidden_size");
  l.clip = n.node.number("clip", 0);
  if (const OnnxAttribute* given = n.node.attribute("activations"); given && !given->texts.empty())
    for (const std::string_view name : given->texts) l.activations.push_back(lowered(name));
  while (l.activations.size() < usual.size() * static_cast<size_t>(l.directions))
    l.activations.push_back(usual[l.activations.size() % usual.size()]);
  set_parameters(n, l);
  return l;
}

Value* activate(OnnxCall& n, const Layer& l, size_t at, Value* x) {
  const std::string& name = l.activations.at(at);
  const float alpha = l.alpha.at(at), beta = l.beta.at(at);
  if (name == "sigmoid" || name == "tanh" || name == "relu" || name == "softsign" || name == "softplus")
    return n.unary(name, x);
  if (name == "hardsigmoid")
    return n.op("sigmoid_hard", {{"x", x}, {"alpha", n.f(alpha)}, {"beta", n.f(beta)}});
  if (name == "leakyrelu") return n.op("leaky_relu", {{"x", x}, {"alpha", n.f(alpha)}});
  if (name == "elu") return n.op("elu", {{"x", x}, {"alpha", n.f(alpha)}});
  if (name == "affine") return n.add(n.mul(x, n.f(alpha)), n.f(beta));
  if (name == "scaledtanh") return n.mul(n.unary("tanh", n.mul(x, n.f(beta))), n.f(alpha));
  if (name == "thresholdedrelu") return n.op("thresholded_relu", {{"x", x}, {"alpha", n.f(alpha)}});
  throw n.refused(fmt::format("the activation '{}'", onnx_printable(name)));
}

Value* clipped(OnnxCall& n, const Layer& l, Value* x) {
  if (l.clip <= 0) return x;
  return n.op("clip", {{"x", x}, {"alpha", n.f(-l.clip)}, {"beta", n.f(l.clip)}});
}

// One direction's part of an input [directions, …].
Value* of_direction(OnnxCall& n, Value* v, int64_t d) { return n.squeeze(n.slice(v, 0, d, d + 1), {0}); }

Value* gate(OnnxCall& n, const Layer& l, Value* all, int64_t k) {
  return n.slice(all, all->type.rank() - 1, k * l.hidden, (k + 1) * l.hidden);
}

// What a step works with: x W^T + biases for all gates [batch, gates * hidden], R, and the states.
struct Cell {
  Value *w, *r, *bias_w, *bias_r, *peephole;
  size_t first;  // of its activations
};

struct States {
  Value *h, *c;
};

Value* plus(OnnxCall& n, Value* a, Value* b) { return b ? n.add(a, b) : a; }

States lstm_step(OnnxCall& n, const Layer& l, const Cell& cell, Value* x, States s) {
  const bool coupled = n.node.integer("input_forget", 0) != 0;
  Value* all = n.add(plus(n, n.matmul(x, cell.w, false, true), cell.bias_w),
                     plus(n, n.matmul(s.h, cell.r, false, true), cell.bias_r));
  const auto peep = [&](Value* v, int64_t k, Value* c) {
    return cell.peephole ? n.add(v, n.mul(n.slice(cell.peephole, 0, k * l.hidden, (k + 1) * l.hidden), c))
                         : v;
  };
  const size_t f = cell.first;
  Value* i = activate(n, l, f, clipped(n, l, peep(gate(n, l, all, 0), 0, s.c)));
  Value* forget =
      coupled ? n.sub(n.f(1), i) : activate(n, l, f, clipped(n, l, peep(gate(n, l, all, 2), 2, s.c)));
  Value* candidate = activate(n, l, f + 1, clipped(n, l, gate(n, l, all, 3)));
  Value* c = n.add(n.mul(forget, s.c), n.mul(i, candidate));
  Value* o = activate(n, l, f, clipped(n, l, peep(gate(n, l, all, 1), 1, c)));
  return {n.mul(o, activate(n, l, f + 2, c)), c};
}

States gru_step(OnnxCall& n, const Layer& l, const Cell& cell, Value* x, States s) {
  Value* in = plus(n, n.matmul(x, cell.w, false, true), cell.bias_w);
  const auto recurrent = [&](Value* h, int64_t k) {
    Value* r = n.slice(cell.r, 0, k * l.hidden, (k + 1) * l.hidden);
    Value* b = cell.bias_r ? n.slice(cell.bias_r, 0, k * l.hidden, (k + 1) * l.hidden) : nullptr;
    return plus(n, n.matmul(h, r, false, true), b);
  };
  Value* z = activate(n, l, cell.first, clipped(n, l, n.add(gate(n, l, in, 0), recurrent(s.h, 0))));
  Value* r = activate(n, l, cell.first, clipped(n, l, n.add(gate(n, l, in, 1), recurrent(s.h, 1))));
  const bool after = n.node.integer("linear_before_reset", 0) != 0;
  Value* inner = after ? n.mul(r, recurrent(s.h, 2)) : recurrent(n.mul(r, s.h), 2);
  Value* fresh = activate(n, l, cell.first + 1, clipped(n, l, n.add(gate(n, l, in, 2), inner)));
  return {n.add(n.mul(n.sub(n.f(1), z), fresh), n.mul(z, s.h)), nullptr};
}

States rnn_step(OnnxCall& n, const Layer& l, const Cell& cell, Value* x, States s) {
  Value* all = n.add(plus(n, n.matmul(x, cell.w, false, true), cell.bias_w),
                     plus(n, n.matmul(s.h, cell.r, false, true), cell.bias_r));
  return {activate(n, l, cell.first, clipped(n, l, all)), nullptr};
}

using StepFn = States (*)(OnnxCall&, const Layer&, const Cell&, Value*, States);

struct Run {
  Value* y;  // [steps, batch, hidden]
  States last;
};

Run run_direction(OnnxCall& n, const Layer& l, StepFn step, Value* x, int64_t d, Cell cell, States s) {
  const bool backward = l.direction == "reverse" || d == 1;
  Value* lengths = n.has(4) ? n.in(4) : nullptr;
  const auto turned = [&](Value* v) {
    if (!backward) return v;
    if (!lengths) return n.op("reverse", {{"x", v}, {"axes", Constant::ints({0})}});
    return n.op("reverse_sequence",
                {{"x", v}, {"lengths", lengths}, {"seq_axis", n.i(0)}, {"batch_axis", n.i(1)}});
  };
  x = turned(x);
  std::vector<Value*> rows;
  for (int64_t t = 0; t < l.steps; ++t) {
    Value* here = n.squeeze(n.slice(x, 0, t, t + 1), {0});
    const States next = step(n, l, cell, here, s);
    if (lengths) {
      Value* active = n.reshape(n.op("greater", {{"x", lengths}, {"y", n.i(t)}}), {l.batch, 1});
      rows.push_back(n.select(active, next.h, n.f(0)));
      s.h = n.select(active, next.h, s.h);
      if (next.c) s.c = n.select(active, next.c, s.c);
    } else {
      rows.push_back(next.h);
      s = next;
    }
    rows.back() = n.expand(rows.back(), {0});
  }
  return {turned(n.concat(rows, 0)), s};
}

// Inputs: X, W, R, B, sequence_lens, initial_h, and for LSTM initial_c and P.
void written_out(OnnxCall& n, const Layer& l, StepFn step, size_t activations_each, bool has_cell) {
  Value* x = n.in(0);
  if (l.batch_first) x = n.transpose(x, {1, 0, 2});
  std::vector<Value*> ys, hs, cs;
  for (int64_t d = 0; d < l.directions; ++d) {
    Cell cell{of_direction(n, n.in(1), d),
              of_direction(n, n.in(2), d),
              nullptr,
              nullptr,
              nullptr,
              static_cast<size_t>(d) * activations_each};
    if (n.has(3)) {
      Value* both = of_direction(n, n.in(3), d);
      const int64_t half = l.gates * l.hidden;
      cell.bias_w = n.slice(both, 0, 0, half);
      cell.bias_r = n.slice(both, 0, half, 2 * half);
    }
    if (has_cell && n.has(7)) cell.peephole = of_direction(n, n.in(7), d);
    const auto start = [&](size_t input) {
      if (!n.has(input)) return n.filled({l.batch, l.hidden}, 0, DType::fp32);
      Value* v = n.in(input);
      if (l.batch_first) v = n.transpose(v, {1, 0, 2});
      return of_direction(n, v, d);
    };
    const Run run = run_direction(n, l, step, x, d, cell, {start(5), has_cell ? start(6) : nullptr});
    ys.push_back(n.expand(run.y, {1}));  // [steps, 1, batch, hidden]
    hs.push_back(n.expand(run.last.h, {0}));
    if (has_cell) cs.push_back(n.expand(run.last.c, {0}));
  }
  const auto state = [&](const std::vector<Value*>& parts) {
    Value* v = n.concat(parts, 0);
    return l.batch_first ? n.transpose(v, {1, 0, 2}) : v;
  };
  Value* y = n.concat(ys, 1);
  if (l.batch_first) y = n.transpose(y, {2, 0, 1, 3});
  if (n.wants(0)) n.out(0, y, n.type(0));
  if (n.wants(1)) n.out(1, state(hs), n.type(0));
  if (has_cell && n.wants(2)) n.out(2, state(cs), n.type(0));
}

// ONNX's gates are i, o, f, c; MIL's i, f, o, c. Rows [4 * hidden, …] of one direction.
Value* reordered(OnnxCall& n, const Layer& l, Value* v) {
  const auto part = [&](int64_t k) { return n.slice(v, 0, k * l.hidden, (k + 1) * l.hidden); };
  std::vector<Value*> parts;
  for (const int64_t k : {0, 2, 1, 3}) parts.push_back(part(k));
  return n.concat(parts, 0);
}

bool usual_lstm(OnnxCall& n, const Layer& l) {
  const bool known = n.in(1)->constant() && n.in(2)->constant() && (!n.has(3) || n.in(3)->constant());
  const bool plain =
      l.activations == std::vector<std::string>{"sigmoid", "tanh", "tanh"} ||
      l.activations == std::vector<std::string>{"sigmoid", "tanh", "tanh", "sigmoid", "tanh", "tanh"};
  return known && plain && !n.has(4) && !n.has(7) && l.clip <= 0 && n.node.integer("input_forget", 0) == 0;
}

void core_ml_lstm(OnnxCall& n, const Layer& l) {
  Value* x = n.in(0);
  if (l.batch_first) x = n.transpose(x, {1, 0, 2});
  Value *w[2] = {}, *r[2] = {}, *b[2] = {};
  for (int64_t d = 0; d < l.directions; ++d) {
    w[d] = reordered(n, l, of_direction(n, n.in(1), d));
    r[d] = reordered(n, l, of_direction(n, n.in(2), d));
    if (!n.has(3)) continue;
    Value* both = of_direction(n, n.in(3), d);
    const int64_t half = 4 * l.hidden;
    b[d] = reordered(n, l, n.add(n.slice(both, 0, 0, half), n.slice(both, 0, half, 2 * half)));
  }
  const auto start = [&](size_t input) {
    if (!n.has(input)) return n.filled({l.batch, l.directions * l.hidden}, 0, DType::fp32);
    Value* v = l.batch_first ? n.in(input) : n.transpose(n.in(input), {1, 0, 2});
    return n.reshape(v, {l.batch, l.directions * l.hidden});
  };
  Value* h0 = start(5);
  Value* c0 = start(6);
  const std::vector<Value*> outs = n.ops("lstm", {{"x", x},
                                                  {"initial_h", h0},
                                                  {"initial_c", c0},
                                                  {"weight_ih", w[0]},
                                                  {"weight_hh", r[0]},
                                                  {"bias", b[0]},
                                                  {"weight_ih_back", w[1]},
                                                  {"weight_hh_back", r[1]},
                                                  {"bias_back", b[1]},
                                                  {"direction", n.text(l.direction)},
                                                  {"output_sequence", n.flag(true)}});
  if (n.wants(0)) {
    Value* y = n.reshape(outs[0], {l.steps, l.batch, l.directions, l.hidden});
    n.out(0, l.batch_first ? n.transpose(y, {1, 0, 2, 3}) : n.transpose(y, {0, 2, 1, 3}), n.type(0));
  }
  const auto state = [&](Value* v) {
    Value* y = n.reshape(v, {l.batch, l.directions, l.hidden});
    return l.batch_first ? y : n.transpose(y, {1, 0, 2});
  };
  if (n.wants(1)) n.out(1, state(outs[1]), n.type(0));
  if (n.wants(2)) n.out(2, state(outs[2]), n.type(0));
}

void lstm(OnnxCall& n) {
  const Layer l = layer_of(n, 4, {"sigmoid", "tanh", "tanh"});
  if (usual_lstm(n, l)) return core_ml_lstm(n, l);
  written_out(n, l, lstm_step, 3, true);
}

// ONNX's gates are z, r, h; MIL's r, h, z. Rows [3 * hidden, …] of one direction.
Value* gru_order(OnnxCall& n, const Layer& l, Value* v) {
  Value* z = n.slice(v, 0, 0, l.hidden);
  Value* rest = n.slice(v, 0, l.hidden, 3 * l.hidden);
  return n.concat({rest, z}, 0);
}

bool usual_gru(OnnxCall& n, const Layer& l) {
  const bool known = n.in(1)->constant() && n.in(2)->constant() && (!n.has(3) || n.in(3)->constant());
  for (size_t k = 0; k < l.activations.size(); ++k)
    if (l.activations[k] != (k % 2 ? "tanh" : "sigmoid")) return false;
  const bool after = n.node.integer("linear_before_reset", 0) != 0;
  return known && l.clip <= 0 && (!after || n.opset() >= Opset::ios18);
}

// Sequences of different lengths in one batch. Steps behind a sequence's end change nothing before it, so a layer runs
// over all of them, and what lies behind the end is taken away.
class Lengths {
 public:
  Lengths(OnnxCall& n, const Layer& l, Value* lengths) : n_(n), l_(l) {
    std::vector<int64_t> steps;
    for (int64_t t = 0; t < l.steps; ++t) steps.push_back(t);
    Value* step = n.int_values(steps, {l.steps, 1});
    length_ = n.reshape(lengths, {1, l.batch});
    active_ = n.op("less", {{"x", step}, {"y", length_}});
    lengths_ = lengths;
  }

  // [steps, batch, width] with each sequence turned around.
  Value* turned(Value* x) {
    return n_.op("reverse_sequence",
                 {{"x", x}, {"lengths", lengths_}, {"seq_axis", n_.i(0)}, {"batch_axis", n_.i(1)}});
  }
  Value* masked(Value* y) { return n_.select(n_.expand(active_, {2}), y, n_.f(0)); }
  // The state behind the last step of each sequence: [batch, width].
  Value* last(Value* y, Value* start) {
    Value* at = n_.op("maximum", {{"x", n_.sub(length_, n_.i(1))}, {"y", n_.i(0)}});
    Value* wide = n_.op("tile", {{"x", n_.expand(at, {2})}, {"reps", Constant::ints({1, 1, l_.hidden})}});
    Value* h = n_.squeeze(n_.op("gather_along_axis", {{"x", y}, {"indices", wide}, {"axis", n_.i(0)}}), {0});
    Value* any = n_.op("greater", {{"x", n_.reshape(length_, {l_.batch, 1})}, {"y", n_.i(0)}});
    return n_.select(any, h, start);
  }

 private:
  OnnxCall& n_;
  const Layer& l_;
  Value *lengths_ = nullptr, *length_ = nullptr, *active_ = nullptr;
};

// Core ML's own has one direction: the other one is the same over x turned around.
void core_ml_gru(OnnxCall& n, const Layer& l) {
  Value* x = n.in(0);
  if (l.batch_first) x = n.transpose(x, {1, 0, 2});
  const bool after = n.node.integer("linear_before_reset", 0) != 0;
  std::optional<Lengths> lengths;
  if (n.has(4)) lengths.emplace(n, l, n.in(4));
  std::vector<Value*> ys, hs;
  for (int64_t d = 0; d < l.directions; ++d) {
    const bool backward = l.direction == "reverse" || d == 1;
    const auto turned = [&](Value* v) {
      if (!backward) return v;
      return lengths ? lengths->turned(v) : n.op("reverse", {{"x", v}, {"axes", Constant::ints({0})}});
    };
    Value *bias = nullptr, *input_bias = nullptr;
    if (n.has(3)) {
      Value* both = of_direction(n, n.in(3), d);
      Value *w = n.slice(both, 0, 0, 3 * l.hidden), *r = n.slice(both, 0, 3 * l.hidden, 6 * l.hidden);
      bias = gru_order(n, l, after ? r : n.add(w, r));
      input_bias = after ? gru_order(n, l, w) : nullptr;
    }
    Value* start = n.filled({l.batch, l.hidden}, 0, DType::fp32);
    if (n.has(5)) start = of_direction(n, l.batch_first ? n.transpose(n.in(5), {1, 0, 2}) : n.in(5), d);
    Value* w = gru_order(n, l, of_direction(n, n.in(1), d));
    Value* r = gru_order(n, l, of_direction(n, n.in(2), d));
    const std::vector<Value*> outs =
        n.ops("gru", {{"x", turned(x)},
                      {"initial_h", start},
                      {"weight_ih", w},
                      {"weight_hh", r},
                      {"bias", bias},
                      {"input_bias", input_bias},
                      {"reset_after", after ? Arg(n.flag(true)) : Arg(static_cast<Value*>(nullptr))},
                      {"output_sequence", n.flag(true)}});
    Value* y = turned(outs[0]);
    ys.push_back(n.expand(lengths ? lengths->masked(y) : y, {1}));
    hs.push_back(n.expand(lengths ? lengths->last(outs[0], start) : outs[1], {0}));
  }
  Value* y = n.concat(ys, 1);
  Value* h = n.concat(hs, 0);
  if (n.wants(0)) n.out(0, l.batch_first ? n.transpose(y, {2, 0, 1, 3}) : y, n.type(0));
  if (n.wants(1)) n.out(1, l.batch_first ? n.transpose(h, {1, 0, 2}) : h, n.type(0));
}

void gru(OnnxCall& n) {
  const Layer l = layer_of(n, 3, {"sigmoid", "tanh"});
  if (usual_gru(n, l)) return core_ml_gru(n, l);
  written_out(n, l, gru_step, 2, false);
}

void rnn(OnnxCall& n) { written_out(n, layer_of(n, 1, {"tanh"}), rnn_step, 1, false); }

const OnnxOp kOps[] = {{"LSTM", lstm}, {"GRU", gru}, {"RNN", rnn}};

}  // namespace

std::span<const OnnxOp> onnx_recurrent() { return kOps; }

}  // namespace anemone::onnx_ops
