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

// The whole stream is kept `stream` times as large as the model's. The writer carries that scale also before a norm,
// which takes it out again: what the projection gives may leave fp16's range as well.
Value* lower_step(Scope& s, size_t layer, const ResidualStep& step, bool last, Value* x) {
  Builder& b = s.builder();
  const StepNames n = names_of(layer, step, last);
  const auto index = static_cast<int64_t>(layer);
  const double stream = s.stream_scale();
  Value* h = step.norm_in ? s.norm(x, *step.norm_in, stream, 1, n.norm) : scale(b, x, 1 / stream, n.norm);
  const double factor = step.norm_out ? stream : stream * step.scale;
  Value* y =
      std::visit([&](const auto& block) { return lower_block(s, layer, block, h, factor); }, step.block);
  s.tap(y, n.golden_out, index, factor);
  if (step.norm_out) y = s.norm(y, *step.norm_out, stream, stream * step.scale, n.out + "_post");
  y = balanced(s, y, step.bias, step.gain, stream, n.out);
  x = balanced(s, x, step.stream_bias, step.stream_gain, stream, n.sum + "_stream");
  x = add(b, x, y, step.norm_sum ? n.sum + "_sum" : n.sum);
  if (step.norm_sum) x = s.norm(x, *step.norm_sum, stream, stream, n.sum);
  s.tap(x, n.golden_sum, index, stream);
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
    const std::vector<ResidualStep>& steps = model.layers[i].steps;
    for (size_t j = 0; j < steps.size(); ++j) x = lower_step(scope, i, steps[j], j + 1 == steps.size(), x);
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

FunctionInterface build_layers(Program& program, const std::string& name, const Model& model,
                               Weights& weights, const LayersSpec& spec) {
  return build(program, name, model, weights, spec, give_stream);
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
