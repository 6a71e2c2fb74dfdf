// Recurrent layers over a sequence: rnn and gru. In reverse, steps run from the last element of x to the
// first and the outputs are in the order of the steps.
#include <algorithm>

#include "base/error.h"
#include "mil/recurrence.h"

namespace anemone::ops {
namespace {

// Writes a step's state into the sequence, or the last one alone.
void put(const OpCall& c, int64_t step, int64_t steps, const std::vector<float>& h) {
  const bool all = c.flag("output_sequence");
  if (all || step == steps - 1)
    std::copy(h.begin(), h.end(), c.out_floats() + (all ? step : 0) * static_cast<int64_t>(h.size()));
}

// The state after the last step is a second output; a sequence of no steps leaves it as it was.
void finish(const OpCall& c, const Direction& d, const std::vector<float>& h) {
  std::copy(h.begin(), h.end(), c.out_floats(1));
  if (d.steps() == 0 && !c.flag("output_sequence")) std::copy(h.begin(), h.end(), c.out_floats());
}

std::vector<float> initial(const OpCall& c, const Recurrence& r) {
  const float* h = c.floats("initial_h");
  return {h, h + r.batch.size() * r.hidden};
}

const float* optional_floats(const OpCall& c, std::string_view param) {
  return c.has(param) ? c.floats(param) : nullptr;
}

Types infer_rnn(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 1, false);
  activation(c.text("activation"));
  return recurrence_types(c, r, 1);
}

void run_rnn(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 1, false);
  const Activation act = activation(c.text("activation"));
  const Direction d(c, r, c.text("direction") == "reverse", "", optional_floats(c, "bias"));
  std::vector<float> h = initial(c, r), next(h.size());
  for (int64_t step = 0; step < d.steps(); ++step) {
    d.recur(h.data(), 0, next.data());
    const float* x = d.input(step);
    for (size_t i = 0; i < h.size(); ++i) h[i] = act(x[i] + next[i]);
    put(c, step, d.steps(), h);
  }
  finish(c, d, h);
}

Types infer_gru(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 3, false);
  check_vector(c, "input_bias", 3 * r.hidden);
  activation(c.text("activation"));
  activation(c.text("recurrent_activation"));
  return recurrence_types(c, r, 1);
}

// Gates in the order reset, output, update. The bias belongs to the recurrent product: with reset_after it is
// inside what the reset gate scales; otherwise the reset gate scales the state before that product.
void run_gru(const OpCall& c) {
  const Recurrence r = check_recurrence(c, 3, false);
  const Activation act = activation(c.text("activation")), gate = activation(c.text("recurrent_activation"));
  const bool reset_after = c.since() >= Opset::ios18 && c.flag("reset_after");
  const Direction d(c, r, c.text("direction") == "reverse", "", optional_floats(c, "input_bias"));
  const int64_t hidden = r.hidden, batch = r.batch.size();
  std::vector<float> bias(static_cast<size_t>(3 * hidden), 0.0f);
  if (c.has("bias")) std::copy_n(c.floats("bias"), bias.size(), bias.begin());
  std::vector<float> h = initial(c, r), reset(h.size()), update(h.size()), inner(h.size()), scaled(h.size());
  for (int64_t step = 0; step < d.steps(); ++step) {
    const float* x = d.input(step);
    d.recur(h.data(), 0, reset.data());
    d.recur(h.data(), 2, update.data());
    for (int64_t i = 0; i < batch * hidden; ++i) {
      const int64_t b = i / hidden, j = i % hidden;
      const float* in = x + b * 3 * hidden;
      const auto at = static_cast<size_t>(i);
      reset[at] = gate(in[j] + reset[at] + bias[static_cast<size_t>(j)]);
      update[at] = gate(in[2 * hidden + j] + update[at] + bias[static_cast<size_t>(2 * hidden + j)]);
      scaled[at] = reset[at] * h[at];
    }
    d.recur(reset_after ? h.data() : scaled.data(), 1, inner.data());
    for (int64_t i = 0; i < batch * hidden; ++i) {
      const int64_t b = i / hidden, j = i % hidden;
      const auto at = static_cast<size_t>(i);
      const float recurrent = inner[at] + bias[static_cast<size_t>(hidden + j)];
      const float out =
          act(x[b * 3 * hidden + hidden + j] + (reset_after ? reset[at] * recurrent : recurrent));
      h[at] = (1 - update[at]) * out + update[at] * h[at];
    }
    put(c, step, d.steps(), h);
  }
  finish(c, d, h);
}

// The parameters that both have, then those of the op itself.
std::vector<Param> params(DTypes types, std::vector<Param> more) {
  std::vector<Param> out = {{"x", types, 'T'},
                            {"initial_h", types, 'T'},
                            {"weight_ih", types, 'T', kConst | kStored},
                            {"weight_hh", types, 'T', kConst},
                            {"bias", types, 'T', kConst | kOptional},
                            {"direction", kString, 0, kConst | kOptional, "forward"},
                            {"output_sequence", kBool, 0, kConst | kOptional, false},
                            {"activation", kString, 0, kConst | kOptional, "tanh"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

const Param kGate{"recurrent_activation", kString, 0, kConst | kOptional, "sigmoid"};

const Op kOps[] = {
    {"rnn",
     {{Opset::ios15, params(kFp32, {})}, {Opset::ios17, params(kFloat, {})}},
     "h = activation(W_ih x + W_hh h + bias) along the first dimension of x",
     infer_rnn,
     run_rnn},
    {"gru",
     {{Opset::ios15, params(kFp32, {kGate})},
      {Opset::ios17, params(kFloat, {kGate})},
      {Opset::ios18, params(kFloat, {kGate,
                                     {"reset_after", kBool, 0, kConst | kOptional, false},
                                     {"input_bias", kFloat, 'T', kConst | kOptional}})}},
     "gated recurrent unit; gates in the order reset, output, update",
     infer_gru,
     run_gru},
};

}  // namespace

std::span<const Op> ops_recurrent() { return kOps; }

}  // namespace anemone::ops
