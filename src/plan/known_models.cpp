#include "plan/known_models.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "families/family.h"

namespace anemone {
namespace {

// Sizes as in the published config.json.
constexpr KnownModel kModels[] = {
    {"smollm2-135m", "SmolLM2-135M", "LlamaForCausalLM", 576, 30, 9, 3, 64, 1536, 49152, 8192, true},
    {"smollm2-360m", "SmolLM2-360M", "LlamaForCausalLM", 960, 32, 15, 5, 64, 2560, 49152, 8192, true},
    {"smollm2-1.7b", "SmolLM2-1.7B", "LlamaForCausalLM", 2048, 24, 32, 32, 64, 8192, 49152, 8192, true},
    {"llama-3.2-1b", "Llama-3.2-1B", "LlamaForCausalLM", 2048, 16, 32, 8, 64, 8192, 128256, 131072, true},
    {"llama-3.2-3b", "Llama-3.2-3B", "LlamaForCausalLM", 3072, 28, 24, 8, 128, 8192, 128256, 131072, true},
    {"llama-3.1-8b", "Llama-3.1-8B", "LlamaForCausalLM", 4096, 32, 32, 8, 128, 14336, 128256, 131072, false},
    {"qwen2.5-0.5b", "Qwen2.5-0.5B", "Qwen2ForCausalLM", 896, 24, 14, 2, 64, 4864, 151936, 32768, true},
    {"qwen2.5-1.5b", "Qwen2.5-1.5B", "Qwen2ForCausalLM", 1536, 28, 12, 2, 128, 8960, 151936, 32768, true},
    {"qwen2.5-3b", "Qwen2.5-3B", "Qwen2ForCausalLM", 2048, 36, 16, 2, 128, 11008, 151936, 32768, true},
    {"qwen2.5-7b", "Qwen2.5-7B", "Qwen2ForCausalLM", 3584, 28, 28, 4, 128, 18944, 152064, 32768, false},
    {"qwen3-0.6b", "Qwen3-0.6B", "Qwen3ForCausalLM", 1024, 28, 16, 8, 128, 3072, 151936, 40960, true},
    {"qwen3-1.7b", "Qwen3-1.7B", "Qwen3ForCausalLM", 2048, 28, 16, 8, 128, 6144, 151936, 40960, true},
    {"qwen3-4b", "Qwen3-4B", "Qwen3ForCausalLM", 2560, 36, 32, 8, 128, 9728, 151936, 40960, true},
    {"qwen3-8b", "Qwen3-8B", "Qwen3ForCausalLM", 4096, 36, 32, 8, 128, 12288, 151936, 40960, false},
    {"phi-3.5-mini", "Phi-3.5-mini", "Phi3ForCausalLM", 3072, 32, 32, 32, 96, 8192, 32064, 131072, false},
    {"phi-4-mini", "Phi-4-mini", "Phi3ForCausalLM", 3072, 32, 24, 8, 128, 8192, 200064, 131072, true},
    {"hy-mt1.5-1.8b", "HY-MT1.5-1.8B", "HunYuanDenseV1ForCausalLM", 2048, 32, 16, 4, 128, 6144, 120818,
     262144, true},
    {"hy-mt1.5-7b", "HY-MT1.5-7B", "HunYuanDenseV1ForCausalLM", 4096, 32, 32, 8, 128, 14336, 128167, 262144,
     false},
    {"gemma-2-2b", "Gemma-2-2B", "Gemma2ForCausalLM", 2304, 26, 8, 4, 256, 9216, 256000, 8192, true, 4096},
    {"gemma-3-270m", "Gemma-3-270M", "Gemma3ForCausalLM", 640, 18, 4, 1, 256, 2048, 262144, 32768, true, 512},
    {"gemma-3-1b", "Gemma-3-1B", "Gemma3ForCausalLM", 1152, 26, 4, 1, 256, 6912, 262144, 32768, true, 512},
    {"gemma-3-4b", "Gemma-3-4B", "Gemma3ForCausalLM", 2560, 34, 8, 4, 256, 10240, 262208, 131072, true, 1024},
    {"zaya1-8b", "ZAYA1-8B", "ZayaForCausalLM", 2048, 40, 8, 2, 128, 2048, 262272, 131072, true, 0, 16, 1},
    {"qwen1.5-moe-a2.7b", "Qwen1.5-MoE-A2.7B", "Qwen2MoeForCausalLM", 2048, 24, 16, 16, 128, 1408, 151936,
     8192, false, 0, 60, 4},
    {"qwen3-30b-a3b", "Qwen3-30B-A3B", "Qwen3MoeForCausalLM", 2048, 48, 32, 4, 128, 768, 151936, 40960, false,
     0, 128, 8},
    {"gpt-oss-20b", "gpt-oss-20b", "GptOssForCausalLM", 2880, 24, 64, 8, 64, 2880, 201088, 131072, false, 128,
     32, 4},
    {"gpt-oss-120b", "gpt-oss-120b", "GptOssForCausalLM", 2880, 36, 64, 8, 64, 2880, 201088, 131072, false,
     128, 128, 4},
};

// Letters and digits in lower case, without what publishers add.
std::string plain(std::string_view text) {
  if (const size_t slash = text.rfind('/'); slash != std::string_view::npos) text = text.substr(slash + 1);
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view end : {"instruct", "it", "chat", "base"})
    if (out.ends_with(end) && out.size() > end.size()) {
      out.resize(out.size() - end.size());
      break;
    }
  return out;
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known_model(std::string_view text) {
  const std::string name = plain(text);
  for (const KnownModel& model : kModels)
    if (plain(model.id) == name) return &model;
  if (name == "hymt" || name == "hymt18b") return find_known_model("hy-mt1.5-1.8b");
  return nullptr;
}

Model describe(const KnownModel& k) {
  nlohmann::ordered_json config = {{"architectures", {k.architecture}},    {"hidden_size", k.hidden},
                                   {"num_hidden_layers", k.layers},        {"num_attention_heads", k.heads},
                                   {"num_key_value_heads", k.kv_heads},    {"head_dim", k.head_dim},
                                   {"intermediate_size", k.intermediate},  {"vocab_size", k.vocab},
                                   {"max_position_embeddings", k.context}, {"rms_norm_eps", 1e-5},
                                   {"tie_word_embeddings", k.tied}};
  if (k.window) config["sliding_window"] = k.window;
  if (k.experts) {
    config["num_experts"] = config["num_local_experts"] = k.experts;
    config["num_experts_per_tok"] = k.experts_used;
    config["moe_intermediate_size"] = k.intermediate;
    config["norm_topk_prob"] = true;
  }
  return describe(Checkpoint::from_config(std::move(config), std::string(k.name)));
}

}  // namespace anemone
