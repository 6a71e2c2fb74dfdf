// The MLPs, as written in families/blocks/mlp.h.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/scope.h"

namespace anemone {

double softcapped(double value, double cap) { return cap > 0 ? cap * std::tanh(value / cap) : value; }

double activated(double z, Activation activation) {
  switch (activation) {
    case Activation::silu: return z / (1 + std::exp(-z));
    case Activation::gelu: return 0.5 * z * (1 + std::erf(z / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
  }
  return z;
}

void gate(const GatedMlp& mlp, std::vector<float>& gate, const std::vector<float>& up) {
  for (size_t i = 0; i < gate.size(); ++i) {
    double g = static_cast<double>(gate[i]), u = static_cast<double>(up[i]);
    if (mlp.limit > 0) {
      g = std::min(g, mlp.limit);
      gate[i] =
          static_cast<float>(g / (1 + std::exp(-mlp.slope * g)) * (std::clamp(u, -mlp.limit, mlp.limit) + 1));
    } else {
      gate[i] = static_cast<float>(activated(g, mlp.activation) * u);
    }
  }
}

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const GatedMlp& mlp,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory&) {
  std::vector<float> gated = scope.project("gate", layer, mlp.gate, h, tokens);
  const std::vector<float> up = scope.project("up", layer, mlp.up, h, tokens);
  scope.tap("gate", static_cast<int64_t>(layer), gated);
  scope.tap("up", static_cast<int64_t>(layer), up);
  gate(mlp, gated, up);
  scope.tap("gated", static_cast<int64_t>(layer), gated);
  return scope.project("down", layer, mlp.down, gated, tokens);
}

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const PlainMlp& mlp,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory&) {
  std::vector<float> up = scope.project("up", layer, mlp.up, h, tokens);
  scope.tap("up", static_cast<int64_t>(layer), up);
  for (float& value : up) value = static_cast<float>(activated(static_cast<double>(value), mlp.activation));
  scope.tap("gated", static_cast<int64_t>(layer), up);
  return scope.project("down", layer, mlp.down, up, tokens);
}

}  // namespace anemone
