// Runs a bundle as it is told, line by line on standard input, and answers each line with tokens per second, so that
// another program can take turns with it (generate_peers.py).
//     bench_speed BUNDLE [threads [arithmetic]]
//     prefill 64          a prompt of so many tokens, from an empty cache
//     decode 32           so many tokens one by one, behind the prompt
// The first call of a kind makes its plans: ask twice.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "runtime/session.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("bench_speed BUNDLE [threads [arithmetic]]\n"), 2;
  const auto bundle =
      Bundle::open(argv[1], cpu_backend({.arithmetic = parse_arithmetic(argc > 3 ? argv[3] : "fast"),
                                         .threads = argc > 2 ? std::atoi(argv[2]) : 0}));
  Session session(bundle);
  std::string what;
  int64_t count = 0;
  while (std::cin >> what >> count) {
    double took = 0;
    if (what == "prefill") {
      std::vector<int32_t> ids(static_cast<size_t>(count));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + 37 * i % 1000);
      session.rewind(0);
      const double start = seconds();
      session.forward(ids, true);
      took = seconds() - start;
    } else {
      auto token = static_cast<int32_t>(100);
      const double start = seconds();
      for (int64_t i = 0; i < count; ++i)
        token = static_cast<int32_t>(session.forward_best(std::span(&token, 1)));
      took = seconds() - start;
    }
    fmt::print("{:.2f}\n", static_cast<double>(count) / took);
    std::fflush(stdout);
  }
}
