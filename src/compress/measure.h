// The error of a form: the written weight compared with the original, both decoded as any reader would.
//     const Measured m = measure(before, after, pool);
//     decibels(m.signal, m.noise);                                    // 40: about 7 good bits
#pragma once

#include <cstdint>

#include "compress/weight.h"

namespace anemone {

class ThreadPool;

struct Measured {
  double signal = 0, noise = 0;  // sums of squares: of the values, of what they are off by
  int64_t zeros = 0;
};

Measured measure(const Weight& before, const Weight& after, ThreadPool& pool);

// Infinite without noise.
double decibels(double signal, double noise);

}  // namespace anemone
