// Model: the neutral description of a network of blocks, pure data. `lower/` and `reference/` read it and nothing else.
//     Model m = describe(Checkpoint::open("model.gguf"));               // families/family.h
//     for (const Layer& layer : m.layers)
//       for (const ResidualStep& step : layer.steps) …                           // attention, then an MLP
//     const auto& a = std::get<Attention>(m.layers[0].steps[0].block);
//
// What it describes, in the order of the computation (x is the residual stream of one token):
//     x = tokens[id] * scale + positions[position + first_position] + types[type]           Embedding
//     x = norm((x + bias) * gain)
//     for each step of each layer:                                                           ResidualStep
//       y = norm_out(block(norm_in(x)))
//       x = norm_sum((x + stream_bias) * stream_gain + (y * scale + bias) * gain)
//     result = head(final_norm(x))                                                           Head
// Every norm, bias and gain is optional; families/blocks/ says what each block computes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "families/blocks/attention.h"
#include "families/blocks/experts.h"
#include "families/blocks/mlp.h"
#include "families/blocks/norm.h"
#include "families/blocks/short_conv.h"
#include "families/rope.h"
#include "families/weight_ref.h"

namespace anemone {

// A block is one file each in families/blocks/, lower/ and reference/, and one entry here. It has
//     static constexpr bool kMixer            it combines tokens; otherwise it is an MLP, which uses each token alone
//     int64_t width                           of an MLP: of what lies between its projections
//     void each_weight(WeightVisitor&) const
//     std::vector<Projection*> sensitive()    those that an encoder cannot round as far as the others
using ModelBlock = std::variant<Attention, ShortConv, GatedMlp, PlainMlp, Experts>;

bool is_mixer(const ModelBlock& block);

// One residual step.
struct ResidualStep {
  std::optional<Norm> norm_in;  // before the block
  ModelBlock block;
  std::optional<Norm> norm_out;  // of what the block gives, before it is added
  double scale = 1;              // of what the block gives (Granite)
  // Optional, one number a channel: a bias and then a gain on either side of the sum (ZAYA1).
  WeightRef stream_bias, stream_gain, bias, gain;
  std::optional<Norm> norm_sum;  // of the sum, which becomes the stream (BERT)
};

struct Layer {
  std::vector<ResidualStep> steps;
};

struct Embedding {
  WeightRef tokens;
  double scale = 1;
  WeightRef positions, types;  // optional: learned positions, token types
  int64_t first_position = 0;  // row of `positions` that belongs to position 0
  WeightRef bias, gain;        // optional, one number a channel (ZAYA1)
  std::optional<Norm> norm;
};

// Logits of a vocabulary: softcap(scale * (weight x + bias), softcap).
struct VocabularyHead {
  WeightRef weight;  // the embedding's tensor again when tied
  WeightRef bias;    // optional
  bool tied = false;
  double scale = 1;
  double softcap = 0;  // 0: none
};

// How the vectors of a text's tokens become one.
enum class Pooling { mean, first };

// What the logits of classes become: one class of all; each class yes or no; values, as they are (regression).
enum class ClassScores { softmax, sigmoid, plain };

// The hidden states themselves, and a vector for the whole text.
struct PooledHead {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to length 1
};

// Classes for each token, or for the whole text when pooled first: classifier(norm(activation(dense x))), what comes
// before the classifier being optional.
struct ClassHead {
  enum class Dense { none, tanh, gelu };

  std::optional<Pooling> pooling;  // none: each token separately
  Dense activation = Dense::none;
  Projection dense;  // optional
  std::optional<Norm> norm;
  Projection classifier;
  std::vector<std::string> labels;  // by class
  ClassScores scores = ClassScores::softmax;
};

using Head = std::variant<VocabularyHead, PooledHead, ClassHead>;

struct Model {
  std::string family;        // "qwen3"
  std::string architecture;  // as the checkpoint calls it
  std::string name;          // what the publisher calls it; may be empty

  int64_t hidden = 0;
  int64_t vocab = 0;    // rows of the embedding, and of a head of logits
  int64_t context = 0;  // the most positions it was made for

  Embedding embedding;
  std::vector<Rope> ropes;  // one, or one for full and one for windowed layers; none where no layer rotates
  std::vector<Layer> layers;
  std::optional<Norm> final_norm;
  Head head;

  // Tensors of the checkpoint that the model does without; a * at either end of a name stands for anything.
  std::vector<std::string> unused;
  // One tensor may serve several weights, as constants of a graph do where an exporter found them equal.
  bool shared_tensors = false;
  // What was found in a graph and where, for people; empty where names say all.
  std::vector<std::string> inferred;
  // Where the checkpoint says a size, by the size's text (size_names.h): "'num_attention_heads' of config.json".
  // For messages; a size may be missing here.
  std::map<std::string, std::string, std::less<>> origins;

  std::optional<int64_t> bos;
  std::vector<int64_t> eos;  // every id that ends a text, the main one first
  std::optional<int64_t> pad;

  // True if every token sees only earlier tokens: text can be generated.
  bool causal() const;
  // True if it has logits of its vocabulary.
  bool generates() const { return std::holds_alternative<VocabularyHead>(head); }
  const VocabularyHead& vocabulary_head() const { return std::get<VocabularyHead>(head); }
};

// The attention of a layer, or nullptr where it has none.
const Attention* find_attention(const Layer& layer);
Attention* find_attention(Layer& layer);
// Of the first layer that has attention; nullptr where none has.
const Attention* first_attention(const Model& model);
// The sizes by which people know a model: of the first layer that has them, 0 where none has.
struct ModelSizes {
  int64_t heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
};
ModelSizes sizes_of(const Model& model);
// Where the experts of a layer are among its steps; the number of steps where it has none.
size_t experts_step(const Layer& layer);
// Those experts; nullptr where it has none.
const Experts* find_experts(const Layer& layer);
// Every attention of the model: change(attention, layer).
template <class Change>
void each_attention(Model& model, const Change& change) {
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (Attention* a = find_attention(model.layers[i])) change(*a, i);
}

}  // namespace anemone
