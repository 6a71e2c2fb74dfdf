// How fast a prompt goes through a bundle: the first call of a fresh process (plans are made, pages of the weights
// are touched) and the best of the calls after it, for the last position's logits and for all of them. "worked" is
// the time of all threads together: with one thread it is what the call costs, whatever else runs on the machine.
//     bench_prefill BUNDLE [tokens [threads [seconds per figure [arithmetic]]]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "runtime/session.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("bench_prefill BUNDLE [tokens [threads [seconds [arithmetic]]]]\n"), 2;
  const int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 44;
  const double limit_s = argc > 4 ? std::atof(argv[4]) : 2;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 0;
  const Arithmetic arithmetic = argc > 5 ? parse_arithmetic(argv[5]) : Arithmetic::fp32;
  const auto bundle = Bundle::open(argv[1], cpu_backend({.arithmetic = arithmetic, .threads = threads}));
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + 37 * i % 1000);
  Session session(bundle);
  const auto run = [&](bool last_only) {
    session.rewind(0);
    const std::vector<float> logits = session.forward(ids, last_only);
    if (logits.empty()) std::abort();
  };
  fmt::print("{} tokens\n{:<24} {:>8} {:>8} {:>10}\n", tokens, "", "ms", "tok/s", "worked ms");
  const auto line = [&](const char* name, bool last_only, double limit) {
    double took = 1e9, worked = 1e9;
    const double start = seconds();
    do {
      const double t = seconds(), w = worked_seconds();
      run(last_only);
      took = std::min(took, seconds() - t);
      worked = std::min(worked, worked_seconds() - w);
    } while (seconds() - start < limit);
    fmt::print("{:<24} {:8.1f} {:8.1f} {:10.1f}\n", name, 1e3 * took, static_cast<double>(tokens) / took,
               1e3 * worked);
  };
  line("first call, last logits", true, 0);
  line("last logits", true, limit_s);
  line("all logits", false, limit_s);
}
