// Qwen3: Llama with an RMS norm on each head of q and k before RoPE, and heads whose size is its own number.
#include "families/decoder.h"
#include "families/family.h"
#include "families/qwen.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen3", "Qwen3ForCausalLM"};

Model build(const Checkpoint& c) {
  Model m = build_decoder(c, qwen3_traits());
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen3{.name = "qwen3", .architectures = kNames, .build = build};

}  // namespace anemone::families
