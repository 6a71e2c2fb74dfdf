// The functions of a bundle: a model's layers and its head as ANE-shaped MIL.
//     Program p;
//     FunctionInterface i = build_layers(p, "main", model, weights, {.first = 0, .last = 5, .context = 2048});
//     FunctionInterface h = build_head(p2, "main", model, weights, {.first_row = 0, .last_row = 16384});
//
// A layers function, for T tokens over a compiled length of S:
//     in   x [1, hidden, T, 1]            the residual stream; the embedding's rows for the first shard
//     in   cos_r, sin_r [1, 1, T, dims/2]  for each rope r that its layers use (no suffix for the first)
//     in   mask, mask_local [1, 1, T, S]   0 or -10000, added to the scores: full layers, windowed layers
//     in   write [1, 1, S, T]              1 where row s takes token t's key and value (kv_write mask)
//     in   position int32 [1]              the row of the first token (kv_write slice)
//     state k_cache_i, v_cache_i [1, kv_heads, S, dim]     (kv state)
//     state k_cache, v_cache [layers, kv_heads, S, dim]    (kv packed)
//     in   k_cache_i, v_cache_i [1, kv_heads, S, dim]      (kv io: the host keeps the cache)
//     out  k_new_i, v_new_i [1, kv_heads, T, head_dim]     (kv io: the rows that it puts there)
//     state state_i [1, 1, R, width]       the state of a recurrent layer (kv packed, io: an input and an output);
//                                          state_i_j for its further slots j
//     in   advance [1, 1, R, R + T]        which columns of it and of the tokens stay, for more than one token;
//                                          advance_R for every further R
//     out  y [1, hidden, T, 1]             normalised for the head by the last shard
// An encoder has no cache; T replaces S, and a mask over everything has one row. Its last shard also returns the
// results of a head:
//     in   pool [1, 1, T, 1]               how much each token counts
//     out  pooled [1, hidden, 1, 1], or classes [1, classes, T, 1] or [1, classes, 1, 1]
// `dim` is head_dim filled up to a multiple of 32: the device refuses other state widths.
// A layer can be cut at its experts. The function before the cut ends with the router; the one behind it begins with
// what the experts add:
//     out  l3_router [1, choices, T, 1], l3_mlp_norm [1, hidden, T, 1]     beside y
//     in   mixed [1, hidden, T, 1]         a shared expert, which every token uses, is computed there
// A function of experts [first, last) of a layer, for T tokens:
//     in   x [1, hidden, T, 1], shares [1, experts, T, 1]
//     out  y [1, hidden, T, 1]             the sum of what each gives, times its share
// A head function, for T tokens:
//     in   y [1, hidden, T, 1]
//     out  logits_j [1, rows, T, 1], or with argmax best_j, high_j, low_j [1, 1, T, 1]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "families/model.h"
#include "lower/interface.h"
#include "lower/weights.h"
#include "mil/program.h"

namespace anemone::lower {

enum class KvKind { state, packed, io };
enum class KvWrite { mask, slice };

struct TokenCount {
  int64_t least = 1, most = 1;  // equal: fixed

  bool fixed() const { return least == most; }
  Dim dim() const { return fixed() ? Dim(least) : Dim::symbol(1); }
};

struct LayersSpec {
  size_t first = 0, last = 0;  // layers [first, last)
  int64_t context = 2048;      // S
  TokenCount tokens;
  KvKind kv = KvKind::state;
  KvWrite write = KvWrite::mask;
  std::string state_suffix;     // "_c512" where several context tiers live in one package
  double residual_scale = 1;    // of the whole residual stream
  bool first_stage = false;     // the embedding's own norm comes first: the bundle's first shard of layers
  bool last_stage = false;      // the final norm comes last, and a head that is no vocabulary's behind it
  bool behind_experts = false;  // the first layer begins behind its experts: what they add is an input
  bool at_router = false;       // the last layer ends at its router
  Opset opset = Opset::ios18;

  // The first layer that is in it from its beginning on.
  size_t first_whole() const { return first + (behind_experts ? 1 : 0); }
};

struct ExpertsSpec {
  size_t layer = 0;
  int64_t first = 0, last = 0;  // experts [first, last)
  TokenCount tokens;
  double residual_scale = 1;
  Opset opset = Opset::ios18;
};

struct HeadSpec {
  int64_t first_row = 0, last_row = 0;  // of the vocabulary
  int64_t piece_rows = 16384;           // rows of one convolution
  TokenCount tokens;
  bool argmax = false;
  Opset opset = Opset::ios18;
};

// Rows [first, last) of the vocabulary of a head's weight or bias: one piece of it.
WeightRef head_rows(WeightRef ref, int64_t first, int64_t last);
// State width: head_dim filled up to a multiple of 32.
int64_t cache_width(const Attention& attention);
// The masks that a model needs, in the order of their numbers: one for each reach of its attention.
std::vector<Reach> masks_of(const Model& model);
// How far to each side a token sees through all layers: layers × band. 0: nothing limits it, a mask is no band.
int64_t sight_of(std::span<const Reach> masks, int64_t layers);

FunctionInterface build_layers(Program& program, const std::string& name, const Model& model,
                               Weights& weights, const LayersSpec& spec);
FunctionInterface build_experts(Program& program, const std::string& name, const Model& model,
                                Weights& weights, const ExpertsSpec& spec);
FunctionInterface build_head(Program& program, const std::string& name, const Model& model, Weights& weights,
                             const HeadSpec& spec);
// Layers and a head of logits in one function: the inputs and states of layers, the outputs of a head.
FunctionInterface build_whole(Program& program, const std::string& name, const Model& model, Weights& weights,
                              const LayersSpec& layers, const HeadSpec& head);

}  // namespace anemone::lower
