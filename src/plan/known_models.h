// Known models: public configurations by name, for a plan before anything is downloaded.
//     const KnownModel* k = find_known_model("Qwen3 0.6B");
//     Model m = describe(*k);                             // through the family, like a checkpoint
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "families/model.h"

namespace anemone {

struct KnownModel {
  std::string_view id;            // "qwen3-0.6b"
  std::string_view name;          // "Qwen3-0.6B"
  std::string_view architecture;  // "Qwen3ForCausalLM"
  int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, context;
  bool tied;
  int64_t window = 0;                     // where the family has one
  int64_t experts = 0, experts_used = 0;  // of a layer; each has `intermediate` as its width
};

std::span<const KnownModel> known_models();

// By id or name, whatever the case and the punctuation, "-instruct" and the like left out; nullptr when none.
const KnownModel* find_known_model(std::string_view text);

Model describe(const KnownModel& known);

}  // namespace anemone
