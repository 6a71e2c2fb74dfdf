// Random numbers for tests.
//     std::mt19937 random(7);
//     const std::vector<float> x = normal_floats(64, random);
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace anemone::test {

inline std::vector<float> normal_floats(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

}  // namespace anemone::test
