// What rnn, lstm and gru share: sizes and checks, activations, the products with the two weights.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mil/op.h"

namespace anemone::ops {

// Sizes of a recurrent layer: x [steps, batch, inputs], weight_ih [gates * hidden, inputs], weight_hh
// [gates * hidden, hidden], states [batch, directions * hidden].
struct Recurrence {
  Dim steps, batch;
  int64_t hidden = 0;
  int gates = 1, directions = 1;
};

// Checks the parameters that all three have.
Recurrence check_recurrence(const OpCall& c, int gates, bool may_be_bidirectional);
// Error unless the parameter, where given, is a vector of that size.
void check_vector(const OpCall& c, std::string_view param, int64_t size);
// Type of the sequence of states, and of the last one.
Types recurrence_types(const OpCall& c, const Recurrence& r, int states);

using Activation = float (*)(float);
// By name, in any case; Error on an unknown one.
Activation activation(std::string_view name);

// One direction of a layer at run time. Steps are taken in order; `time(step)` is the row of x that a step
// reads.
class Direction {
 public:
  // `suffix`: "" or "_back", of the parameters of this direction; `bias`: of the gates, may be empty.
  Direction(const OpCall& c, const Recurrence& r, bool reversed, std::string_view suffix, const float* bias);

  int64_t steps() const { return steps_; }
  int64_t time(int64_t step) const { return reversed_ ? steps_ - 1 - step : step; }
  // W_ih x + bias of a step: batch rows of gates * hidden.
  const float* input(int64_t step) const { return input_.data() + time(step) * batch_ * width_; }
  // out [batch, hidden] = h [batch, hidden] times the rows of weight_hh of one gate, transposed.
  void recur(const float* h, int gate, float* out) const;

 private:
  const OpCall& c_;
  bool reversed_;
  const float* weight_hh_;
  int64_t steps_, batch_, hidden_, width_;
  std::vector<float> input_;
};

// A direction's part of a state [batch, directions * hidden], copied out and in.
void copy_state(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t batch,
                int64_t hidden);

}  // namespace anemone::ops
