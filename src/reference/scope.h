// What the blocks of a running reference share: weights, options, positions; and what a layer remembers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "families/model.h"
#include "reference/reference.h"
#include "reference/rope.h"
#include "reference/weights.h"

namespace anemone {

class ReferenceScope {
 public:
  ReferenceScope(const Model& model, const ReferenceWeights& weights, ThreadPool& pool,
                 const ReferenceOptions& options)
      : model_(model), weights_(weights), pool_(pool), options_(options) {}

  const Model& model() const { return model_; }
  const ReferenceWeights& weights() const { return weights_; }
  ThreadPool& pool() const { return pool_; }
  const ReferenceOptions& options() const { return options_; }
  // The tokens that came before, and the position of the next one.
  int64_t before() const { return before_; }
  int64_t position() const { return options_.first_position + before_; }
  void advance(int64_t tokens) { before_ += tokens; }
  // Takes these tokens at hand, and sees to it that their positions can be rotated; `ahead` come in this step at most.
  // Probes are looked at and not remembered.
  void take(std::vector<TokenRun> runs, int64_t ahead, bool probes);
  const std::vector<TokenRun>& runs() const { return runs_; }
  bool probes() const { return probes_; }
  const TokenRun& run_of(int64_t token) const;
  // Of a token at hand, counted from the first that is remembered; and its position.
  int64_t index_of(int64_t token) const;
  int64_t position_of(int64_t token) const { return options_.first_position + index_of(token); }
  const RotaryTable& rotary(size_t rope) const { return rotary_[rope]; }

  // Each run of `width` values by itself, in place.
  void normalise(const Norm& norm, std::span<float> values, int64_t width) const;
  std::vector<float> project(std::string_view name, size_t layer, const Projection& p,
                             const std::vector<float>& x, int64_t tokens) const;
  // What the router of one layer hands to that of the next: [tokens, width], of the tokens at hand.
  std::vector<float>& carried() const { return carried_; }
  void tap(std::string_view name, int64_t layer, std::span<const float> values) const {
    if (options_.tap) options_.tap(name, layer, values);
  }

 private:
  const Model& model_;
  const ReferenceWeights& weights_;
  ThreadPool& pool_;
  const ReferenceOptions& options_;
  std::vector<RotaryTable> rotary_;
  std::vector<TokenRun> runs_;
  mutable std::vector<float> carried_;
  bool probes_ = false;
  int64_t before_ = 0;
};

// Between the projections of a gated MLP, in place of the gate.
void gate(const GatedMlp& mlp, std::vector<float>& gate, const std::vector<float>& up);
double activated(double z, Activation activation);
double softcapped(double value, double cap);

// What a block gives for tokens that see `h` [tokens, hidden]; it remembers what later ones need.
std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const Attention& attention,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory);
std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const ShortConv& conv,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory);
std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const GatedMlp& mlp,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory);
std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const PlainMlp& mlp,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory);
std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const Experts& experts,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory);

}  // namespace anemone
