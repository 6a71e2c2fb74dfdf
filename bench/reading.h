// How fast all threads together read memory: what decoding cannot exceed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "timing.h"

namespace anemone::bench {

// GB/s over memory that no cache holds.
inline double read_rate(ThreadPool& pool, const Buffer& memory, double limit_s) {
  std::vector<uint64_t> sums(64);
  const auto words = static_cast<int64_t>(memory.size() / 8 / 64);
  const double took = median(limit_s, [&] {
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
      const auto* from = reinterpret_cast<const uint64_t*>(memory.data());
      for (int64_t p = begin; p < end; ++p) {
        uint64_t s[8] = {};
        for (int64_t i = 0; i < words; i += 8)
          for (int64_t j = 0; j < 8; ++j) s[j] += from[p * words + i + j];
        for (const uint64_t v : s) sums[static_cast<size_t>(p)] += v;
      }
    });
  });
  return 1e-9 * static_cast<double>(memory.size()) / took;
}

}  // namespace anemone::bench
