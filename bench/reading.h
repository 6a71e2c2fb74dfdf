// How fast all threads together read memory: what decoding cannot exceed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "timing.h"

namespace anemone::bench {

// GB/s over memory that is larger than the caches of most machines: the best of reading that leaves it to the processor
// what to fetch, and of reading that asks for memory ahead, as the kernels do.
inline double read_rate(ThreadPool& pool, const Buffer& memory, double limit_s) {
  std::vector<uint64_t> sums(64);
  const auto words = static_cast<int64_t>(memory.size() / 8 / 64);
  const auto rate = [&](int64_t ahead) {
    const double took = median(limit_s / 3, [&] {
      pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
        const auto* from = reinterpret_cast<const uint64_t*>(memory.data());
        for (int64_t p = begin; p < end; ++p) {
          uint64_t s[8] = {};
          for (int64_t i = 0; i < words; i += 8) {
            if (ahead > 0) __builtin_prefetch(from + p * words + i + ahead / 8, 0, 2);
            for (int64_t j = 0; j < 8; ++j) s[j] += from[p * words + i + j];
          }
          for (const uint64_t v : s) sums[static_cast<size_t>(p)] += v;
        }
      });
    });
    return 1e-9 * static_cast<double>(memory.size()) / took;
  };
  return std::max({rate(0), rate(4096), rate(8192)});
}

}  // namespace anemone::bench
