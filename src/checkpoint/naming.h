// Naming: a convention for the names of keys and tensors of a checkpoint. ByNaming holds one value for each convention,
// such as the spelling of a key or a table of tensor names.
//     constexpr ByNaming<const char*> kHead{"lm_head", "output"};            // Hugging Face, GGUF
//     const char* name = kHead[hparams.naming()];
// The choice is made here and nowhere else, and a table must have an entry for every naming. A new Naming is therefore
// a compile error, first here and then at each table, and it is never mistaken for an old one.
#pragma once

#include <utility>

#include "anemone/error.h"

namespace anemone {

// Formats may share one: whatever stands beside a config.json has its names.
enum class Naming {
  hugging_face,  // "num_hidden_layers", "model.layers.0.self_attn.q_proj.weight"
  gguf,          // "llama.block_count", "blk.0.attn_q.weight"
};

template <class T>
struct ByNaming {
  T hugging_face, gguf;

  constexpr ByNaming(T of_hugging_face, T of_gguf)
      : hugging_face(std::move(of_hugging_face)), gguf(std::move(of_gguf)) {}

  constexpr const T& operator[](Naming naming) const {
    switch (naming) {
      case Naming::hugging_face: return hugging_face;
      case Naming::gguf: return gguf;
    }
    throw Error("the names of this checkpoint are not known");
  }
};

}  // namespace anemone
