// Experts that no token chose stay on the disk: what of their weights a session has in memory, as the system counts it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "families/tiny_model.h"
#include "runtime/session.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// An expert is larger than a large page (2 MiB), which is in memory as a whole.
constexpr int64_t kWidth = 768, kExperts = 8, kUsed = 2;
constexpr uint64_t kExpertBytes = 3 * kWidth * kWidth * 2;  // gate, up and down in fp16

// Two layers of Qwen3-MoE. All logits of its routers are 0, so that every token uses the first two experts.
TinyModel model_with_large_experts() {
  TinyModel m = TinyModel::safetensors_as("Qwen3MoeForCausalLM", "qwen3_moe");
  m.config.update({{"hidden_size", kWidth},
                   {"moe_intermediate_size", kWidth},
                   {"num_experts", kExperts},
                   {"num_experts_per_tok", kUsed},
                   {"norm_topk_prob", true},
                   {"rms_norm_eps", 1e-6}});
  for (auto& [name, shape] : m.tensors)
    for (int64_t& size : shape)
      if (size == 8 && !(name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight"))) size = kWidth;
  for (const char* part : {"k_proj", "v_proj"}) {
    const std::string name = fmt::format("self_attn.{}.weight", part);
    m.replace(name, name, {8, kWidth});
  }
  for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
    m.replace(fmt::format("mlp.{}.weight", part), "", {});
    for (int64_t e = 0; e < kExperts; ++e) {
      const std::string name = fmt::format("mlp.experts.{}.{}.weight", e, part);
      m.replace("", name, {kWidth, kWidth});
      for (const int layer : {0, 1})  // a value of its own: equal tensors might be stored once
        m.first_values[fmt::format("model.layers.{}.{}", layer, name)] =
            static_cast<float>(m.first_values.size() + 1);
    }
  }
  m.replace("", "mlp.gate.weight", {kExperts, kWidth});
  for (const char* part : {"q_norm", "k_norm"}) m.replace("", fmt::format("self_attn.{}.weight", part), {4});
  return m;
}

// The bytes of files with such a path that are mapped and in memory.
uint64_t resident_bytes(const std::string& path_part) {
  std::ifstream maps("/proc/self/smaps");
  uint64_t bytes = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Rss:")) bytes += ours ? std::stoull(line.substr(4)) << 10 : 0;
    if (const size_t key = line.find(':'); key == std::string::npos || line.find(' ') < key)
      ours = line.find(path_part) != std::string::npos;  // the head of a mapping
  }
  return bytes;
}

}  // namespace

TEST_CASE("experts that no token chose stay on the disk") {
  if (resident_bytes("") == 0) return;  // only Linux says what of a mapping is in memory
  const TempFolder source, folder;
  (void)model_with_large_experts().safetensors(source);
  ConvertOptions o;
  o.context = {64};
  o.tokens = {{1, 1}, {16, 16}};
  o.precision = Precision::fp16;
  o.experts = ExpertWay::host;
  convert(source.path(), folder / "b", o);
  const auto bundle = Bundle::open(folder / "b", cpu_backend({}));
  Session one(bundle, {.positions = 64, .function = "t1"}), many(bundle, {.positions = 64});
  for (int32_t token = 0; token < 4; ++token) one.forward(std::span(&token, 1));
  const std::vector<int32_t> ids(16, 3);
  many.forward(ids);
  for (const char* layer : {"experts_00", "experts_01"}) {
    CAPTURE(layer);
    const uint64_t resident = resident_bytes((folder / "b" / layer).string());
    CHECK(resident >= kUsed * kExpertBytes * 9 / 10);
    CHECK(resident <= kUsed * kExpertBytes + kExpertBytes / 2);  // pages come in blocks
  }
}
