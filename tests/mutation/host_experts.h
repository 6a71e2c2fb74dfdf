// The host's part of experts by docs/bundle.md: it chooses, calls, and adds up.
//     Routed routed = route(*stage.rule, logits, normed, tokens);
//     add_experts(host, s, routed);                      // for each stage of experts behind it
#pragma once

#include <vector>

#include "mutation/host.h"

namespace anemone::mutation {

struct Routed {
  Array normed, mixed;                      // [1, hidden, T, 1]
  std::vector<std::vector<double>> shares;  // by token and choice
};

Routed route(const ExpertRule& rule, const Array& logits, const Array& normed, int64_t tokens);
void add_experts(const Host& host, size_t stage, Routed& routed);

}  // namespace anemone::mutation
