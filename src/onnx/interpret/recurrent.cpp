// LSTM, GRU and RNN, step by step.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// An activation with its two parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  double operator()(double x) const {
    if (name == "sigmoid") return sigmoid(x);
    if (name == "tanh") return std::tanh(x);
    if (name == "relu") return std::max(0.0, x);
    if (name == "affine") return alpha * x + beta;
    if (name == "leakyrelu") return x < 0 ? alpha * x : x;
    if (name == "thresholdedrelu") return x > alpha ? x : 0;
    if (name == "scaledtanh") return alpha * std::tanh(beta * x);
    if (name == "hardsigmoid") return std::clamp(alpha * x + beta, 0.0, 1.0);
    if (name == "elu") return x < 0 ? alpha * std::expm1(x) : x;
    if (name == "softsign") return x / (1 + std::fabs(x));
    if (name == "softplus") return x > 30 ? x : std::log1p(std::exp(x));
    throw errorf("the activation '{}' is not supported here", onnx_printable(name));
  }
};

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return out;
}

bool takes(const std::string& name, bool second) {
  if (name == "affine" || name == "scaledtanh" || name == "hardsigmoid") return true;
  return !second && (name == "leakyrelu" || name == "thresholdedrelu" || name == "elu");
}

// The activations of one direction. Their parameters are lists that only those who take one use up.
std::vector<Activation> activations_of(const Context& c, const std::vector<std::string>& usual,
                                       int64_t direction) {
  std::vector<std::string> names;
  if (const OnnxAttribute* given = c.node.attribute("activations"))
    for (const std::string_view name : given->texts) names.push_back(lowered(name));
  if (names.empty())
    for (int64_t d = 0; d <= direction; ++d) names.insert(names.end(), usual.begin(), usual.end());
  const std::vector<float> alphas = c.node.numbers("activation_alpha"),
                           betas = c.node.numbers("activation_beta");
  std::vector<Activation> all;
  size_t a = 0, b = 0;
  for (const std::string& name : names) {
    Activation f{name, 0, 0};
    f.alpha = name == "hardsigmoid" ? 0.2 : name == "leakyrelu" ? 0.01 : 1;
    f.beta = name == "hardsigmoid" ? 0.5 : name == "scaledtanh" ? 1 : 0;
    if (takes(name, false) && a < alphas.size()) f.alpha = static_cast<double>(alphas[a++]);
    if (takes(name, true) && b < betas.size()) f.beta = static_cast<double>(betas[b++]);
    all.push_back(f);
  }
  const size_t per = usual.size(), first = static_cast<size_t>(direction) * per;
  if (all.size() < first + per)
    throw errorf("{} activations are too few for {} directions", all.size(), direction + 1);
  return {all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(first + per)};
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

bool batch_first(const Context& c) { return c.node.integer("layout", 0) != 0; }

Sizes sizes_of(const Context& c, int64_t gates) {
  if (c[0].rank() != 3 || c[2].rank() != 3) throw errorf("X and R must have three dimensions");
  const bool turned = batch_first(c);
  const Sizes s{
      c[0].dims[turned ? 1 : 0], c[0].dims[turned ? 0 : 1], c[0].dims[2], c[2].dims[2], c[2].dims[0], gates};
  expect_dims(c, 1, {s.directions, gates * s.hidden, s.in});
  expect_dims(c, 2, {s.directions, gates * s.hidden, s.hidden});
  expect_dims(c, 3, {s.directions, 2 * gates * s.hidden});
  expect_dims(c, 4, {s.batch});
  for (const size_t start : {size_t{5}, size_t{6}})
    expect_dims(c, start,
                turned ? std::vector<int64_t>{s.batch, s.directions, s.hidden}
                       : std::vector<int64_t>{s.directions, s.batch, s.hidden});
  expect_dims(c, 7, {s.directions, 3 * s.hidden});
  return s;
}

// [a, b, c, …] as [b, a, c, …].
OnnxArray swapped(const OnnxArray& x) {
  std::vector<int64_t> dims = x.dims;
  std::swap(dims[0], dims[1]);
  OnnxArray y = made(x.type, dims);
  const int64_t width = x.size() / std::max<int64_t>(1, dims[0] * dims[1]);
  for (int64_t k = 0; k < x.size(); ++k) {
    const int64_t row = k / width, to = row % x.dims[1] * x.dims[0] + row / x.dims[1];
    y.data[static_cast<size_t>(to * width + k % width)] = x.data[static_cast<size_t>(k)];
  }
  return y;
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

// Calls step(d, x, h, c) for all steps in the order of each direction, and stores h.
template <class Step>
Arrays run(const Context& c, const Sizes& s, bool cell, Step step) {
  const bool turned = batch_first(c);
  const OnnxArray x = turned ? swapped(c[0]) : c[0];
  OnnxArray y = made(x.type, {s.steps, s.directions, s.batch, s.hidden});
  OnnxArray h = made(x.type, {s.directions, s.batch, s.hidden}), memory = h;
  if (c.has(5)) h.data = turned ? swapped(c[5]).data : c[5].data;
  if (cell && c.has(6)) memory.data = turned ? swapped(c[6]).data : c[6].data;
  const bool reverse = c.node.text("direction", "forward") == "reverse";
  const auto length = [&](int64_t b) {
    const auto given = c.has(4) ? whole(c[4].data[static_cast<size_t>(b)]) : s.steps;
    return std::clamp<int64_t>(given, 0, s.steps);
  };
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t t = 0; t < length(b); ++t) {
        const int64_t at = d == 1 || reverse ? length(b) - 1 - t : t;
        double* state = h.data.data() + (d * s.batch + b) * s.hidden;
        step(d, x.data.data() + (at * s.batch + b) * s.in, state,
             memory.data.data() + (d * s.batch + b) * s.hidden);
        std::copy_n(state, s.hidden, y.data.begin() + ((at * s.directions + d) * s.batch + b) * s.hidden);
      }
    }
  if (!turned) return {y, h, memory};
  // [steps, directions, batch, hidden] as [batch, steps, directions, hidden].
  OnnxArray first = made(x.type, {s.batch, s.steps, s.directions, s.hidden});
  size_t k = 0;
  each_place(first.dims, [&](const std::vector<int64_t>& at) {
    first.data[k++] =
        y.data[static_cast<size_t>(((at[1] * s.directions + at[2]) * s.batch + at[0]) * s.hidden + at[3])];
  });
  return {first, swapped(h), swapped(memory)};
}

