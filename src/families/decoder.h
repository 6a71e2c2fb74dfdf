// What most families have in common: layers of grouped attention and a gated MLP over a growing text. A family says how
// it differs from Llama and gets its Model, which it may change further.
//     DecoderTraits traits;
//     traits.head_norm = HeadNorm::before_rope;
//     Model m = build_decoder(checkpoint, traits);
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "families/decoder_files.h"
#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

// Whether tensors of a kind belong to a family. `by_key`: as the key says ("attention_bias", "mlp_bias": absent means
// no); where the naming has no such key, the tensors that exist decide.
enum class Presence { absent, by_key, required };

// RMS norms of q and k: none, of each head before or after the rotation, or of all heads together before it.
enum class HeadNorm { none, before_rope, after_rope, over_width };

// Norms of the residual steps: before a block; before and after it (Gemma); only after it (OLMo 2).
enum class StepNorms { before, around, behind };

// How a family differs from Llama. Values that config.json may leave out are the defaults of the reference
// implementation's configuration class; 0 where it has none.
struct DecoderTraits {
  Presence qkv_bias = Presence::by_key, o_bias = Presence::by_key, mlp_bias = Presence::by_key;
  bool fused_qkv = false;      // one tensor with the rows of q, k, v
  bool fused_gate_up = false;  // one tensor with the rows of gate, up
  HeadNorm head_norm = HeadNorm::none;
  StepNorms norms = StepNorms::before;
  bool tied_by_default = false;
  Activation activation = Activation::silu;
  Key activation_key{"hidden_act", ""};
  double default_eps = 0;
  int64_t default_heads = 0, default_kv_heads = 0, default_head_dim = 0, default_vocab = 0,
          default_context = 0;
  int64_t default_original_context = 0;    // of scaled ropes; 0: the whole context
  int64_t kv_heads = 0, intermediate = 0;  // overrides the usual key; 0: the key is used
  Key eps_key = keys::kNormEps;
  bool experts = false;           // the family puts experts where the MLPs are
  std::string_view quantization;  // a "quant_method" that the format of the checkpoint decodes
  ByNaming<DecoderFiles> files = llama_files();
};

// Sizes, rope, weights and tokens; reach and scales are the plain ones, for the family to change.
Model build_decoder(const Checkpoint& checkpoint, const DecoderTraits& traits);

// Which layers are windowed: "layer_types" of config.json; nothing where there is no such key. Error when it
// has another number of layers or an unknown type.
std::optional<std::vector<bool>> find_windowed_layers(const Hparams& hp, size_t layers);

// Gives the chosen layers a window; one that is as long as the context changes nothing and is left out.
void set_windows(Model& model, int64_t window, const std::vector<bool>& windowed);

// Error where GGUF metadata names a window: another model than the family.
void expect_no_window(const Hparams& hp);

// Error where the model has experts: these families are dense.
void expect_dense(const Hparams& hp);

}  // namespace anemone
