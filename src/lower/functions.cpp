#include "lower/functions.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "lower/head.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {
namespace {

// What names a step: "l0_attn_norm", "l0_o" … Values that goldens contain have the names of the goldens.
struct StepNames {
  std::string norm, out, sum;
  const char* golden_out;
  const char* golden_sum;  // of the stream behind it
};

StepNames names_of(size_t layer, const ResidualStep& step, bool last) {
  const std::string at = fmt::format("l{}_", layer);
  const bool mixer = is_mixer(step.block);
  return {at + (mixer ? "attn_norm" : "mlp_norm"), at + (mixer ? "o" : "down"),
          at + (mixer ? "attn_out" : "mlp_out"), mixer ? "attn_out" : "mlp_out",
          last ? "layer_out" : "attn_residual"};
}

// One side of the sum: (x + bias) * gain, where the model has them; x comes `scale` times too large.
Value* balanced(Scope& s, Value* x, const WeightRef& bias, const WeightRef& gain, double scale,
                const std::string& name) {
  const Shape shape{1, s.model().hidden, 1, 1};
  if (bias)
    x = add(s.builder(), x, s.weights().vector(s.builder(), bias, shape, 0, scale, name + "_bias"),
            name + "_moved");
  if (gain)
    x = mul(s.builder(), x, s.weights().vector(s.builder(), gain, shape, 0, 1, name + "_gain"),
            name + "_gained");
  return x;
}

// What the block of a step sees.
Value* enter_step(Scope& s, size_t layer, const ResidualStep& step, bool last, Value* x) {
  const std::string name = names_of(layer, step, last).norm;
  const double stream = s.stream_scale();
  return step.norm_in ? s.norm(x, *step.norm_in, stream, 1, name) : scale(s.builder(), x, 1 / stream, name);
}

// The whole stream is kept `stream` times as large as the model's. The writer carries that scale also before a norm,
// which takes it out again: what the projection gives may leave fp16's range as well.
double block_factor(const ResidualStep& step, double stream) {
  return step.norm_out ? stream : stream * step.scale;
}

// What the block gave goes into the stream.
Value* leave_step(Scope& s, size_t layer, const ResidualStep& step, bool last, Value* x, Value* y) {
  const StepNames n = names_of(layer, step, last);
  const auto index = static_cast<int64_t>(layer);
  const double stream = s.stream_scale();
  s.tap(y, n.golden_out, index, block_factor(step, stream));
  if (step.norm_out) y = s.norm(y, *step.norm_out, stream, stream * step.scale, n.out + "_post");
  y = balanced(s, y, step.bias, step.gain, stream, n.out);
  x = balanced(s, x, step.stream_bias, step.stream_gain, stream, n.sum + "_stream");
  x = add(s.builder(), x, y, step.norm_sum ? n.sum + "_sum" : n.sum);
  if (step.norm_sum) x = s.norm(x, *step.norm_sum, stream, stream, n.sum);
  s.tap(x, n.golden_sum, index, stream);
  return x;
}

Value* lower_step(Scope& s, size_t layer, const ResidualStep& step, bool last, Value* x) {
  Value* h = enter_step(s, layer, step, last, x);
  const double factor = block_factor(step, s.stream_scale());
  Value* y =
      std::visit([&](const auto& block) { return lower_block(s, layer, block, h, factor); }, step.block);
  return leave_step(s, layer, step, last, x, y);
}

// The router of a layer that ends there, and what its experts see.
void give_choices(Scope& s, size_t layer, const ResidualStep& step, bool last, Value* x,
                  FunctionInterface& interface) {
  Builder& b = s.builder();
  Value* h = enter_step(s, layer, step, last, x);
  if (h == x) h = b.op("identity", {{"x", x}}, names_of(layer, step, last).norm);
  const auto& experts = std::get<Experts>(step.block);
  Value* logits = lower_router(s, layer, experts, h);
  b.output(logits);
  b.output(h);
  interface.outputs.push_back(
      {logits->name, {.kind = Role::Kind::router, .first = 0, .last = experts.choices()}});
  interface.outputs.push_back({h->name, {.kind = Role::Kind::normed}});
}

// The steps of a layer, or those on one side of its experts.
Value* lower_layer(Scope& s, size_t layer, Value* x, FunctionInterface& interface) {
  const LayersSpec& spec = s.spec();
  const std::vector<ResidualStep>& steps = s.model().layers[layer].steps;
  const size_t cut = experts_step(s.model().layers[layer]);
  size_t from = 0;
  if (spec.behind_experts && layer == spec.first) {
    const ResidualStep& step = steps.at(cut);
    const bool last = cut + 1 == steps.size();
    const auto& experts = std::get<Experts>(step.block);
    Value* y = s.builder().op("identity", {{"x", s.mixed()}}, fmt::format("l{}_mixed", layer));
    // Here and not before the router: what the experts see is soon computed again, and the host has one sum to carry.
    if (experts.shared)
      y = lower_shared(s, layer, experts, y, enter_step(s, layer, step, last, x),
                       block_factor(step, s.stream_scale()));
    x = leave_step(s, layer, step, last, x, y);
    from = cut + 1;
  }
  for (size_t j = from; j < steps.size(); ++j) {
    const bool last = j + 1 == steps.size();
    if (spec.at_router && layer + 1 == spec.last && j == cut) {
      give_choices(s, layer, steps[j], last, x, interface);
      break;
    }
    x = lower_step(s, layer, steps[j], last, x);
  }
  return x;
}

// What comes behind the rows that the host reads.
Value* lower_embedding(Scope& s, Value* x) {
  const Embedding& e = s.model().embedding;
  const double stream = s.stream_scale();
  if (!e.bias && !e.gain && !e.norm) return x;
  x = balanced(s, x, e.bias, e.gain, stream, "embed");
  if (e.norm) x = s.norm(x, *e.norm, stream, stream, "embed_norm");
  s.tap(x, "embed_out", -1, stream);
  return x;
}

// `finish` makes the outputs from what the layers give.
FunctionInterface build(
    Program& program, const std::string& name, const Model& model, Weights& weights, const LayersSpec& spec,
    const std::function<void(Builder& b, Value* y, Weights& listed, FunctionInterface& interface)>& finish) {
  ANEMONE_CHECK(spec.first < spec.last && spec.last <= model.layers.size());
  Function& f = add_function(program, name, spec.opset);
  FunctionInterface interface;
  ListedWeights listed(weights, interface.weights);
  Scope scope(f, model, listed, spec, interface);
  Builder b(f);
  scope.begin(b);
  Value* x = scope.x();
  if (spec.first_stage) x = lower_embedding(scope, x);
  for (size_t i = spec.first; i < spec.last; ++i) {
    listed.set_layer(static_cast<int64_t>(i));
    x = lower_layer(scope, i, x, interface);
  }
  listed.set_layer(-1);
  if (spec.last_stage && model.final_norm) {
    x = scope.norm(x, *model.final_norm, scope.stream_scale(), 1, "y");
    scope.list(x, "final_norm", -1);
  } else if (spec.last_stage && scope.stream_scale() != 1) {
    x = scale(b, x, 1 / scope.stream_scale(), "y");
  } else {
    x = b.op("identity", {{"x", x}}, "y");
  }
  finish(b, x, listed, interface);
  if (spec.last_stage && !model.generates()) add_text_head(b, x, model, listed, spec, f, interface);
  scope.end();
  return interface;
}

void give_stream(Builder& b, Value* y, Weights&, FunctionInterface& interface) {
  b.output(y);
  interface.outputs.push_back({y->name, {.kind = Role::Kind::stream}});
}

}  // namespace

