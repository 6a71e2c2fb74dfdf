// What the families have in common: a decoder with grouped attention and a gated MLP. A family says how it
// differs from the plain one and gets its description.
//     DecoderForm form;
//     form.head_norm = HeadNorm::before_rope;
//     Model m = describe_decoder(checkpoint, form);
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

// Whether tensors of a kind belong to a family. `by_key`: as the key of config.json says ("attention_bias",
// "mlp_bias": absent means no); GGUF has no such key, there the tensors speak for themselves.
enum class Presence { absent, by_key, required };

// How a family differs from Llama. Values that config.json may leave out are the defaults of the reference
// implementation's configuration class; 0 where it has none.
struct DecoderForm {
  Presence qkv_bias = Presence::by_key, o_bias = Presence::by_key, mlp_bias = Presence::by_key;
  bool fused_qkv = false;      // one tensor with the rows of q, k, v
  bool fused_gate_up = false;  // one tensor with the rows of gate, up
  HeadNorm head_norm = HeadNorm::none;
  const char* q_norm = "self_attn.q_norm";  // in safetensors; GGUF has one name for all families
  const char* k_norm = "self_attn.k_norm";
  bool post_norms = false;        // Gemma: a norm behind attention and MLP as well
  bool interleaved_gguf = false;  // GGUF keeps the rows of q and k in pairs
  bool tied_by_default = false;
  Activation activation = Activation::silu;
  const char* activation_key = "hidden_act";  // of config.json
  double stored_norm_offset = 0;              // in safetensors; GGUF has it added already
  double default_eps = 0;
  double default_rope_base = 10000;
  int64_t default_heads = 0, default_kv_heads = 0, default_head_dim = 0, default_vocab = 0,
          default_context = 0;
  int64_t default_original_context = 0;  // of scaled ropes; 0: the whole context
};

// Sizes, rope, weights and tokens; windows and scales are the plain ones, for the family to change.
Model describe_decoder(const Checkpoint& checkpoint, const DecoderForm& form);

// Which layers are windowed: "layer_types" of config.json; nothing where there is no such key. Error when it
// has another number of layers or an unknown type.
std::optional<std::vector<bool>> find_windowed_layers(const Hparams& hp, size_t layers);

// Gives the chosen layers a window; one that is as long as the context changes nothing and is left out.
void set_windows(Model& model, int64_t window, const std::vector<bool>& windowed);

// Error where the model has experts: these families are dense.
void expect_dense(const Hparams& hp);

}  // namespace anemone
