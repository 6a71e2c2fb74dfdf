// Decoding many texts at once: sessions side by side, one pass over the weights a step, beside one session alone.
//     bench_batch BUNDLE [threads] [steps] [fill] [arithmetic]
// Prints tokens per second of all sessions together and how many times one session that is. `fill`: positions that each
// session has behind it before the clock starts. "worked" is the time of all threads together: with one thread it is
// what a step costs, whatever else runs on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "runtime/batch.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

namespace {

struct Text {
  std::unique_ptr<Session> session;
  std::vector<int32_t> next;
};

struct Took {
  double s = 1e9, worked_s = 1e9;
};

// For a step of all texts: the best of three runs of `steps`.
Took step_of(const std::shared_ptr<const Bundle>& bundle, int64_t count, int64_t steps, int64_t fill) {
  Took best;
  for (int round = 0; round < 3; ++round) {
    std::vector<Text> texts;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int32_t> prompt;
      for (int64_t t = 0; t < fill; ++t)
        prompt.push_back(static_cast<int32_t>(100 + (37 * t + 11 * i) % 1000));
      texts.push_back({std::make_unique<Session>(bundle), {}});
      texts.back().next = {static_cast<int32_t>(texts.back().session->forward_best(prompt))};
    }
    const auto step = [&] {
      std::vector<Batch::Turn> turns;
      for (Text& text : texts) turns.push_back({text.session.get(), text.next, {}, -1});
      Batch::forward_best(turns);
      for (int64_t i = 0; i < count; ++i)
        texts[static_cast<size_t>(i)].next = {static_cast<int32_t>(turns[static_cast<size_t>(i)].best)};
    };
    step();
    const double start = seconds(), worked = worked_seconds();
    for (int64_t i = 0; i < steps; ++i) step();
    best.s = std::min(best.s, (seconds() - start) / static_cast<double>(steps));
    best.worked_s = std::min(best.worked_s, (worked_seconds() - worked) / static_cast<double>(steps));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("usage: bench_batch BUNDLE [threads] [steps] [fill] [arithmetic]\n"), 2;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int64_t steps = argc > 3 ? std::atoll(argv[3]) : 24, fill = argc > 4 ? std::atoll(argv[4]) : 32;
  const Arithmetic arithmetic = argc > 5 ? parse_arithmetic(argv[5]) : Arithmetic::fast;
  const auto bundle = Bundle::open(argv[1], cpu_backend({.arithmetic = arithmetic, .threads = threads}));
  Took alone;
  fmt::print("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "sessions", "ms a step", "tok/s", "times one",
             "worked ms", "times one");
  for (const int64_t count : {1, 2, 3, 4, 6, 8, 12, 16}) {
    const Took took = step_of(bundle, count, steps, fill);
    if (count == 1) alone = took;
    const auto n = static_cast<double>(count);
    fmt::print("{:8} {:10.2f} {:10.1f} {:10.2f} {:10.2f} {:10.2f}\n", count, 1e3 * took.s, n / took.s,
               n * alone.s / took.s, 1e3 * took.worked_s, n * alone.worked_s / took.worked_s);
    std::fflush(stdout);
  }
}
