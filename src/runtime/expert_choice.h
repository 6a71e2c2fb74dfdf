// ExpertChoice: which experts the tokens of a pass use, by the rule of bundle.json, and by how much each counts.
//     ExpertChoice choice = choose_experts(rule, logits, tokens);
//     for (const ExpertUse& use : choice.of(3)) …                     // the tokens that use expert 3
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bundle/bundle_info.h"

namespace anemone {

struct ExpertUse {
  int64_t token = 0;
  float share = 0;
};

struct ExpertChoice {
  std::vector<std::vector<ExpertUse>> uses;  // by choice; tokens ascending

  const std::vector<ExpertUse>& of(int64_t choice) const { return uses[static_cast<size_t>(choice)]; }
};

// `logits`: [tokens, choices]. Of equal scores the first choice is taken.
ExpertChoice choose_experts(const ExpertRule& rule, std::span<const float> logits, int64_t tokens);

}  // namespace anemone