// Cuts off what goes into an activation, where the node says so.
struct Clip {
  double most;
  explicit Clip(const Context& c) : most(static_cast<double>(c.node.number("clip", 0))) {}
  double operator()(double v) const { return most > 0 ? std::clamp(v, -most, most) : v; }
};

using Activations = std::vector<std::vector<Activation>>;

Activations all_activations(const Context& c, const Sizes& s, const std::vector<std::string>& usual) {
  Activations out;
  for (int64_t d = 0; d < s.directions; ++d) out.push_back(activations_of(c, usual, d));
  return out;
}

// Gates: input, output, forget, cell. The peepholes are in the order input, output, forget.
Arrays lstm(const Context& c) {
  const Sizes s = sizes_of(c, 4);
  const Activations acts = all_activations(c, s, {"sigmoid", "tanh", "tanh"});
  const bool coupled = c.node.integer("input_forget", 0) != 0;
  const Clip clip(c);
  return run(c, s, true, [&](int64_t d, const double* x, double* h, double* memory) {
    const std::vector<Activation>& f = acts[static_cast<size_t>(d)];
    const Products p = products(c, s, d, x, h);
    for (int64_t k = 0; k < s.hidden; ++k) {
      const auto gate = [&](int64_t g, int64_t peephole, double cell) {
        const auto at = static_cast<size_t>(g * s.hidden + k);
        const double seen =
            c.has(7) && peephole >= 0 ? c[7].data[static_cast<size_t>((d * 3 + peephole) * s.hidden + k)] : 0;
        return clip(p.w[at] + p.r[at] + seen * cell);
      };
      const double i = f[0](gate(0, 0, memory[k])), forget = coupled ? 1 - i : f[0](gate(2, 2, memory[k]));
      memory[k] = forget * memory[k] + i * f[1](gate(3, -1, 0));
      h[k] = f[0](gate(1, 1, memory[k])) * f[2](memory[k]);
    }
  });
}

// Gates: update, reset, hidden.
Arrays gru(const Context& c) {
  const Sizes s = sizes_of(c, 3);
  const Activations acts = all_activations(c, s, {"sigmoid", "tanh"});
  const bool after = c.node.integer("linear_before_reset", 0) != 0;
  const Clip clip(c);
  Arrays out = run(c, s, false, [&](int64_t d, const double* x, double* h, double*) {
    const std::vector<Activation>& f = acts[static_cast<size_t>(d)];
    const Products p = products(c, s, d, x, h);
    const auto at = [&](int64_t g, int64_t k) { return static_cast<size_t>(g * s.hidden + k); };
    std::vector<double> reset(static_cast<size_t>(s.hidden)), scaled(reset.size());
    for (int64_t k = 0; k < s.hidden; ++k) {
      reset[static_cast<size_t>(k)] = f[0](clip(p.w[at(1, k)] + p.r[at(1, k)]));
      scaled[static_cast<size_t>(k)] = reset[static_cast<size_t>(k)] * h[k];
    }
    const Products inner = after ? p : products(c, s, d, x, scaled.data());
    std::vector<double> next(reset.size());
    for (int64_t k = 0; k < s.hidden; ++k) {
      const double z = f[0](clip(p.w[at(0, k)] + p.r[at(0, k)]));
      const double r = after ? reset[static_cast<size_t>(k)] * p.r[at(2, k)] : inner.r[at(2, k)];
      next[static_cast<size_t>(k)] = (1 - z) * f[1](clip(p.w[at(2, k)] + r)) + z * h[k];
    }
    std::copy(next.begin(), next.end(), h);
  });
  out.pop_back();
  return out;
}

Arrays rnn(const Context& c) {
  const Sizes s = sizes_of(c, 1);
  const Activations acts = all_activations(c, s, {"tanh"});
  const Clip clip(c);
  Arrays out = run(c, s, false, [&](int64_t d, const double* x, double* h, double*) {
    const Products p = products(c, s, d, x, h);
    for (int64_t k = 0; k < s.hidden; ++k)
      h[k] = acts[static_cast<size_t>(d)][0](clip(p.w[static_cast<size_t>(k)] + p.r[static_cast<size_t>(k)]));
  });
  out.pop_back();
  return out;
}

}  // namespace

void add_recurrent(Table& t) {
  t["LSTM"] = lstm;
  t["GRU"] = gru;
  t["RNN"] = rnn;
}

}  // namespace anemone::interpret
