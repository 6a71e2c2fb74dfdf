// near: compares vectors of floats with a relative tolerance that allows for a few roundings in fp32.
//     CHECK(near(out[0].floats, {0.5f, 1.5f}));
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace anemone {

inline bool near(const std::vector<float>& found, const std::vector<float>& expected,
                 float tolerance = 2e-6f) {
  if (found.size() != expected.size()) return false;
  for (size_t i = 0; i < found.size(); ++i)
    if (!(found[i] == expected[i] ||
          std::fabs(found[i] - expected[i]) <= tolerance * std::max(1.0f, std::fabs(expected[i]))))
      return false;
  return true;
}

}  // namespace anemone
