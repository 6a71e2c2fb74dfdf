// What families of experts read alike: how many there are, and where their weights lie.
//     const ExpertSizes sizes = read_expert_sizes(hp, kKeys, {.count = 128, .used = 8, .width = 768});
//     mlp.gate.weight = of_stack(name, expert, {.end = width, .columns = hidden});
#pragma once

#include <string>

#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

struct ExpertKeys {
  Key count, used, width;
};

inline constexpr int64_t kMostExperts = 2048;  // their numbers are exact in fp16

struct ExpertSizes {
  int64_t count = 0, used = 0, width = 0;
};

// `otherwise`: the defaults of the reference implementation's configuration class; 0 where it has none. Error for
// sizes that cannot be.
ExpertSizes read_expert_sizes(const Hparams& hp, const ExpertKeys& keys, const ExpertSizes& otherwise);

// Where the checkpoint says the sizes, for messages.
void note_expert_origins(const Hparams& hp, const ExpertKeys& keys, Model& model);

// Rows [begin, end) of the matrix of one expert, in a tensor that holds those of all.
struct StackPart {
  int64_t begin = 0, end = 0, columns = 1;
  bool transposed = false;
  int64_t paired = 0;  // rows of this many are stored as pairs (WeightRef::interleaved_head)
};
WeightRef of_stack(const std::string& tensor, size_t expert, const StackPart& part);

bool has_experts(const Model& model);

// What a chosen skip adds, in every layer: "pass" or "zero". Error for a model without such a choice, or another word.
void set_skip(Model& model, const std::string& what);

}  // namespace anemone
