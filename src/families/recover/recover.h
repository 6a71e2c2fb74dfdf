// Recovery: the Model behind an ONNX graph. It is found by structure, from the logits back to the embedding, never by
// names: each block has a matcher in a file of its own, which says what the graph computes there, or that it is
// something else.
//     Model m = recover_decoder(checkpoint);         // Error naming the node that has no place
//
// | file | recovers |
// |---|---|
// | linear.cpp | y = W x + b: MatMul, Gemm, MatMulNBits, DequantizeLinear, MatMulInteger |
// | norm.cpp | RMS and layer norms, as one operator or as many |
// | embedding.cpp | rows of tables, their scale, learned positions |
// | attention.cpp | heads, scale, soft-cap, reach, norms of q and k; attention_check.cpp: the proof |
// | heads.cpp | which rows of a projection become which heads, and how they are rotated |
// | rope_fit.cpp | base and scaling of a rotation, from its angles |
// | mlp.cpp | gated and plain MLPs, by what they compute |
// | experts.cpp | QMoE and MoE |
// | head.cpp | logits: projection, scale, soft-cap |
// | config.cpp | what genai_config.json and config.json say, against what was found |
// | decoder.cpp | the walk along the residual stream |
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "families/model.h"
#include "families/recover/evaluate.h"
#include "families/recover/graph.h"

namespace anemone::recover {

Model recover_decoder(const Checkpoint& checkpoint);

// What all matchers share.
struct Context {
  Graph& graph;
  const Checkpoint& checkpoint;
  int64_t context = 0;                 // the most positions, as the config says
  int64_t kv_heads = 1, head_dim = 1;  // of caches whose sizes the file leaves open, as the config says
  std::vector<Rope> ropes;
  std::vector<std::string> inferred;  // what was found and where, for people
};

// An evaluator with the sizes of the caches.
Evaluator evaluator(const Context& c, Probe probe);

// The value before operators that change nothing, a Reshape to the same dimensions among them.
ValueId plain(Context& c, ValueId value);

// The value before a Reshape that leaves each token's row as it is: [1, tokens, n] and [tokens, n].
ValueId by_tokens(Context& c, ValueId value);

// y = projection(x), with the value x and y's width.
struct Linear {
  ValueId input = kNone, output = kNone;
  Projection projection;
  int64_t rows() const { return projection.weight.rows(); }
};
std::optional<Linear> match_linear(Context& c, ValueId value);
// Rows [begin, begin + count) of a projection; `paired`: stored in pairs over that many rows (WeightRef).
Projection part_of(const Projection& p, int64_t begin, int64_t count, int64_t paired = 0);
// A vector of the checkpoint with `size` numbers, or of any size (-1).
std::optional<WeightRef> match_vector(Context& c, ValueId value, int64_t size = -1);

struct FoundNorm {
  ValueId input = kNone, output = kNone;
  Norm norm;
};
std::optional<FoundNorm> match_norm(Context& c, ValueId value);

std::optional<Embedding> match_embedding(Context& c, ValueId value);

// A block with the value that it reads: h of the formulas in families/blocks.
struct FoundBlock {
  ValueId input = kNone;
  ModelBlock block;
};
std::optional<FoundBlock> match_attention(Context& c, const Linear& out);
std::optional<FoundBlock> match_mlp(Context& c, const Linear& down);
// From the value that the experts give.
std::optional<FoundBlock> match_experts(Context& c, ValueId value);

struct FoundHead {
  ValueId input = kNone;
  VocabularyHead head;
};
FoundHead match_head(Context& c, ValueId logits);

// What a projection (or a norm behind one) sends to a place of an attention.
struct HeadSource {
  Linear linear;
  std::optional<FoundNorm> norm;
  bool norm_over_width = false, norm_after_rope = false;
  double factor = 1;              // that the values are multiplied with on the way
  std::vector<int64_t> channels;  // of the projection, for each element of the operand at one token
  ValueId operand = kNone;        // where they arrive
  ValueId turned = kNone;   // what is rotated, if anything is: the value that a probe of the rotation sets
  int64_t turned_rows = 0;  // its width
};
// `operand`: what goes into the product of the scores, or the sum of values.
HeadSource trace_heads(Context& c, ValueId operand, const char* what);
// How the path from source to operand rotates each head of `head_dim`; nothing where positions do not matter.
struct FoundRotation {
  size_t rope = 0;     // index into Context::ropes
  bool pairs = false;  // elements 2i and 2i + 1 turn together, not i and i + half
  double counted = 1;  // the factor of the rope that the factor of the source has too
};
std::optional<FoundRotation> find_rotation(Context& c, const HeadSource& source, ValueId operand,
                                           int64_t head_dim);

// cos and sin (times a factor) of a position, `pairs` numbers each; nothing beyond a table's end.
struct RotationRow {
  std::vector<double> cos, sin;
};
using RotationRows = std::function<std::optional<RotationRow>(int64_t position)>;
// The rope that has these angles.
Rope fit_rope(const Context& c, const RotationRows& rows);
// The index of an equal rope in the context; adds it where there is none.
size_t rope_index(Context& c, Rope rope);
// Of constant tables [positions, half of the rotated size], or of an If between two pairs of them (longrope).
size_t rope_of_tables(Context& c, ValueId cos, ValueId sin);

// What the graph computes from given q, k, v and a cache, against the formula of `attention`: Error where they differ.
struct AttentionSources {
  const HeadSource &q, &k, &v;
  double counted = 1;   // of the rope: FoundRotation
  ValueId out = kNone;  // of the heads, before the last projection
};
void check_attention(Context& c, const Attention& attention, const AttentionSources& sources);

// The config's numbers against the model's; names of tokens; Error that shows both values where they differ.
void apply_config(Context& c, Model& model);
void read_context(Context& c);

}  // namespace anemone::recover
