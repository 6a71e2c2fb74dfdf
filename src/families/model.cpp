#include "families/model.h"

#include <algorithm>

namespace anemone {

namespace {

// Of an MLP; 0 for a mixer.
int64_t mlp_width(const ModelBlock& block) {
  return std::visit(
      []<class Block>(const Block& b) -> int64_t {
        if constexpr (Block::kMixer)
          return 0;
        else
          return b.width;
      },
      block);
}

}  // namespace

bool is_mixer(const ModelBlock& block) {
  return std::visit([]<class Block>(const Block&) { return Block::kMixer; }, block);
}

bool Model::causal() const {
  return std::all_of(layers.begin(), layers.end(), [](const Layer& layer) {
    const Attention* a = find_attention(layer);
    return !a || a->reach.causal();
  });
}

const Attention* find_attention(const Layer& layer) {
  for (const ResidualStep& step : layer.steps)
    if (const auto* a = std::get_if<Attention>(&step.block)) return a;
  return nullptr;
}

Attention* find_attention(Layer& layer) {
  return const_cast<Attention*>(find_attention(static_cast<const Layer&>(layer)));
}

const Attention* first_attention(const Model& model) {
  for (const Layer& layer : model.layers)
    if (const Attention* a = find_attention(layer)) return a;
  return nullptr;
}

size_t experts_step(const Layer& layer) {
  size_t i = 0;
  while (i < layer.steps.size() && !std::holds_alternative<Experts>(layer.steps[i].block)) ++i;
  return i;
}

const Experts* find_experts(const Layer& layer) {
  const size_t at = experts_step(layer);
  return at < layer.steps.size() ? &std::get<Experts>(layer.steps[at].block) : nullptr;
}

ModelSizes sizes_of(const Model& model) {
  ModelSizes out;
  if (const Attention* a = first_attention(model)) {
    out.heads = a->heads;
    out.kv_heads = a->kv_heads;
    out.head_dim = a->head_dim;
  }
  for (const Layer& layer : model.layers)
    for (const ResidualStep& step : layer.steps)
      if (out.intermediate == 0) out.intermediate = mlp_width(step.block);
  return out;
}

}  // namespace anemone
