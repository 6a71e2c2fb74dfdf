// What is measured, and how: clocks, medians, tokens to feed.
//     const auto begin = MeasureClock::now();
//     session.forward_best(some_ids(16, vocab));
//     times.push_back(ms_since(begin));
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace anemone {

using MeasureClock = std::chrono::steady_clock;

inline double ms_since(MeasureClock::time_point begin) {
  return std::chrono::duration<double, std::milli>(MeasureClock::now() - begin).count();
}

// 0 where there is nothing.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Tokens of all kinds: what they say does not matter for the time.
inline std::vector<int32_t> some_ids(int64_t count, int64_t vocab) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>((i * 7919 + 11) % vocab));
  return out;
}

}  // namespace anemone
