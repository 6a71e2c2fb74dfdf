// A convolution with what comes behind it: a sum with a value of the same shape, then a function of single elements.
// Sums go through both before they are stored. For fp32 and `fast` arithmetic; in fp16 each operation rounds.
#include <algorithm>
#include <optional>

#include "engine/convolution.h"
#include "engine/fast_weight.h"
#include "engine/kernel_choice.h"
#include "engine/op_kernels.h"
#include "engine/patterns.h"
#include "kernels/chains.h"
#include "kernels/pointwise.h"

namespace anemone {
namespace {

// In: x, then the bias and what is added, where they are.
class FusedConvolution : public FusedKernel {
 public:
  FusedConvolution(Convolution convolution, Activation then, int bias, int addend)
      : convolution_(std::move(convolution)), then_(std::move(then)), bias_(bias), addend_(addend) {}

  std::string_view name() const override { return "convolution"; }
  uint64_t held_bytes() const override { return convolution_.held_bytes(); }
  bool run(const FusedCall& c) const override {
    const auto input = [&](int i) { return i < 0 ? nullptr : c.floats(static_cast<size_t>(i)); };
    convolution_.run(c.pool(), c.floats(0), input(bias_), input(addend_), then_, c.out());
    return true;
  }

 private:
  const Convolution convolution_;
  const Activation then_;
  const int bias_, addend_;
};

std::optional<Activation> activation(PlanEdit& edit, int step) {
  const auto call = [&](auto f) { return edit.with_call(step, f); };
  const auto number = [&](const char* param) {
    return call([&](const OpCall& c) { return static_cast<float>(c.number(param)); });
  };
  if (edit.is(step, "relu")) return Activation{.low = 0};
  if (edit.is(step, "relu6")) return Activation{.low = 0, .high = 6};
  if (edit.is(step, "clip")) return Activation{.low = number("alpha"), .high = number("beta")};
  if (edit.is(step, "sigmoid")) return Activation{.map = map_sigmoid};
  if (edit.is(step, "tanh")) return Activation{.map = map_tanh};
  if (edit.is(step, "silu"))
    return Activation{.map = [](const float* x, int64_t n, float* out) { gate(x, nullptr, n, out); }};
  if (edit.is(step, "gelu")) {
    const GeluMode mode = call([](const OpCall& c) { return gelu_mode(c.text("mode")); });
    return Activation{.map = [mode](const float* x, int64_t n, float* out) { map_gelu(mode, x, n, out); }};
  }
  return std::nullopt;
}

class Convolutions {
 public:
  explicit Convolutions(PlanEdit& edit) : edit_(edit) {}

  void run() {
    for (int i = 0; i < edit_.size(); ++i)
      if (edit_.is(i, "conv") && fits(i)) apply(i);
  }

 private:
  struct Parts {
    std::vector<int> steps;
    Source add;
    Activation then;
    int last() const { return steps.back(); }
  };

  bool fits(int step) const {
    const OpBinding& b = edit_.binding(step);
    const Type& out = edit_.step(step).types[0];
    const Operand* weight = find_operand(b, "weight");
    if (!Convolution::takes(b) || out.size() == 0) return false;
    if (!weight->stored && !edit_.input(step, "weight").fixed) return false;  // it is computed
    if (edit_.input(step, "x").id < 0 || edit_.input(step, "bias").id >= 0) return false;
    const bool known = edit_.with_call(step, [](const OpCall& c) {
      for (const char* param : {"strides", "pad", "dilations", "groups"})
        if (c.has(param) && !c.known(param)) return false;
      return true;
    });
    return known && !is_projection(step, out, *weight);
  }

  // What projections are made for: sequences, a few positions, and weights that `fast` arithmetic takes.
  bool is_projection(int step, const Type& out, const Operand& weight) const {
    if (!is_conv1x1(edit_.binding(step), edit_.step(step).types)) return false;
    const int64_t rows = weight.type.shape[0].size(), k = weight.type.shape[1].size();
    for (int i = 2; i < out.rank(); ++i)
      if (out.dim(i) == Dim(1)) return true;
    if (out.rank() < 4 || out.size() / rows <= kMostPositions) return true;
    return edit_.fast() && FastWeight::make(weight.stored->layout(), rows, k);
  }

