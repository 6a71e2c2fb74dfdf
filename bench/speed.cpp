// Runs a bundle as it is told, line by line on standard input, and answers each line with a number, so that another
// program can take turns with it (generate_peers.py).
//     bench_speed BUNDLE [threads [arithmetic]]
//     prefill 64          a prompt of so many tokens, from an empty cache: tokens per second
//     decode 32           so many tokens one by one, behind the prompt: tokens per second
//     read 0              the machine's memory by the same threads: GB/s
//     weights 0           what decoding a token reads: GB
// The first prompt is that of a process: the bundle is open, and ready as `anemone run` makes it. Other first calls
// make their plans: ask twice.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "reading.h"
#include "runtime/session.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

namespace {

double prefill(Session& session, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + 37 * i % 1000);
  session.rewind(0);
  const double start = seconds();
  session.forward(ids, true);
  return static_cast<double>(count) / (seconds() - start);
}

double decode(Session& session, int64_t count) {
  auto token = static_cast<int32_t>(100);
  const double start = seconds();
  for (int64_t i = 0; i < count; ++i)
    token = static_cast<int32_t>(session.forward_best(std::span(&token, 1)));
  return static_cast<double>(count) / (seconds() - start);
}

double read_memory(int threads) {
  Buffer memory(uint64_t{256} << 20);
  std::memset(memory.data(), 1, memory.size());
  ThreadPool pool(threads);
  return read_rate(pool, memory, 0.3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("bench_speed BUNDLE [threads [arithmetic]]\n"), 2;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const auto bundle = Bundle::open(
      argv[1],
      cpu_backend({.arithmetic = parse_arithmetic(argc > 3 ? argv[3] : "fast"), .threads = threads}));
  Session session(bundle);
  session.get_ready(64);
  bundle->fetch_weights();
  std::string what;
  int64_t count = 0;
  while (std::cin >> what >> count) {
    const double answer =
        what == "prefill"  ? prefill(session, count)
        : what == "decode" ? decode(session, count)
        : what == "read"   ? read_memory(threads)
                           : 1e-9 * static_cast<double>(bundle->weight_bytes() - bundle->embedding().bytes());
    fmt::print("{:.4f}\n", answer);
    std::fflush(stdout);
  }
}
