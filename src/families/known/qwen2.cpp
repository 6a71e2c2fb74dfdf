// Qwen2 and Qwen2.5: Llama with a bias on q, k and v that no key announces.
#include "families/decoder.h"
#include "families/family.h"
#include "families/qwen.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen2", "Qwen2ForCausalLM"};

Model build(const Checkpoint& c) {
  Model m = build_decoder(c, qwen2_traits());
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen2{.name = "qwen2", .architectures = kNames, .build = build};

}  // namespace anemone::families
