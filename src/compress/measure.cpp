#include "compress/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/thread_pool.h"

namespace anemone {

double decibels(double signal, double noise) {
  return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

Measured measure(const Weight& before, const Weight& after, ThreadPool& pool) {
  constexpr int64_t kPart = 1 << 16;
  const int64_t count = before.type.size(), parts = (count + kPart - 1) / kPart;
  std::vector<Measured> found(static_cast<size_t>(parts));
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> a(kPart), b(kPart);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPart, n = std::min(kPart, count - first);
      before.stored->read(first, first + n, a.data());
      after.stored->read(first, first + n, b.data());
      Measured& m = found[static_cast<size_t>(p)];
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const double v = static_cast<double>(a[i]), d = static_cast<double>(b[i]) - v;
        m.signal += v * v;
        m.noise += d * d;
        m.zeros += b[i] == 0;
      }
    }
  });
  Measured out;
  for (const Measured& m : found) {
    out.signal += m.signal;
    out.noise += m.noise;
    out.zeros += m.zeros;
  }
  for (const Weight* w : {&before, &after})
    if (w->file) w->file->release(0, w->file->size());
  return out;
}

}  // namespace anemone
