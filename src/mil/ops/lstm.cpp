// Long short-term memory, in one direction or both. In reverse, the outputs are in the order of the steps; of
// both directions, those of the second stand at the element of x that they belong to.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "mil/recurrence.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 4, true);
  check_vector(c, "peephole", 3 * r.hidden);
  if (r.directions == 2) check_vector(c, "peephole_back", 3 * r.hidden);
  for (const char* param : {"recurrent_activation", "cell_activation", "activation"})
    activation(c.text(param));
  return recurrence_types(c, r, 2);
}

struct Activations {
  Activation gate, cell, out;
  std::optional<float> clip;
};

// One step of one direction: gates in the order input, forget, output, cell. `sums` holds the four recurrent
// products, one after the other. The input and forget gates look at the old cell, the output gate at the new
// one.
void step_cells(const float* x, const float* sums, const float* peephole, const Activations& a, int64_t batch,
                int64_t hidden, float* h, float* cell) {
  const int64_t all = batch * hidden;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t j = i % hidden;
    const float* in = x + i / hidden * 4 * hidden;
    const auto gate = [&](int g, float state) {
      const float peep = peephole && g < 3 ? state * peephole[g * hidden + j] : 0.0f;
      return in[g * hidden + j] + sums[g * all + i] + peep;
    };
    const float input = a.gate(gate(0, cell[i])), forget = a.gate(gate(1, cell[i]));
    cell[i] = forget * cell[i] + input * a.cell(gate(3, 0));
    if (a.clip) cell[i] = std::clamp(cell[i], -*a.clip, *a.clip);
    h[i] = a.gate(gate(2, cell[i])) * a.out(cell[i]);
  }
}

void run_direction(const OpCall& c, const Recurrence& r, int index, const Activations& a) {
  const std::string suffix = index ? "_back" : "";
  const bool both = r.directions == 2, sequence = c.flag("output_sequence");
  const bool reversed = index || c.text("direction") == "reverse";
  const auto floats = [&](const std::string& param) { return c.has(param) ? c.floats(param) : nullptr; };
  const Direction d(c, r, reversed, suffix, floats("bias" + suffix));
  const int64_t batch = r.batch.size(), hidden = r.hidden, width = hidden * r.directions, at = index * hidden;
  std::vector<float> h(static_cast<size_t>(batch * hidden)), cell(h.size()), sums(4 * h.size());
  copy_state(c.floats("initial_h") + at, width, h.data(), hidden, batch, hidden);
  copy_state(c.floats("initial_c") + at, width, cell.data(), hidden, batch, hidden);
  for (int64_t step = 0; step < d.steps(); ++step) {
    for (int gate = 0; gate < 4; ++gate) d.recur(h.data(), gate, sums.data() + gate * batch * hidden);
    step_cells(d.input(step), sums.data(), floats("peephole" + suffix), a, batch, hidden, h.data(),
               cell.data());
    const int64_t row = both ? d.time(step) : step;
    if (sequence)
      copy_state(h.data(), hidden, c.out_floats() + row * batch * width + at, width, batch, hidden);
  }
  if (!sequence) copy_state(h.data(), hidden, c.out_floats() + at, width, batch, hidden);
  copy_state(h.data(), hidden, c.out_floats(1) + at, width, batch, hidden);
  copy_state(cell.data(), hidden, c.out_floats(2) + at, width, batch, hidden);
}

void run(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 4, true);
  Activations a{activation(c.text("recurrent_activation")), activation(c.text("cell_activation")),
                activation(c.text("activation")), std::nullopt};
  if (c.has("clip")) {
    a.clip = static_cast<float>(c.number("clip"));
    if (!(*a.clip >= 0)) throw errorf("'clip' must not be negative").found(fmt::format("{}", *a.clip));
  }
  for (int i = 0; i < r.directions; ++i) run_direction(c, r, i, a);
}

std::vector<Param> params(DTypes types) {
  return {{"x", types, 'T'},
          {"initial_h", types, 'T'},
          {"initial_c", types, 'T'},
          {"weight_ih", types, 'T', kConst | kStored},
          {"weight_hh", types, 'T', kConst},
          {"bias", types, 'T', kConst | kOptional},
          {"peephole", types, 'T', kConst | kOptional},
          {"weight_ih_back", types, 'T', kConst | kOptional | kStored},
          {"weight_hh_back", types, 'T', kConst | kOptional},
          {"bias_back", types, 'T', kConst | kOptional},
          {"peephole_back", types, 'T', kConst | kOptional},
          {"direction", kString, 0, kConst | kOptional, "forward"},
          {"output_sequence", kBool, 0, kConst | kOptional, false},
          {"recurrent_activation", kString, 0, kConst | kOptional, "sigmoid"},
          {"cell_activation", kString, 0, kConst | kOptional, "tanh"},
          {"activation", kString, 0, kConst | kOptional, "tanh"},
          {"clip", types, 'T', kConst | kOptional}};
}

const Op kOps[] = {{"lstm",
                    {{Opset::ios15, params(kFp32)}, {Opset::ios17, params(kFloat)}},
                    "long short-term memory; gates in the order input, forget, output, cell",
                    infer,
                    run}};

}  // namespace

std::span<const Op> ops_lstm() { return kOps; }

}  // namespace anemone::ops
