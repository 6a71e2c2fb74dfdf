// A convolution with what comes behind it: a sum with a value of the same shape, then a function of single elements.
// Sums go through both before they are stored. A 1 x 1 convolution and a depthwise one behind it run as one step. For
// fp32 and `fast` arithmetic; in fp16 each operation rounds.
#include <algorithm>
#include <optional>

#include "engine/convolution.h"
#include "engine/fast_weight.h"
#include "engine/kernel_choice.h"
#include "engine/op_kernels.h"
#include "engine/patterns.h"
#include "engine/widened_planes.h"
#include "kernels/chains.h"
#include "kernels/pointwise.h"

namespace anemone {
namespace {

// Where the bias and what is added are among the inputs of a fused step; -1: nowhere.
struct Places {
  int bias = -1, addend = -1;
};

const float* input(const FusedCall& c, int i) { return i < 0 ? nullptr : c.floats(static_cast<size_t>(i)); }

// In: x, then the bias and what is added, where they are.
class FusedConvolution : public FusedKernel {
 public:
  FusedConvolution(Convolution convolution, Activation then, Places places)
      : convolution_(std::move(convolution)), then_(std::move(then)), places_(places) {}

  std::string_view name() const override { return "convolution"; }
  uint64_t held_bytes() const override { return convolution_.held_bytes(); }
  bool run(const FusedCall& c) const override {
    convolution_.run(c.pool(), c.floats(0), input(c, places_.bias), input(c, places_.addend), then_, c.out());
    return true;
  }

 private:
  const Convolution convolution_;
  const Activation then_;
  const Places places_;
};

// In: x, then the biases and what is added, where they are.
class FusedWidenedPlanes : public FusedKernel {
 public:
  struct End {
    Activation then;
    Places places;
  };

  FusedWidenedPlanes(WidenedPlanes both, End widened, End end)
      : both_(std::move(both)), widened_(std::move(widened)), end_(std::move(end)) {}

  std::string_view name() const override { return "two convolutions"; }
  uint64_t held_bytes() const override { return both_.held_bytes(); }
  bool run(const FusedCall& c) const override {
    both_.run(c.pool(), c.floats(0), end_for(c, widened_), end_for(c, end_), c.out());
    return true;
  }

 private:
  static WidenedPlanes::End end_for(const FusedCall& c, const End& end) {
    return {input(c, end.places.bias), input(c, end.places.addend), end.then};
  }

  const WidenedPlanes both_;
  const End widened_, end_;
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
      if (edit_.is(i, "conv") && fits(i) && !apply_both(i)) apply(i);
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

  Parts parts_of(int conv) const {
    Parts p{.steps = {conv}};
    match_sum(p);
    match_activation(p);
    return p;
  }

  // What the parts read is the same at `at` as where they begin.
  bool unchanged(const Parts& p, int at) const {
    const int conv = p.steps[0];
    return !edit_.changed_between(edit_.input(conv, "x").id, conv, at) &&
           (p.add.id < 0 || !edit_.changed_between(p.add.id, conv, at));
  }

  Convolution make(int conv) const {
    return edit_.with_call(conv,
                           [&](const OpCall& c) { return Convolution(c, edit_.step(conv).types[0], true); });
  }

  Places add_inputs(const Parts& p, Step& step) const {
    const auto add = [&](const Source& source) {
      step.in.push_back(source);
      return static_cast<int>(step.in.size()) - 1;
    };
    const Source& bias = edit_.input(p.steps[0], "bias");
    Places places;
    if (bias.fixed) places.bias = add(bias);
    if (p.add.id >= 0) places.addend = add(p.add);
    return places;
  }

  void put(const std::vector<int>& steps, Step step) {
    const int last = steps.back();
    step.out = edit_.step(last).out;
    step.types = edit_.step(last).types;
    edit_.replace(steps, std::move(step), last);
  }

  void apply(int conv) {
    Parts p = parts_of(conv);
    if (!unchanged(p, p.last())) p = Parts{.steps = {conv}};
    Step step;
    step.in = {edit_.input(conv, "x")};
    const Places places = add_inputs(p, step);
    step.work = RunFused{std::make_shared<FusedConvolution>(make(conv), p.then, places)};
    put(p.steps, std::move(step));
  }

  // The convolution that alone looks at what the parts make, as an image.
  int convolution_behind(const Parts& p) const {
    const auto& users = edit_.users(out(p.last()));
    if (users.size() != 1 || edit_.stays(out(p.last())) || !edit_.is(users[0], "conv")) return -1;
    const bool whole = edit_.maker(edit_.input(users[0], "x")) == p.last() &&
                       edit_.input_type(users[0], "x").shape == edit_.step(p.last()).types[0].shape;
    return whole && fits(users[0]) ? users[0] : -1;
  }

  // A 1 x 1 convolution into a depthwise one.
  bool apply_both(int conv) {
    const Parts first = parts_of(conv);
    const int behind = convolution_behind(first);
    if (behind < 0 || first.add.id >= 0) return false;
    const Parts second = parts_of(behind);
    if (!unchanged(first, second.last()) || !unchanged(second, second.last())) return false;
    Convolution widen = make(conv), planes = make(behind);
    if (!WidenedPlanes::takes(widen, planes)) return false;
    Step step;
    step.in = {edit_.input(conv, "x")};
    const Places widened = add_inputs(first, step), end = add_inputs(second, step);
    step.work = RunFused{std::make_shared<FusedWidenedPlanes>(
        WidenedPlanes(std::move(widen), std::move(planes)), FusedWidenedPlanes::End{first.then, widened},
        FusedWidenedPlanes::End{second.then, end})};
    std::vector<int> steps = first.steps;
    steps.insert(steps.end(), second.steps.begin(), second.steps.end());
    put(steps, std::move(step));
    return true;
  }

  PlanEdit& edit_;
};

}  // namespace

void fuse_convolutions(PlanEdit& edit) { Convolutions(edit).run(); }

}  // namespace anemone
