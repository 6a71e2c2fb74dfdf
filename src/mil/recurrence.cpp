#include "mil/recurrence.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "mil/matrix.h"

namespace anemone::ops {
namespace {

void check_matrix(const OpCall& c, const std::string& param, int64_t rows, Dim columns) {
  const Type& t = c.type(param);
  if (t.rank() != 2 || !t.dim(0).known() || t.dim(0).size() != rows ||
      (columns.known() && t.dim(1).known() && t.dim(1) != columns))
    throw errorf("'{}' has the wrong shape", param)
        .found(t.text())
        .expected(fmt::format("[{}, {}]", rows, columns.text()));
}

// A state with more rows than the batch is taken, the rest of it ignored: what coremltools writes for a
// packed sequence.
void check_state(const OpCall& c, const std::string& param, const Recurrence& r) {
  const Type& t = c.type(param);
  const Dim width = r.hidden * r.directions;
  if (t.rank() != 2 || (t.dim(0).known() && r.batch.known() && t.dim(0).size() < r.batch.size()) ||
      (t.dim(1).known() && t.dim(1) != width))
    throw errorf("'{}' has the wrong shape", param)
        .found(t.text())
        .expected(fmt::format("[{}, {}]", r.batch.text(), width.text()));
}

}  // namespace

void check_vector(const OpCall& c, std::string_view param, int64_t size) {
  if (!c.has(param)) return;
  const Type& t = c.type(param);
  if (t.rank() != 1 || t.dim(0) != Dim(size))
    throw errorf("'{}' has the wrong shape", param).found(t.text()).expected(fmt::format("[{}]", size));
}

Recurrence check_recurrence(const OpCall& c, int gates, bool may_be_bidirectional) {
  const Type& x = c.type("x");
  if (x.rank() != 3) throw errorf("'x' must be [steps, batch, inputs]").found(x.text());
  const std::string_view direction = c.text("direction");
  const bool both = direction == "bidirectional";
  if (direction != "forward" && direction != "reverse" && !(both && may_be_bidirectional))
    throw errorf("unknown direction '{}'", direction)
        .expected(may_be_bidirectional ? "forward, reverse or bidirectional" : "forward or reverse");
  const Type& hh = c.type("weight_hh");
  if (hh.rank() != 2 || !hh.dim(1).known() || hh.dim(1).size() > INT32_MAX)
    throw errorf("'weight_hh' must be a matrix").found(hh.text());
  Recurrence r{x.dim(0), x.dim(1), hh.dim(1).size(), gates, both ? 2 : 1};
  for (const char* suffix : {"", "_back"}) {
    if (*suffix && !both) break;
    const std::string s = suffix;
    check_matrix(c, "weight_ih" + s, gates * r.hidden, x.dim(2));
    check_matrix(c, "weight_hh" + s, gates * r.hidden, r.hidden);
    check_vector(c, "bias" + s, gates * r.hidden);
  }
  check_state(c, "initial_h", r);
  if (c.has("initial_c")) check_state(c, "initial_c", r);
  return r;
}

Types recurrence_types(const OpCall& c, const Recurrence& r, int states) {
  const DType dtype = c.type("x").dtype;
  const Dim width = r.hidden * r.directions;
  Types out = {Type::tensor(dtype, {c.flag("output_sequence") ? r.steps : Dim(1), r.batch, width})};
  for (int i = 0; i < states; ++i) out.push_back(Type::tensor(dtype, {r.batch, width}));
  return out;
}

Activation activation(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char ch) { return ch >= 'A' && ch <= 'Z' ? ch + 32 : ch; });
  // Scaled tanh has its default scales here, 1 and 1; the hard sigmoid has 0.2 and 0.5.
  if (lower == "tanh" || lower == "scaled_tanh") return [](float x) { return std::tanh(x); };
  if (lower == "sigmoid") return [](float x) { return 1 / (1 + std::exp(-x)); };
  if (lower == "hard_sigmoid" || lower == "sigmoid_hard")
    return [](float x) { return std::min(std::max(0.2f * x + 0.5f, 0.0f), 1.0f); };
  if (lower == "relu") return [](float x) { return std::max(x, 0.0f); };
  if (lower == "linear") return [](float x) { return x; };
  throw errorf("unknown activation '{}'", name)
      .expected("tanh, scaled_tanh, sigmoid, hard_sigmoid, relu or linear");
}

Direction::Direction(const OpCall& c, const Recurrence& r, bool reversed, std::string_view suffix,
                     const float* bias)
    : c_(c),
      reversed_(reversed),
      weight_hh_(c.floats("weight_hh" + std::string(suffix))),
      steps_(r.steps.size()),
      batch_(r.batch.size()),
      hidden_(r.hidden),
      width_(r.gates * r.hidden),
      input_(static_cast<size_t>(steps_ * batch_ * width_)) {
  const int64_t inputs = c.type("x").dim(2).size();
  multiply(c.pool(), {.m = steps_ * batch_,
                      .n = width_,
                      .k = inputs,
                      .a = {c.tiles("x"), 0, inputs, 1},
                      .b = {c.tiles("weight_ih" + std::string(suffix)), 0, 1, inputs},
                      .out = input_.data(),
                      .bias = bias});
}

void Direction::recur(const float* h, int gate, float* out) const {
  multiply(c_.pool(), {.m = batch_,
                       .n = hidden_,
                       .k = hidden_,
                       .a = {Tiles(nullptr, h), 0, hidden_, 1},
                       .b = {Tiles(nullptr, weight_hh_), gate * hidden_ * hidden_, 1, hidden_},
                       .out = out});
}

void copy_state(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t batch,
                int64_t hidden) {
  for (int64_t b = 0; b < batch; ++b) std::copy_n(from + b * from_stride, hidden, to + b * to_stride);
}

}  // namespace anemone::ops
