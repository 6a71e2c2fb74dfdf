// Phi-3, Phi-3.5-mini and Phi-4-mini: q, k, v in one tensor and gate, up in another; a part of each head may
// be rotated, with LongRoPE's two lists of factors.
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"phi3", "Phi3ForCausalLM"};

Model build(const Checkpoint& c) {
  DecoderTraits traits;
  traits.qkv_bias = traits.o_bias = traits.mlp_bias = Presence::absent;
  traits.fused_qkv = traits.fused_gate_up = true;
  traits.default_eps = 1e-5;
  traits.default_context = traits.default_original_context = 4096;
  Model m = build_decoder(c, traits);
  const int64_t window = Hparams(c).find_integer(keys::kWindow, 0).value_or(0);
  set_windows(m, window, std::vector<bool>(m.layers.size(), true));
  return m;
}

}  // namespace

extern const Family phi3{.name = "phi3", .architectures = kNames, .build = build};

}  // namespace anemone::families