  int out(int step) const { return edit_.step(step).out[0]; }

  // The one step that looks at what `step` makes, with the same shape.
  int next(int step) const {
    const auto& users = edit_.users(out(step));
    if (users.size() != 1 || edit_.stays(out(step)) || edit_.step(users[0]).types.size() != 1) return -1;
    return edit_.step(users[0]).types[0].shape == edit_.step(step).types[0].shape ? users[0] : -1;
  }

  void match_sum(Parts& p) const {
    const int sum = next(p.last());
    if (!edit_.is(sum, "add")) return;
    const Shape& shape = edit_.step(sum).types[0].shape;
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")}) {
      const Source& other = edit_.input(sum, y);
      if (edit_.maker(edit_.input(sum, x)) != p.last() || other.id < 0 || edit_.maker(other) == p.last())
        continue;
      if (edit_.input_type(sum, x).shape != shape || edit_.input_type(sum, y).shape != shape) continue;
      p.add = other;
      p.steps.push_back(sum);
      return;
    }
  }

  void match_activation(Parts& p) const {
    if (match_hard_swish(p)) return;
    const int step = next(p.last());
    if (step < 0) return;
    if (const auto then = activation(edit_, step)) {
      p.then = *then;
      p.steps.push_back(step);
    }
  }

  // x * sigmoid_hard(x)
  bool match_hard_swish(Parts& p) const {
    const int id = out(p.last());
    const auto& users = edit_.users(id);
    if (users.size() != 2 || edit_.stays(id)) return false;
    const int part = users[0], product = users[1];
    if (!edit_.is(part, "sigmoid_hard") || !edit_.is(product, "mul") || next(part) != product) return false;
    const bool both = edit_.maker(edit_.input(product, "x")) == p.last() ||
                      edit_.maker(edit_.input(product, "y")) == p.last();
    if (!both || edit_.step(product).types[0].shape != edit_.step(p.last()).types[0].shape) return false;
    const auto [alpha, beta] = edit_.with_call(part, [](const OpCall& c) {
      return std::pair(static_cast<float>(c.number("alpha")), static_cast<float>(c.number("beta")));
    });
    p.then.map = [alpha = alpha, beta = beta](const float* x, int64_t n, float* to) {
      map_hard_swish(x, n, alpha, beta, to);
    };
    p.steps.insert(p.steps.end(), {part, product});
    return true;
  }

  void apply(int conv) {
    Parts p{.steps = {conv}};
    match_sum(p);
    match_activation(p);
    const int at = p.last();
    const Source x = edit_.input(conv, "x");
    if (edit_.changed_between(x.id, conv, at) ||
        (p.add.id >= 0 && edit_.changed_between(p.add.id, conv, at))) {
      p = Parts{.steps = {conv}};
    }
    Step step;
    step.in = {x};
    int bias = -1, addend = -1;
    if (const Source& source = edit_.input(conv, "bias"); source.fixed) {
      bias = static_cast<int>(step.in.size());
      step.in.push_back(source);
    }
    if (p.add.id >= 0) {
      addend = static_cast<int>(step.in.size());
      step.in.push_back(p.add);
    }
    auto convolution = edit_.with_call(
        conv, [&](const OpCall& c) { return Convolution(c, edit_.step(conv).types[0], true); });
    step.work =
        RunFused{std::make_shared<FusedConvolution>(std::move(convolution), std::move(p.then), bias, addend)};
    step.out = edit_.step(p.last()).out;
    step.types = edit_.step(p.last()).types;
    const int last = p.last();
    edit_.replace(p.steps, std::move(step), last);
  }

  PlanEdit& edit_;
};

}  // namespace

void fuse_convolutions(PlanEdit& edit) { Convolutions(edit).run(); }

}  // namespace anemone
