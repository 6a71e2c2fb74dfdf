// MLPs, told apart by what they compute between their projections.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

constexpr double kPi = 3.14159265358979323846;

double activated(Activation kind, double v) {
  switch (kind) {
    case Activation::silu: return v / (1 + std::exp(-v));
    case Activation::gelu: return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * v * (1 + std::tanh(std::sqrt(2 / kPi) * (v + 0.044715 * v * v * v)));
  }
  return 0;
}

// The projections that a value is made of by elementwise operators; nothing where there is anything else.
std::optional<std::vector<Linear>> origins_of(Context& c, ValueId value) {
  std::vector<Linear> out;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (v == kNone || !seen.insert(v).second || c.graph.constant(v)) continue;
    if (std::optional<Linear> linear = match_linear(c, v)) {
      out.push_back(std::move(*linear));
      continue;
    }
    const Op* op = c.graph.producer(v);
    if (!op || op->type == "Softmax" || op->type.ends_with("Attention") || op->type == "MatMul" ||
        seen.size() > 64)
      return std::nullopt;
    if (op->type == "Shape") continue;
    for (const ValueId in : op->inputs) open.push_back(in);
  }
  return out;
}

double probe_at(int64_t i, double shift) { return 4 * std::sin(0.37 * static_cast<double>(i) + shift); }

// Which rows of the projections are gate and up; no up: a plain MLP.
struct Form {
  const Linear* gate = nullptr;
  const Linear* up = nullptr;
  int64_t gate_row = 0, up_row = 0;
  bool turns = false;  // rows of gate and up in turns
  Activation activation = Activation::silu;
};

std::vector<Form> forms_of(const std::vector<Linear>& origins, int64_t width) {
  std::vector<Form> out;
  for (const Activation a : {Activation::silu, Activation::gelu_tanh, Activation::gelu}) {
    if (origins.size() == 2 && origins[0].rows() == width && origins[1].rows() == width) {
      out.push_back({&origins[0], &origins[1], 0, 0, false, a});
      out.push_back({&origins[1], &origins[0], 0, 0, false, a});
    } else if (origins.size() == 1 && origins[0].rows() == 2 * width) {
      out.push_back({&origins[0], &origins[0], 0, width, false, a});
      out.push_back({&origins[0], &origins[0], width, 0, false, a});
      out.push_back({&origins[0], &origins[0], 0, width, true, a});
    } else if (origins.size() == 1 && origins[0].rows() == width) {
      out.push_back({&origins[0], nullptr, 0, 0, false, a});
    }
  }
  return out;
}

double fault_of(const Form& form, const std::vector<Linear>& origins, const Array& inner) {
  double worst = 0;
  const auto width = inner.size();
  const auto shift = [&](const Linear* l) { return l == &origins[0] ? 0.0 : 1.3; };
  for (int64_t i = 0; i < width; ++i) {
    const int64_t g = form.turns ? 2 * i : form.gate_row + i, u = form.turns ? 2 * i + 1 : form.up_row + i;
    double y = activated(form.activation, probe_at(g, shift(form.gate)));
    if (form.up) y *= probe_at(u, shift(form.up));
    worst = std::max(worst, std::abs(y - inner.data[static_cast<size_t>(i)]));
  }
  return worst;
}

}  // namespace

std::optional<FoundBlock> match_mlp(Context& c, const Linear& down) {
  const std::optional<std::vector<Linear>> origins = origins_of(c, down.input);
  if (!origins || origins->empty() || origins->size() > 2) return std::nullopt;
  const int64_t width = down.projection.weight.columns;
  Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
  for (const Linear& origin : *origins) {
    Array probe = Array::filled({1, 1, origin.rows()}, 0);
    for (int64_t i = 0; i < origin.rows(); ++i)
      probe.data[static_cast<size_t>(i)] = probe_at(i, &origin == &(*origins)[0] ? 0 : 1.3);
    e.set(origin.output, std::move(probe));
  }
  const Array& inner = e.value(down.input);
  if (inner.size() != width) return std::nullopt;
  const std::vector<Form> forms = forms_of(*origins, width);
  const Form* best = nullptr;
  double least = 5e-3;  // gelu and its approximation are 2e-3 apart here, times a factor of up to 4
  for (const Form& form : forms)
    if (const double fault = fault_of(form, *origins, inner); fault < least) best = &form, least = fault;
  if (!best || least > 2e-3) {
    const Op* op = c.graph.producer(c.graph.through(down.input));
    throw c.graph.unexpected(*op, "an MLP with silu or gelu, gated or not, before its last projection");
  }
  e.claim(c.graph);
  const ValueId input = (*origins)[0].input;
  for (const Linear& origin : *origins)
    if (origin.input != input) throw c.graph.unexpected(origin.output, "a gate and an up of the same value");
  if (!best->up) {
    PlainMlp mlp;
    mlp.width = width;
    mlp.activation = best->activation;
    mlp.up = best->gate->projection;
    mlp.down = down.projection;
    return FoundBlock{input, mlp};
  }
  GatedMlp mlp;
  mlp.width = width;
  mlp.activation = best->activation;
  mlp.gate = part_of(best->gate->projection, best->gate_row, width, best->turns ? 2 * width : 0);
  mlp.up = part_of(best->up->projection, best->up_row, width, best->turns ? 2 * width : 0);
  mlp.down = down.projection;
  return FoundBlock{input, mlp};
}

}  // namespace anemone::recover
