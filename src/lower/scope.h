// Scope: what the blocks share while the body of one function is built: the inputs that all layers read, the cache, the
// model's weights, and the list of values that goldens know.
//     Value* h = scope.norm(x, *step.norm_in, scope.stream_scale(), "l0_attn_norm");
//     Value* q = scope.project(h, attention.q, 1, "l0_q");
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "families/model.h"
#include "lower/functions.h"
#include "lower/interface.h"
#include "lower/kv_cache.h"
#include "lower/recurrent.h"
#include "lower/weights.h"
#include "mil/builder.h"

namespace anemone::lower {

class Scope {
 public:
  // Declares the inputs and states that the layers of `spec` need.
  Scope(Function& f, const Model& model, Weights& weights, const LayersSpec& spec,
        FunctionInterface& interface);

  // For a function of experts: declares nothing but the two inputs that it has.
  Scope(Function& f, const Model& model, Weights& weights, const LayersSpec& spec,
        FunctionInterface& interface, const ExpertsSpec& experts);

  // Reads what all layers share; call once, before the first block.
  void begin(Builder& b);
  // Adds what is written once for all layers; call behind the last block.
  void end();

  Builder& builder() { return *builder_; }
  const Model& model() const { return model_; }
  Weights& weights() { return weights_; }
  const LayersSpec& spec() const { return spec_; }
  KvCache& cache() { return cache_; }
  RecurrentStates& recurrent() { return recurrent_; }
  Value* x() const { return x_; }
  // What the experts of the first layer add, where it begins behind them; of a function of experts, their shares.
  Value* mixed() const { return mixed_; }
  Value* shares() const { return shares_; }
  Value* cos(size_t rope) const { return cos_[rope]; }
  Value* sin(size_t rope) const { return sin_[rope]; }
  Value* mask(const Reach& reach) const;
  // A value that several layers use: made by the first of them.
  Value* shared(const std::string& name, const std::function<Value*()>& make);
  // Columns that attention goes over: rows of the cache, or the tokens of the call where there is none.
  int64_t columns() const;
  double stream_scale() const { return spec_.residual_scale; }
  // What the router of a layer hands to the next layer's.
  Value* carried() const { return carried_; }
  void carry(Value* value) { carried_ = value; }

  // A norm over the channels of [1, C, T, 1]. The values come `in` times too large, and leave `out` times too large.
  Value* norm(Value* x, const Norm& norm, double in, double out, const std::string& name);
  // A norm of each head, over the last axis of [1, heads, T, dim].
  Value* head_norm(Value* x, const Norm& norm, const std::string& name);
  // A 1x1 convolution; its weights are called after `name`.
  Value* project(Value* x, const Projection& p, double factor, const std::string& name);
  Value* activate(Value* x, Activation activation, const std::string& name);
  // A value that the reference knows as `golden` of that layer: gets that name, "attn_out_3", and is listed.
  void tap(Value* value, std::string_view golden, int64_t layer, double scale = 1);
  // The same for a value that keeps its name.
  void list(const Value* value, std::string_view golden, int64_t layer, double scale = 1);

 private:
  Value* input(const std::string& name, Type type, Role role);

  Function& f_;
  const Model& model_;
  Weights& weights_;
  const LayersSpec& spec_;
  FunctionInterface& interface_;
  Builder* builder_ = nullptr;
  Value *x_ = nullptr, *write_ = nullptr, *position_ = nullptr;
  Value *carried_ = nullptr, *mixed_ = nullptr, *shares_ = nullptr;
  std::vector<Value*> cos_, sin_;
  std::vector<Reach> reaches_;
  std::vector<Value*> masks_;  // by reach
  std::map<std::string, Value*> shared_;
  KvCache cache_;
  RecurrentStates recurrent_;
};

// A block over what it sees, `h` [1, hidden, T, 1]; the result comes `factor` times too large.
Value* lower_block(Scope& scope, size_t layer, const Attention& attention, Value* h, double factor);
Value* lower_block(Scope& scope, size_t layer, const ShortConv& conv, Value* h, double factor);
Value* lower_block(Scope& scope, size_t layer, const GatedMlp& mlp, Value* h, double factor);
Value* lower_block(Scope& scope, size_t layer, const PlainMlp& mlp, Value* h, double factor);
Value* lower_block(Scope& scope, size_t layer, const Experts& experts, Value* h, double factor);

// The parts of experts that the host calls one by one: what the router says of each choice; the sum of experts
// [first, last), each times its share; and what the chosen ones gave together, with what a shared expert adds.
Value* lower_router(Scope& scope, size_t layer, const Experts& experts, Value* h);
Value* lower_experts(Scope& scope, const Experts& experts, const ExpertsSpec& spec, double factor);
Value* lower_shared(Scope& scope, size_t layer, const Experts& experts, Value* chosen, Value* h,
                    double factor);

// A gated MLP up to its last projection; names begin with `at`.
struct GatedValues {
  Value *gate = nullptr, *up = nullptr;  // before the activation
  Value* product = nullptr;
};
GatedValues gated(Scope& scope, const GatedMlp& mlp, Value* h, const std::string& at);

}  // namespace anemone::lower
