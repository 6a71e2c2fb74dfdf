// Rng: seeded numbers, the same on every machine.
//     Rng rng(7, "weights");                             // a stream of its own for each purpose
//     int64_t row = rng.below(rows);
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace anemone::mutation {

class Rng {
 public:
  explicit Rng(uint64_t seed, std::string_view purpose = "") : state_(seed) {
    for (const char c : purpose) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }

  // SplitMix64.
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 to n - 1; 0 where there is nothing to choose from.
  int64_t below(int64_t n) { return n > 1 ? static_cast<int64_t>(next() % static_cast<uint64_t>(n)) : 0; }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool chance(double p) { return unit() < p; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // -1 to 1.
  float even() { return static_cast<float>(2 * unit() - 1); }
  template <class T>
  const T& pick(const std::vector<T>& of) {
    return of[static_cast<size_t>(below(static_cast<int64_t>(of.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace anemone::mutation
