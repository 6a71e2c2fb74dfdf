// Comparison of float results with expected values.
#pragma once

#include <cmath>
#include <vector>

namespace anemone {

// Equal up to a few roundings of values of about 1.
inline bool near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance = 2e-6f) {
  if (got.size() != expected.size()) return false;
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= tolerance)) return false;
  return true;
}

}  // namespace anemone
