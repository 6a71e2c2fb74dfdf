// Qwen3-MoE: Qwen3 with experts in place of the MLP, in all layers or in some.
#include "families/family.h"
#include "families/qwen.h"
#include "families/qwen_experts.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen3moe", "Qwen3MoeForCausalLM"};

Model build(const Checkpoint& c) {
  const QwenExperts how{
      .sizes = {.count = 128, .used = 8, .width = 768}, .intermediate = 6144, .gguf_divides = true};
  Model m = build_qwen_experts(c, qwen3_traits(), how);
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen3_moe{.name = "qwen3-moe", .architectures = kNames, .build = build};

}  // namespace anemone::families
