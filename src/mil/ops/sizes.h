// Arithmetic on dimensions for the ops of this folder that move data: sums and products, checked for
// overflow.
//     Shape out{plus(x.dim(0), before + after), scaled(x.dim(1), factor)};
#pragma once

#include <cstdint>

#include "base/error.h"
#include "mil/type.h"

namespace anemone::ops {

// a + b; unknown when a is not a number and b is not 0.
inline Dim plus(Dim a, int64_t b) {
  if (!a.known()) return b == 0 ? a : Dim::unknown();
  int64_t out = 0;
  if (__builtin_add_overflow(a.size(), b, &out) || out < 0 || out > (int64_t{1} << 62))
    throw errorf("a dimension of {} {:+} is outside what a tensor can have", a.size(), b);
  return out;
}

// a * b, where b is not negative.
inline Dim scaled(Dim a, int64_t b) {
  const Dim out = a.times(b);
  if (a.known() && !out.known())
    throw errorf("a dimension of {} * {} is larger than a tensor can have", a.size(), b);
  return out;
}

// What two inputs that must agree in a dimension say together.
inline Dim merged(Dim a, Dim b) {
  if (a.known() && b.known() && a != b)
    throw errorf("dimensions of {} and {} must be equal", a.size(), b.size());
  return a.known() ? a : b.known() || a.is_unknown() ? b : a;
}

}  // namespace anemone::ops
