// How fast a matrix meets one vector, as decoding a token does it: weights beyond the cache, each kind as it is
// stored, on 1 thread and on all; beside it, the rate at which the same bytes are only read.
//     bench_matvec [seconds per figure]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "kernels/matvec.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

int main(int argc, char** argv) {
  const double limit_s = argc > 1 ? std::atof(argv[1]) : 0.5;
  constexpr int64_t kBytes = int64_t{128} << 20;
  const Buffer weights(kBytes);
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < kBytes / 8; ++i)
    reinterpret_cast<uint64_t*>(weights.data())[i] = random() & 0x3b3b3b3b3b3b3b3bull;  // small in every type
  std::vector<float> table(256);
  for (size_t i = 0; i < table.size(); ++i) table[i] = 0.01f * static_cast<float>(i);
  fmt::print("{:>7} {:>6} {:>8} | {:>10} {:>10} {:>12}\n", "kind", "k", "threads", "GB/s", "read GB/s",
             "weights/ns");
  for (const auto& [kind, name] :
       {std::pair(WeightKind::fp32, "fp32"), std::pair(WeightKind::fp16, "fp16"),
        std::pair(WeightKind::int8, "int8"), std::pair(WeightKind::uint8_shifted, "uint8"),
        std::pair(WeightKind::table8, "table 8"), std::pair(WeightKind::table6, "table 6"),
        std::pair(WeightKind::table4, "table 4"), std::pair(WeightKind::table3, "table 3"),
        std::pair(WeightKind::table2, "table 2"), std::pair(WeightKind::table1, "table 1")})
    for (const int64_t k : {int64_t{576}, int64_t{1536}, int64_t{4864}})
      for (const int threads : {1, 0}) {
        ThreadPool pool(threads);
        const int64_t bytes = k * weight_bits(kind) / 8, rows = kBytes / bytes;
        std::vector<float> x(static_cast<size_t>(k), 0.5f), out(static_cast<size_t>(rows));
        std::vector<WeightRow> all(static_cast<size_t>(rows));
        for (int64_t r = 0; r < rows; ++r)
          all[static_cast<size_t>(r)] = {weights.data() + r * bytes, table.data()};
        const double took = best(limit_s, [&] {
          pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
            if (kind <= WeightKind::int8)
              matvec(kind, all[static_cast<size_t>(begin)].data, end - begin, k, x.data(), 1,
                     out.data() + begin, 0);
            else
              matvec(kind, all.data() + begin, end - begin, weights.data() + kBytes, k, x.data(), 1,
                     out.data() + begin, 0);
          });
        });
        std::vector<uint64_t> sums(64);
        const double read = best(limit_s, [&] {
          pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
            const auto* words = reinterpret_cast<const uint64_t*>(weights.data());
            constexpr int64_t kWords = kBytes / 8 / 64;
            for (int64_t p = begin; p < end; ++p) {
              uint64_t s[8] = {};
              for (int64_t i = 0; i < kWords; i += 8)
                for (int64_t j = 0; j < 8; ++j) s[j] += words[p * kWords + i + j];
              for (const uint64_t v : s) sums[static_cast<size_t>(p)] += v;
            }
          });
        });
        fmt::print("{:>7} {:>6} {:>8} | {:10.1f} {:10.1f} {:12.1f}\n", name, k, pool.threads(),
                   1e-9 * static_cast<double>(rows * bytes) / took, 1e-9 * static_cast<double>(kBytes) / read,
                   1e-9 * static_cast<double>(rows * k) / took);
      }
}
