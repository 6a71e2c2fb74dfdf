// DecoderFiles: how a decoder is stored in the files of one naming: what its tensors are called, and what the files
// mean beyond their keys. A family starts with Llama's and says what it has under other names.
//     DecoderTraits traits;
//     traits.files.hugging_face.q_norm = "self_attn.query_layernorm";
//     traits.files.gguf.paired_rows = true;
#pragma once

#include <span>

#include "checkpoint/naming.h"
#include "families/tensor_names.h"

namespace anemone {

struct DecoderFiles {
  NameParts parts;

  // Of one layer, each with ".weight" or ".bias" behind it.
  const char* attention_norm;
  const char* q;
  const char* k;
  const char* v;
  const char* qkv;  // rows of q, k and v
  const char* o;
  const char* q_norm;
  const char* k_norm;
  const char* attention_norm_out;  // behind the block
  const char* mlp_norm;
  const char* gate;
  const char* up;
  const char* gate_up;  // rows of gate and up
  const char* down;
  const char* mlp_norm_out;

  const char* final_norm;              // below the prefix
  std::span<const char* const> heads;  // whole names: the first that is there, else the first

  bool paired_rows = false;          // rows of q and k are stored in pairs (WeightRef::interleaved_head)
  double norm_offset = 0;            // to be added to the gains of the norms as they are stored
  double default_rope_base = 10000;  // where no key says it
};

// Llama's. Most families have these names too.
ByNaming<DecoderFiles> llama_files();

}  // namespace anemone
