// What is known of a value before anything runs: the numbers of a constant.
//     if (const auto axes = known_ints(value)) …
// Nothing for values that are computed, and for constants of the other kind of type.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "mil/program.h"
#include "mil/stored.h"

namespace anemone {

inline bool has_numbers(const Constant* constant) {
  return constant && constant->type.is_tensor() && constant->type.fixed() &&
         constant->type.dtype != DType::string;
}

inline std::optional<std::vector<int64_t>> known_ints(const Constant* constant) {
  if (!has_numbers(constant) || dtype_is_float(constant->type.dtype)) return std::nullopt;
  const std::vector<int32_t> ints = decode_ints(*stored_constant(*constant));
  return std::vector<int64_t>(ints.begin(), ints.end());
}

// Nothing as well where there are more than `most`.
inline std::optional<std::vector<float>> known_floats(const Constant* constant,
                                                      int64_t most = std::numeric_limits<int64_t>::max()) {
  if (!has_numbers(constant) || !dtype_is_float(constant->type.dtype) || constant->type.size() > most)
    return std::nullopt;
  return decode_floats(*stored_constant(*constant));
}

inline std::optional<std::vector<int64_t>> known_ints(const Value* value) {
  return known_ints(value ? value->constant() : nullptr);
}

inline std::optional<std::vector<float>> known_floats(const Value* value,
                                                      int64_t most = std::numeric_limits<int64_t>::max()) {
  return known_floats(value ? value->constant() : nullptr, most);
}

}  // namespace anemone
