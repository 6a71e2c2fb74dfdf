// How the benchmarks time things.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

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

}  // namespace anemone::bench
