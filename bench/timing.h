// How the benchmarks time things.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <vector>

namespace anemone::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What all threads of this process have worked; other work on the machine does not count.
inline double worked_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The best time of one run: other work on the machine only ever makes it longer.
template <class Run>
double best(double limit_s, Run run) {
  run();
  double shortest = 1e9;
  for (const double start = seconds(); seconds() - start < limit_s;) {
    const double t = seconds();
    run();
    shortest = std::min(shortest, seconds() - t);
  }
  return shortest;
}

// The middle of the times, for a machine whose clock or memory has moments that do not last.
template <class Run>
double median(double limit_s, Run run) {
  run();
  std::vector<double> times;
  for (const double start = seconds(); seconds() - start < limit_s || times.size() < 5;) {
    const double t = seconds();
    run();
    times.push_back(seconds() - t);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace anemone::bench
