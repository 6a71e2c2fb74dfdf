// Reads how positions are rotated, from the keys of config.json (both its old and its new spelling) or from
// GGUF metadata and tensors.
//     Rope rope = read_rope(hp, {.head_dim = 128, .context = 8192});
//     Rope local = read_rope(hp, {.head_dim = 128, .context = 8192, .layer_type = "sliding_attention", …});
#pragma once

#include <span>

#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

struct RopeQuery {
  int64_t head_dim = 0;
  int64_t context = 0;
  int64_t original_context = 0;  // of a scaling that does not say it; 0: the whole context
  double base = 10000;           // where no key says it
  Key base_key{"rope_theta", "rope.freq_base"};
  const char* layer_type = "full_attention";  // which part of a "rope_parameters" that has one per layer type
  bool scaled = true;  // whether "rope_scaling" and GGUF's rope.scaling.* are for these layers
};

// Error, naming the keys, when a scaling is unknown or incomplete.
Rope read_rope(const Hparams& hp, const RopeQuery& query);

// Tensors that belong to ropes and are no weights, as patterns for Model::unused: tables that are computed from the
// keys, and factors that read_rope takes over as numbers.
std::span<const char* const> rope_tables(Naming naming);

}  // namespace anemone