int64_t cache_width(const Attention& attention) { return (attention.head_dim + 31) / 32 * 32; }

std::vector<Reach> masks_of(const Model& model) {
  std::vector<Reach> out;
  for (const bool sized : {false, true})
    for (const Layer& layer : model.layers)
      if (const Attention* a = find_attention(layer);
          a && (a->reach.size != 0) == sized && std::find(out.begin(), out.end(), a->reach) == out.end())
        out.push_back(a->reach);
  return out;
}

int64_t sight_of(std::span<const Reach> masks, int64_t layers) {
  int64_t widest = 0;
  for (const Reach& reach : masks) {
    if (reach.kind != Reach::Kind::band) return 0;
    widest = std::max(widest, reach.size);
  }
  return widest * layers;
}

FunctionInterface build_layers(Program& program, const std::string& name, const Model& model,
                               Weights& weights, const LayersSpec& spec) {
  return build(program, name, model, weights, spec, give_stream);
}

FunctionInterface build_experts(Program& program, const std::string& name, const Model& model,
                                Weights& weights, const ExpertsSpec& spec) {
  const Layer& layer = model.layers.at(spec.layer);
  const ResidualStep& step = layer.steps.at(experts_step(layer));
  Function& f = add_function(program, name, spec.opset);
  FunctionInterface interface;
  ListedWeights listed(weights, interface.weights);
  listed.set_layer(static_cast<int64_t>(spec.layer));
  const LayersSpec whole{.tokens = spec.tokens, .residual_scale = spec.residual_scale, .opset = spec.opset};
  Scope scope(f, model, listed, whole, interface, spec);
  Builder b(f);
  scope.begin(b);
  Value* y =
      lower_experts(scope, std::get<Experts>(step.block), spec, block_factor(step, spec.residual_scale));
  y = b.op("identity", {{"x", y}}, "y");
  b.output(y);
  interface.outputs.push_back({y->name, {.kind = Role::Kind::mixed}});
  return interface;
}

FunctionInterface build_head(Program& program, const std::string& name, const Model& model, Weights& weights,
                             const HeadSpec& spec) {
  Function& f = add_function(program, name, spec.opset);
  FunctionInterface interface;
  Value* y = add_input(f, "y", Type::tensor(kHalf, {1, model.hidden, spec.tokens.dim(), 1}));
  interface.inputs.push_back({"y", {.kind = Role::Kind::stream}});
  Builder b(f);
  ListedWeights listed(weights, interface.weights);
  add_vocabulary_head(b, y, model, listed, spec, interface);
  return interface;
}

FunctionInterface build_whole(Program& program, const std::string& name, const Model& model, Weights& weights,
                              const LayersSpec& layers, const HeadSpec& head) {
  ANEMONE_CHECK(layers.last_stage);
  return build(program, name, model, weights, layers,
               [&](Builder& b, Value* y, Weights& listed, FunctionInterface& interface) {
                 add_vocabulary_head(b, y, model, listed, head, interface);
               });
}

}  // namespace anemone::lower
