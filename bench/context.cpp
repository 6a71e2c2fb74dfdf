// Decoding behind a long text: tokens per second with 128 to 8,192 positions filled, and the memory of the cache.
//     bench_context BUNDLE [arithmetic] [threads] [steps] [most]
// One session reads on and decodes `steps` tokens at each length, up to the end of the bundle's context; the figure is
// the middle of three such runs. "worked" is the time of all threads together: with one thread it is what a token
// costs, whatever else runs on the machine; the best of the three.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "runtime/session.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("bench_context BUNDLE [arithmetic] [threads] [steps] [most]\n"), 2;
  const Arithmetic arithmetic = parse_arithmetic(argc > 2 ? argv[2] : "fast");
  const int threads = argc > 3 ? std::atoi(argv[3]) : 0;
  const int64_t steps = argc > 4 ? std::atoll(argv[4]) : 16, most = argc > 5 ? std::atoll(argv[5]) : 8192;
  const auto bundle = Bundle::open(argv[1], cpu_backend({.arithmetic = arithmetic, .threads = threads}));
  Session session(bundle);
  constexpr int kRuns = 3;
  fmt::print("{:>8} {:>12} {:>10} {:>12} {:>12}\n", "filled", "ms a token", "tok/s", "worked, ms",
             "cache, MB");
  const int64_t end = std::min(most, session.capacity() - kRuns * steps);
  for (int64_t step = 128, fill = 0; fill < end; step *= 2) {
    fill = std::min(step, end);
    std::vector<int32_t> ids;
    for (int64_t t = session.position(); t < fill; ++t)
      ids.push_back(static_cast<int32_t>(100 + 37 * t % 1000));
    int32_t next = static_cast<int32_t>(session.forward_best(ids));
    std::vector<double> times, worked;
    for (int run = 0; run < kRuns; ++run) {
      const double start = seconds(), before = worked_seconds();
      for (int64_t i = 0; i < steps; ++i)
        next = static_cast<int32_t>(session.forward_best(std::vector<int32_t>{next}));
      times.push_back((seconds() - start) / static_cast<double>(steps));
      worked.push_back((worked_seconds() - before) / static_cast<double>(steps));
    }
    std::sort(times.begin(), times.end());
    fmt::print("{:8} {:12.2f} {:10.1f} {:12.2f} {:12.1f}\n", fill, 1e3 * times[kRuns / 2],
               1 / times[kRuns / 2], 1e3 * *std::min_element(worked.begin(), worked.end()),
               static_cast<double>(session.memory().cache) * 1e-6);
    std::fflush(stdout);
  }
}
