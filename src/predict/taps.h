// Values inside a function, also from backends that give nothing but outputs (Core ML).
//     auto predictor = open_tapped(backend, package, "main", {"l0_attn_out"});
//     predictor->predict(inputs).at("l0_attn_out");
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mil/program.h"
#include "predict/backend.h"

namespace anemone {

// The value of that name in the function's own block; nullptr where there is none.
Value* find_value(const Function& function, std::string_view name);

// A copy of the package in which these values are outputs of the function, behind its own. The weights are shared.
// Error for a name that is no value of the function's own block, and for one that cannot be an output.
std::shared_ptr<const Package> with_taps(const Package& package, const std::string& function,
                                         const std::vector<std::string>& taps);

// A copy of the package with nothing but the end of a function: it takes `values` instead of computing them, and gives
// these outputs. Error when the outputs need another input of the function.
std::shared_ptr<const Package> from_values(const Package& package, const std::string& function,
                                           const std::vector<std::string>& values,
                                           const std::vector<std::string>& outputs);

// A predictor whose calls give the taps beside the outputs, in whichever way the backend can.
std::unique_ptr<Predictor> open_tapped(const Backend& backend, std::shared_ptr<const Package> package,
                                       const std::string& function, const std::vector<std::string>& taps);

}  // namespace anemone
