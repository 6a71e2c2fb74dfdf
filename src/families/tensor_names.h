// TensorNames: what the tensors of one checkpoint are called, from the parts that a naming makes its names of.
//     const TensorNames name(checkpoint, {.prefixes = kPrefixes, .layer = "layers.{}.", .embedding = "embed_tokens"});
//     name("norm");                        // "model.norm"
//     name(3, "mlp.up_proj");              // "model.layers.3.mlp.up_proj"
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace anemone {

// What the names of a model's tensors are made of, in one naming.
struct NameParts {
  // What may stand in front of all of them: the first with which the embedding is there, else the first.
  std::span<const char* const> prefixes;
  const char* layer;      // stands in front of a layer's own, with its number for {}
  const char* embedding;  // of the tokens
};

class TensorNames {
 public:
  TensorNames(const Checkpoint& checkpoint, const NameParts& parts);

  std::string operator()(const char* part) const { return prefix_ + part; }
  std::string operator()(size_t layer, const char* part) const;

 private:
  std::string prefix_, before_number_, after_number_;
};

}  // namespace anemone
