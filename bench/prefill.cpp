// How fast a prompt goes through a bundle: the first call of a fresh process (plans are made, pages of the weights are
// touched) and the best of the calls after it, for the last position's logits and for all of them.
//     bench_prefill BUNDLE [tokens [threads [seconds per figure]]]
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/session.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("bench_prefill BUNDLE [tokens [threads [seconds]]]\n"), 2;
  const int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 44;
  const double limit_s = argc > 4 ? std::atof(argv[4]) : 2;
  const auto bundle = Bundle::open(argv[1], {.threads = argc > 3 ? std::atoi(argv[3]) : 0});
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + 37 * i % 1000);
  Session session(bundle);
  const auto run = [&](bool last_only) {
    session.rewind(0);
    const std::vector<float> logits = session.forward(ids, last_only);
    if (logits.empty()) std::abort();
  };
  const double start = seconds();
  run(true);
  const double first = seconds() - start;
  const double last = best(limit_s, [&] { run(true); }), all = best(limit_s, [&] { run(false); });
  const auto line = [&](const char* name, double took) {
    fmt::print("{:<24} {:8.1f} ms {:8.1f} tok/s\n", name, 1e3 * took, static_cast<double>(tokens) / took);
  };
  fmt::print("{} tokens\n", tokens);
  line("first call, last logits", first);
  line("last logits", last);
  line("all logits", all);
}
