// What a processor refuses, in the segmenter's own words where they are known, and the rule behind it.
//     if (auto refusal = ane_refuses(view, *target.chip)) fmt::print("{}: {}", refusal->rule, refusal->message);
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "placement/op_view.h"
#include "target/chips.h"

namespace anemone::placement {

struct Refusal {
  std::string_view rule;  // "O01"; `anemone check --explain O01` says the rest
  std::string message;
};

std::optional<Refusal> ane_refuses(const OpView& view, const Chip& chip);
// Somebody saw where Core ML puts operations of this kind. Where nobody did and the engine has no reason to refuse it,
// its device is unknown.
bool was_probed(const OpView& view);
// BNNS, the faster of the CPU's two libraries.
std::optional<Refusal> bnns_refuses(const OpView& view);

// Operations that keep or pass a state: they cost nothing and go wherever their neighbours are.
bool is_state_op(const Operation& op);

}  // namespace anemone::placement
