// LSTM and GRU with their usual activations, step by step.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void check_usual(const Context& c) {
  if (c.node.attribute("activations") || c.node.attribute("clip") || c.has(7) ||
      c.node.integer("layout", 0) || c.node.integer("input_forget", 0))
    throw errorf("this form of {} is not supported here", c.node.op);
}

struct Sizes {
  int64_t steps, batch, in, hidden, directions, gates;
};

void expect_dims(const Context& c, size_t input, const std::vector<int64_t>& wanted) {
  if (c.has(input) && c[input].dims != wanted)
    throw errorf("input {} has the wrong shape", input)
        .found(shape_text(c[input].dims))
        .expected(shape_text(wanted));
}

Sizes sizes_of(const Context& c, int64_t gates) {
  if (c[0].rank() != 3 || c[2].rank() != 3) throw errorf("X and R must have three dimensions");
  const Sizes s{c[0].dims[0], c[0].dims[1], c[0].dims[2], c[2].dims[2], c[2].dims[0], gates};
  expect_dims(c, 1, {s.directions, gates * s.hidden, s.in});
  expect_dims(c, 2, {s.directions, gates * s.hidden, s.hidden});
  expect_dims(c, 3, {s.directions, 2 * gates * s.hidden});
  expect_dims(c, 4, {s.batch});
  for (const size_t start : {size_t{5}, size_t{6}}) expect_dims(c, start, {s.directions, s.batch, s.hidden});
  return s;
}

// For one step of one entry of the batch: W x + Wb and R h + Rb, all gates.
struct Products {
  std::vector<double> w, r;
};

Products products(const Context& c, const Sizes& s, int64_t d, const double* x, const double* h) {
  const int64_t rows = s.gates * s.hidden;
  Products p{std::vector<double>(static_cast<size_t>(rows)), std::vector<double>(static_cast<size_t>(rows))};
  for (int64_t row = 0; row < rows; ++row) {
    double w = c.has(3) ? c[3].data[static_cast<size_t>(d * 2 * rows + row)] : 0;
    double r = c.has(3) ? c[3].data[static_cast<size_t>(d * 2 * rows + rows + row)] : 0;
    for (int64_t k = 0; k < s.in; ++k)
      w += c[1].data[static_cast<size_t>((d * rows + row) * s.in + k)] * x[k];
    for (int64_t k = 0; k < s.hidden; ++k)
      r += c[2].data[static_cast<size_t>((d * rows + row) * s.hidden + k)] * h[k];
    p.w[static_cast<size_t>(row)] = w;
    p.r[static_cast<size_t>(row)] = r;
  }
  return p;
}

// Calls step(d, batch entry, x, h, c) for all steps in the order of each direction, and stores h.
template <class Step>
Arrays run(const Context& c, const Sizes& s, bool cell, Step step) {
  OnnxArray y = made(c[0].type, {s.steps, s.directions, s.batch, s.hidden});
  OnnxArray h = made(c[0].type, {s.directions, s.batch, s.hidden}), memory = h;
  if (c.has(5)) h.data = c[5].data;
  if (cell && c.has(6)) memory.data = c[6].data;
  const bool reverse = c.node.text("direction", "forward") == "reverse";
  const auto length = [&](int64_t b) {
    const auto given = c.has(4) ? static_cast<int64_t>(c[4].data[static_cast<size_t>(b)]) : s.steps;
    return std::clamp<int64_t>(given, 0, s.steps);
  };
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t t = 0; t < length(b); ++t) {
        const int64_t at = d == 1 || reverse ? length(b) - 1 - t : t;
        double* state = h.data.data() + (d * s.batch + b) * s.hidden;
        step(d, c[0].data.data() + (at * s.batch + b) * s.in, state,
             memory.data.data() + (d * s.batch + b) * s.hidden);
        std::copy_n(state, s.hidden, y.data.begin() + ((at * s.directions + d) * s.batch + b) * s.hidden);
      }
    }
  return {y, h, memory};
}

Arrays lstm(const Context& c) {
  check_usual(c);
  const Sizes s = sizes_of(c, 4);
  return run(c, s, true, [&](int64_t d, const double* x, double* h, double* memory) {
    const Products p = products(c, s, d, x, h);
    for (int64_t k = 0; k < s.hidden; ++k) {
      const auto gate = [&](int64_t g) {
        return p.w[static_cast<size_t>(g * s.hidden + k)] + p.r[static_cast<size_t>(g * s.hidden + k)];
      };
      memory[k] = sigmoid(gate(2)) * memory[k] + sigmoid(gate(0)) * std::tanh(gate(3));
      h[k] = sigmoid(gate(1)) * std::tanh(memory[k]);
    }
  });
}

Arrays gru(const Context& c) {
  check_usual(c);
  const Sizes s = sizes_of(c, 3);
  const bool after = c.node.integer("linear_before_reset", 0) != 0;
  Arrays out = run(c, s, false, [&](int64_t d, const double* x, double* h, double*) {
    const Products p = products(c, s, d, x, h);
    const auto at = [&](int64_t g, int64_t k) { return static_cast<size_t>(g * s.hidden + k); };
    std::vector<double> reset(static_cast<size_t>(s.hidden)), scaled(reset.size());
    for (int64_t k = 0; k < s.hidden; ++k) {
      reset[static_cast<size_t>(k)] = sigmoid(p.w[at(1, k)] + p.r[at(1, k)]);
      scaled[static_cast<size_t>(k)] = reset[static_cast<size_t>(k)] * h[k];
    }
    const Products inner = after ? p : products(c, s, d, x, scaled.data());
    std::vector<double> next(reset.size());
    for (int64_t k = 0; k < s.hidden; ++k) {
      const double z = sigmoid(p.w[at(0, k)] + p.r[at(0, k)]);
      const double r = after ? reset[static_cast<size_t>(k)] * p.r[at(2, k)] : inner.r[at(2, k)];
      next[static_cast<size_t>(k)] = (1 - z) * std::tanh(p.w[at(2, k)] + r) + z * h[k];
    }
    std::copy(next.begin(), next.end(), h);
  });
  out.pop_back();
  return out;
}

}  // namespace

void add_recurrent(Table& t) {
  t["LSTM"] = lstm;
  t["GRU"] = gru;
}

}  // namespace anemone::interpret
