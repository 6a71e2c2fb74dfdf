// Model: the neutral description of a decoder, pure data. `lower/` and `reference/` read it and nothing else.
//     Model m = describe(Checkpoint::open("model.gguf"));               // families/family.h
//     int64_t width = m.heads * m.head_dim;                              // of the query
//     const WeightRef& up = m.layers[0].up;                              // rows of a checkpoint's tensor
//
// What it describes, in the order of the computation (x is the residual stream of one token):
//     x  = embedding[id] * embedding_scale
//     for each layer:
//       h  = norm(x, attention_norm)
//       q, k, v = q h + q_bias, …                      heads, kv_heads, kv_heads vectors of head_dim
//       q, k = norm each head (head_norm = before_rope), rotate (layer.rope), or norm after that (after_rope)
//       s  = softcap(query_scale * q·k, attention_softcap), causal: position i sees j when j <= i, and when
//            layer.window is set only when i - j < window; query head n reads kv head n / (heads / kv_heads)
//       a  = o (softmax(s) v) + o_bias;    x += post_attention_norm ? norm(a, post_attention_norm) : a
//       h  = norm(x, mlp_norm);    y = down (activation(gate h + gate_bias) * (up h + up_bias)) + down_bias
//       x += post_mlp_norm ? norm(y, post_mlp_norm) : y
//     logits = softcap(lm_head norm(x, final_norm), logit_softcap)
// with norm(x, w) = x / sqrt(mean(x²) + norm_eps) * (w + norm_offset) and softcap(s, c) = c * tanh(s / c).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/weight_ref.h"

namespace anemone {

enum class RopeScaling {
  none,
  linear,     // f / factor
  divisors,   // f_i / divisors_i (llama3 as GGUF files keep it)
  llama3,     // by wave length: f, f / factor, and a blend of the two in between
  yarn,       // by index: f, f / factor, and a ramp in between; cos and sin times attention_factor
  longrope,   // f_i / short_factors_i or long_factors_i; cos and sin times attention_factor with both
  ntk_alpha,  // base * alpha^(dims / (dims - 2))
  dynamic,    // f up to original_context positions; longer sequences stretch the base by their own length
};

// Rotation of the first `dims` of each head, in halves: element i pairs with i + dims/2. The angle is
// position * f_i with f_i = base^(-2i/dims) before scaling, i < dims/2.
//     llama3:  w = 2π/f; w < original/high_freq → f; w > original/low_freq → f/factor; else with
//              s = (original/w - low_freq) / (high_freq - low_freq): f * ((1 - s)/factor + s)
//     yarn:    d(n) = dims * ln(original / (2π n)) / (2 ln base); low = d(beta_fast), high = d(beta_slow),
//              with `truncate` rounded down and up; then low >= 0, high <= dims - 1;
//              ramp_i = clamp((i - low) / (high - low), 0, 1); f/factor * ramp + f * (1 - ramp)
//     longrope: one choice for a whole sequence: long when it uses more than original_context positions
//     dynamic: one base for a whole sequence of n positions: with n > original_context it is
//              base * (factor * n / original_context - (factor - 1))^(dims / (dims - 2))
struct Rope {
  int64_t dims = 0;  // even, at most head_dim
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                 // linear, llama3, yarn, dynamic
  double attention_factor = 1;                       // multiplies cos and sin, whatever the scaling
  int64_t original_context = 0;                      // llama3, yarn, longrope, dynamic
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn
  double alpha = 1;                                  // ntk_alpha
  std::vector<double> divisors;                      // divisors: dims/2 of them
  std::vector<double> short_factors, long_factors;   // longrope: dims/2 of each
};

enum class HeadNorm { none, before_rope, after_rope };  // RMS norm of each head of q and k
enum class Activation { silu, gelu_tanh, gelu };

struct Layer {
  int64_t window = 0;  // 0: all positions before; otherwise how many positions a token sees, itself included
  size_t rope = 0;     // index into Model::ropes
  WeightRef attention_norm, q, k, v, o;
  WeightRef q_bias, k_bias, v_bias, o_bias;  // optional
  WeightRef q_norm, k_norm;                  // head_dim each; where head_norm is not none
  WeightRef post_attention_norm;             // optional (Gemma)
  WeightRef mlp_norm, gate, up, down;
  WeightRef gate_bias, up_bias, down_bias;  // optional
  WeightRef post_mlp_norm;                  // optional (Gemma)
};

struct Model {
  std::string family;        // "qwen3"
  std::string architecture;  // as the checkpoint calls it
  std::string name;          // what the publisher calls it; may be empty

  int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  int64_t vocab = 0;    // rows of the embedding and of the head
  int64_t context = 0;  // the most positions it was made for

  double norm_eps = 0;
  // 1 where weights are stored as γ and used as 1 + γ (Gemma safetensors); q_norm, k_norm too.
  double norm_offset = 0;
  HeadNorm head_norm = HeadNorm::none;
  Activation activation = Activation::silu;

  double embedding_scale = 1;
  double query_scale = 0;        // what q·k is multiplied by
  double attention_softcap = 0;  // 0: none
  double logit_softcap = 0;      // 0: none

  std::vector<Rope> ropes;  // one, or one for full and one for windowed layers
  std::vector<Layer> layers;

  WeightRef embedding, final_norm;
  WeightRef lm_head;  // the embedding's tensor again when tied_head
  bool tied_head = false;

  std::optional<int64_t> bos;
  std::vector<int64_t> eos;  // every id that ends a text, the main one first
  std::optional<int64_t> pad;
};

}  // namespace anemone
