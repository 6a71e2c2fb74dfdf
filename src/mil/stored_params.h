// How constexpr ops see their parameters: every one is a stored tensor; the engine may decode the small ones
// too.
//     std::vector<int64_t> shape = stored_integers(c, "shape");
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "mil/op.h"
#include "mil/stored_mask.h"

namespace anemone {

// The dimensions of a parameter; Error unless they are all numbers.
std::vector<int64_t> fixed_dims(const OpCall& c, std::string_view param);
// The parameter as it is stored: what the call binds, or the constant itself.
std::shared_ptr<const StoredTensor> stored_param(const OpCall& c, std::string_view param);
// Small integer parameters.
std::vector<int64_t> stored_integers(const OpCall& c, std::string_view param);
int64_t stored_integer(const OpCall& c, std::string_view param);
// Error unless the mask has as many ones as there are stored values.
void check_ones(const MaskBits& mask, int64_t values, std::string_view mask_param,
                std::string_view values_param);

}  // namespace anemone
