// Qwen2-MoE (Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B): Qwen2 with experts in place of the MLP, and one beside them that every
// token uses.
#include "families/family.h"
#include "families/qwen.h"
#include "families/qwen_experts.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen2moe", "Qwen2MoeForCausalLM"};
constexpr Key kQkvBias{"qkv_bias", ""};

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits = qwen2_traits();
  // GGUF has no such key: there the tensors decide.
  traits.qkv_bias = !hp.spells(kQkvBias)                    ? Presence::by_key
                    : hp.find_flag(kQkvBias).value_or(true) ? Presence::required
                                                            : Presence::absent;
  const QwenExperts how{
      .sizes = {.count = 60, .used = 4, .width = 1408}, .intermediate = 5632, .shared_width = 5632};
  Model m = build_qwen_experts(c, traits, how);
  set_qwen_windows(hp, m, QwenWindows::every_second);
  return m;
}

}  // namespace

extern const Family qwen2_moe{.name = "qwen2-moe", .architectures = kNames, .build = build};

}  // namespace anemone::families
