// One operation computed at once, where all that it takes is known: what planning and the passes over programs share.
//     if (auto results = fold_call(binding, data, types, kSmallElements)) use((*results)[0].data);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mil/op.h"

namespace anemone {

struct FoldedValue {
  Type type;
  std::vector<uint32_t> data;  // 4-byte elements, and one more, so that it is never empty
};

// The results of an operation whose operands lie at `data` and whose outputs have `types`; nothing when the operation
// has no kernel of its own, is random, or a result is no tensor of at most `most` elements.
std::optional<std::vector<FoldedValue>> fold_call(const OpBinding& binding, std::span<const void* const> data,
                                                  const Types& types, int64_t most);

// A constant of that type from 4-byte elements.
Constant constant_of_elements(const Type& type, const void* elements);

}  // namespace anemone
