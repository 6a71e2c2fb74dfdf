#include "families/decoder_files.h"

namespace anemone {
namespace {

// Models with a vision part keep the text model's tensors one level deeper.
constexpr const char* kPrefixes[] = {"model.", "language_model.model.", "model.language_model."};
constexpr const char* kHeads[] = {"lm_head", "language_model.lm_head"};
constexpr const char* kNoPrefix[] = {""};
constexpr const char* kGgufHeads[] = {"output"};

constexpr DecoderFiles kHuggingFace{
    .parts = {.prefixes = kPrefixes, .layer = "layers.{}.", .embedding = "embed_tokens"},
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .qkv = "self_attn.qkv_proj",
    .o = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .attention_norm_out = "post_attention_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .gate_up = "mlp.gate_up_proj",
    .down = "mlp.down_proj",
    .mlp_norm_out = "post_feedforward_layernorm",
    .final_norm = "norm",
    .heads = kHeads,
};

constexpr DecoderFiles kGguf{
    .parts = {.prefixes = kNoPrefix, .layer = "blk.{}.", .embedding = "token_embd"},
    .attention_norm = "attn_norm",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .qkv = "attn_qkv",
    .o = "attn_output",
    .q_norm = "attn_q_norm",
    .k_norm = "attn_k_norm",
    .attention_norm_out = "post_attention_norm",
    .mlp_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .gate_up = "ffn_up",
    .down = "ffn_down",
    .mlp_norm_out = "post_ffw_norm",
    .final_norm = "output_norm",
    .heads = kGgufHeads,
};

}  // namespace

ByNaming<DecoderFiles> llama_files() { return {kHuggingFace, kGguf}; }

}  // namespace anemone
