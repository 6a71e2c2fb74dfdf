#include "lower/scope.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "lower/ops.h"

namespace anemone::lower {
namespace {

std::string numbered(const char* name, size_t index) {
  return index == 0 ? name : fmt::format("{}_{}", name, index);
}

// "mask" for the one that hides nothing but the future or nothing at all; "mask_local", "mask_local_1" … for others.
std::string mask_name(const std::vector<Reach>& reaches, size_t index) {
  if (reaches[index].size == 0) return "mask";
  size_t before = 0;
  for (size_t i = 0; i < index; ++i) before += reaches[i].size != 0;
  return numbered("mask_local", before);
}

// The router of a layer, where it is a network; nullptr behind the last layer.
const RouterNetwork* find_router(const Model& model, size_t layer) {
  if (layer >= model.layers.size()) return nullptr;
  for (const ResidualStep& step : model.layers[layer].steps)
    if (const auto* e = std::get_if<Experts>(&step.block); e && e->router.network) return &*e->router.network;
  return nullptr;
}

}  // namespace

Scope::Scope(Function& f, const Model& model, Weights& weights, const LayersSpec& spec,
             FunctionInterface& interface)
    : f_(f),
      model_(model),
      weights_(weights),
      spec_(spec),
      interface_(interface),
      cos_(model.ropes.size()),
      sin_(model.ropes.size()),
      reaches_(masks_of(model)),
      masks_(reaches_.size()) {
  const Dim tokens = spec.tokens.dim();
  x_ = input("x", Type::tensor(kHalf, {1, model.hidden, tokens, 1}), {.kind = Role::Kind::stream});
  if (spec.behind_experts)
    mixed_ = input("mixed", Type::tensor(kHalf, {1, model.hidden, tokens, 1}), {.kind = Role::Kind::mixed});
  const size_t first = spec.first_whole();
  if (const RouterNetwork* router = find_router(model, first); first < spec.last && router && router->carry)
    carried_ =
        input("carried", Type::tensor(kHalf, {1, router->width, tokens, 1}), {.kind = Role::Kind::carried});
  std::set<size_t> ropes, masks;
  for (size_t i = first; i < spec.last; ++i)
    if (const Attention* a = find_attention(model.layers[i])) {
      if (a->rope) ropes.insert(*a->rope);
      masks.insert(
          static_cast<size_t>(std::find(reaches_.begin(), reaches_.end(), a->reach) - reaches_.begin()));
    }
  for (const size_t r : ropes) {
    const Type type = Type::tensor(kHalf, {1, 1, tokens, model.ropes[r].dims / 2});
    cos_[r] = input(numbered("cos", r), type, {.kind = Role::Kind::cos, .index = r});
    sin_[r] = input(numbered("sin", r), type, {.kind = Role::Kind::sin, .index = r});
  }
  for (const size_t m : masks) {
    // In an encoder only the padding at the end is hidden: the same for every token.
    const Dim rows = reaches_[m].kind == Reach::Kind::full ? Dim(1) : tokens;
    masks_[m] = input(mask_name(reaches_, m), Type::tensor(kHalf, {1, 1, rows, columns()}),
                      {.kind = Role::Kind::mask, .index = m});
  }
  if (!model.causal()) return;
  if (!masks.empty() && spec.write == KvWrite::mask)
    write_ = input("write", Type::tensor(kHalf, {1, 1, spec.context, tokens}), {.kind = Role::Kind::write});
  else if (!masks.empty())
    position_ = input("position", Type::tensor(DType::int32, {1}), {.kind = Role::Kind::position});
  cache_.declare(f, model, spec, interface);
  for (size_t i = first; i < spec.last; ++i)
    for (const ResidualStep& step : model.layers[i].steps)
      std::visit(
          [&](const auto& block) {
            if constexpr (requires { block.recurrent(); })
              recurrent_.declare(f, i, block.recurrent(), spec, interface);
          },
          step.block);
}

Scope::Scope(Function& f, const Model& model, Weights& weights, const LayersSpec& spec,
             FunctionInterface& interface, const ExpertsSpec& experts)
    : f_(f), model_(model), weights_(weights), spec_(spec), interface_(interface) {
  const Dim tokens = experts.tokens.dim();
  x_ = input("x", Type::tensor(kHalf, {1, model.hidden, tokens, 1}), {.kind = Role::Kind::normed});
  shares_ = input("shares", Type::tensor(kHalf, {1, experts.last - experts.first, tokens, 1}),
                  {.kind = Role::Kind::shares, .first = experts.first, .last = experts.last});
}

Value* Scope::input(const std::string& name, Type type, Role role) {
  interface_.inputs.push_back({name, std::move(role)});
  return add_input(f_, name, std::move(type));
}

void Scope::begin(Builder& b) {
  builder_ = &b;
  cache_.begin(b, write_, position_);
}

void Scope::end() {
  if (const RouterNetwork* router = find_router(model_, spec_.last); carried_ && router && router->carry) {
    builder_->output(builder_->op("identity", {{"x", carried_}}, "carried_on"));
    interface_.outputs.push_back({"carried_on", {.kind = Role::Kind::carried}});
  }
  cache_.end(*builder_, interface_);
  recurrent_.end(*builder_, interface_);
}

Value* Scope::mask(const Reach& reach) const {
  return masks_[static_cast<size_t>(std::find(reaches_.begin(), reaches_.end(), reach) - reaches_.begin())];
}

Value* Scope::shared(const std::string& name, const std::function<Value*()>& make) {
  Value*& known = shared_[name];
  if (!known) known = make();
  return known;
}

int64_t Scope::columns() const { return model_.causal() ? spec_.context : spec_.tokens.most; }

Value* Scope::norm(Value* x, const Norm& norm, double in, double out, const std::string& name) {
  const int64_t width = norm.gain.rows();
  Value* gain = weights_.vector(*builder_, norm.gain, {1, width, 1, 1}, norm.offset, out, name + "_gain");
  NormSpec spec{.axis = 1, .gain = gain, .bias = nullptr, .eps = norm.eps * in * in};
  if (norm.kind == Norm::Kind::rms) return rms_norm(*builder_, x, spec, name);
  if (norm.bias) spec.bias = weights_.vector(*builder_, norm.bias, {1, width, 1, 1}, 0, out, name + "_bias");
  return layer_norm(*builder_, x, spec, name);
}

Value* Scope::head_norm(Value* x, const Norm& norm, const std::string& name) {
  Value* gain = norm.gain ? weights_.vector(*builder_, norm.gain, {1, 1, 1, norm.gain.rows()}, norm.offset, 1,
                                            name + "_gain")
                          : nullptr;
  return rms_norm(*builder_, x, {.axis = 3, .gain = gain, .bias = nullptr, .eps = norm.eps}, name);
}

Value* Scope::project(Value* x, const Projection& p, double factor, const std::string& name) {
  Value* w = weights_.projection(*builder_, p.weight, factor, name + "_weight");
  Value* bias =
      p.bias ? weights_.vector(*builder_, p.bias, {p.weight.rows()}, 0, factor, name + "_bias") : nullptr;
  return conv1x1(*builder_, x, w, bias, name);
}

Value* Scope::activate(Value* x, Activation activation, const std::string& name) {
  switch (activation) {
    case Activation::silu:  // as sigmoid and product: the fused form was seen to fall back to the CPU
      return mul(*builder_, x, builder_->op("sigmoid", {{"x", x}}, name + "_sigmoid"), name);
    case Activation::gelu_tanh:
      return builder_->op("gelu", {{"x", x}, {"mode", Constant::text("TANH_APPROXIMATION")}}, name);
    case Activation::gelu: return builder_->op("gelu", {{"x", x}, {"mode", Constant::text("EXACT")}}, name);
  }
  return x;
}

void Scope::tap(Value* value, std::string_view golden, int64_t layer, double scale) {
  builder_->rename(value, layer < 0 ? std::string(golden) : fmt::format("{}_{}", golden, layer));
  list(value, golden, layer, scale);
}

void Scope::list(const Value* value, std::string_view golden, int64_t layer, double scale) {
  interface_.taps.push_back({value->name, std::string(golden), layer, scale});
}

}  // namespace anemone::lower
