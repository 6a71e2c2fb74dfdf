// The kernels of fast.h for any processor: loops over arrays of one block, which compilers turn into vectors (NEON).
#include "kernels/fast_level.h"

#include <type_traits>
#include <utility>

#define FAST_INLINE inline
#if defined(__x86_64__)
#define FAST_UNROLL  // nearly nobody runs it there; unrolled it takes a minute to compile
#endif
namespace anemone::fast_portable {

constexpr int64_t kLanes = 8, kMostRows = 4, kPanels = 1, kSharedRows = 1;
constexpr int kEightNumbers = 9;
constexpr float kSignedShift = 0;
constexpr int64_t kValueBytes = 1;
constexpr int32_t kProductShift = 0;

struct Bytes {
  int8_t v[32];
};
struct Ints {
  int32_t v[8];
};
struct Floats {
  float v[8];
};

template <class T>
T load_as(const void* p) {
  T out;
  __builtin_memcpy(&out, p, sizeof out);
  return out;
}
inline Bytes load_bytes(const void* p) { return load_as<Bytes>(p); }
inline Ints load_ints(const void* p) { return load_as<Ints>(p); }
inline Floats load_floats(const void* p) { return load_as<Floats>(p); }
inline void store_bytes(const Bytes& v, void* p) { __builtin_memcpy(p, &v, sizeof v); }
inline void store_floats(const Floats& v, float* p) { __builtin_memcpy(p, &v, sizeof v); }
inline Ints zero_ints() { return {}; }
inline Floats zero_floats() { return {}; }

template <class T, class F>
T each(F f) {
  T out;
  for (int i = 0; i < static_cast<int>(std::extent_v<decltype(out.v)>); ++i) out.v[i] = f(i);
  return out;
}
inline Floats all_floats(float f) {
  return each<Floats>([&](int) { return f; });
}
inline Floats two_halves(float a, float) { return all_floats(a); }  // never asked for: a vector is one block
inline Floats to_floats(const Ints& v) {
  return each<Floats>([&](int i) { return static_cast<float>(v.v[i]); });
}
inline Floats add(const Floats& a, const Floats& b) {
  return each<Floats>([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats subtract(const Floats& a, const Floats& b) {
  return each<Floats>([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats multiply(const Floats& a, const Floats& b) {
  return each<Floats>([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
  return each<Floats>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
template <class V>
inline void keep_in_register(V&) {}
inline Bytes flip(const Bytes& v) {
  return each<Bytes>([&](int i) { return static_cast<int8_t>(v.v[i] ^ -128); });
}

inline void store_four_sums(const Floats* v, float* out) {
  for (int j = 0; j < 4; ++j) {
    const float* f = v[j].v;
    out[j] = ((f[0] + f[4]) + (f[1] + f[5])) + ((f[2] + f[6]) + (f[3] + f[7]));
  }
}

inline Ints add(const Ints& a, const Ints& b) {
  return each<Ints>([&](int i) { return a.v[i] + b.v[i]; });
}
inline Ints times_128(const Ints& v) {
  return each<Ints>([&](int i) { return v.v[i] * 128; });
}
inline Floats spread(const float* p, int64_t count) {
  return each<Floats>([&](int i) {
    const int block = i % 4 / 2 * 2 + i / 4;
    return block < count ? p[block] : 0.0f;
  });
}
inline Floats spread_four(const float* p, int64_t count) {
  return each<Floats>([&](int i) { return i / 4 < count ? p[i / 4] : 0.0f; });
}
inline Bytes first_halves(const Bytes& a, const Bytes& b) {
  return each<Bytes>([&](int i) { return i % 16 < 8 ? a.v[i] : b.v[i - 8]; });
}
inline Bytes second_halves(const Bytes& a, const Bytes& b) {
  return each<Bytes>([&](int i) { return i % 16 < 8 ? a.v[i + 8] : b.v[i]; });
}
inline Floats load_some_floats(const float* p, int64_t count) {
  return each<Floats>([&](int i) { return i < count ? p[i] : 0.0f; });
}
inline Bytes load_some(const uint8_t* p, int64_t count) {
  Bytes out = {};
  __builtin_memcpy(&out, p, static_cast<size_t>(count));
  return out;
}
struct Nibbles {
  Bytes even, odd;
};
inline Nibbles nibbles(const Bytes& v) {
  return {each<Bytes>([&](int i) { return static_cast<int8_t>(v.v[i] & 15); }),
          each<Bytes>([&](int i) { return static_cast<int8_t>((v.v[i] >> 4) & 15); })};
}

template <int kBits>
Bytes codes(const uint8_t* p) {
  return each<Bytes>([&](int i) {
    const int bit = i * kBits, shift = bit % 8;
    uint32_t word = p[bit / 8];
    if (shift + kBits > 8) word |= uint32_t{p[bit / 8 + 1]} << 8;
    return static_cast<int8_t>(word >> shift & ((1u << kBits) - 1));
  });
}

template <int kBits>
class Table {
 public:
  explicit Table(const std::byte* plane) : plane_(reinterpret_cast<const int8_t*>(plane)) {}
  Bytes look_up(const Bytes& code) const {
    return each<Bytes>([&](int i) { return plane_[static_cast<uint8_t>(code.v[i])]; });
  }

 private:
  const int8_t* plane_;
};

inline Ints dot(const Ints& sum, const Bytes& w, const Bytes& x) {
  Ints out = sum;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j) out.v[i] += int32_t{w.v[4 * i + j]} * x.v[4 * i + j];
  return out;
}
template <int kCount>
Ints dot_numbers(Ints sum, const Bytes* w, const Bytes* x) {
  for (int i = 0; i < kCount; ++i) sum = dot(sum, w[i], x[i]);
  return sum;
}
struct Signed {
  Bytes value;
};
inline Signed as_signed(const Bytes& v) { return {v}; }
inline Ints dot(const Ints& sum, const Signed& w, const Bytes& x) { return dot(sum, w.value, x); }
inline Ints dot_planes(const Bytes& high, const Bytes& low, const Bytes& x) {
  const Ints sum = dot(zero_ints(), high, x);
  return dot(times_128(sum), low, x);
}

inline void store_coarse(const Bytes& v, uint8_t* p) { store_bytes(v, p); }
inline void store_fine(const Bytes& high, const Bytes& low, uint8_t* p, uint8_t* q) {
  store_bytes(high, p);
  store_bytes(low, q);
}
struct Four {
  int8_t v[4];
};
inline Four four_bytes(const uint8_t* p) { return load_as<Four>(p); }
inline Ints dot_four(const Ints& sum, const Four& w, const Bytes& x) {
  Ints out = sum;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j) out.v[i] += int32_t{w.v[j]} * x.v[4 * i + j];
  return out;
}

inline Ints dot_four_small(const Ints& sum, const Four& w, const Bytes& x) { return dot_four(sum, w, x); }

#include "kernels/fast_loops-inl.h"

}  // namespace anemone::fast_portable

namespace anemone {
const FastLevel* fast_level_portable() {
  static constexpr FastLevel kLevel{.name = "portable",
                                    .lanes = fast_portable::kLanes,
                                    .value_bytes = fast_portable::kValueBytes,
                                    .split_bytes = fast_portable::split_bytes,
                                    .column = fast_portable::quantize_column,
                                    .matvec = fast_portable::matvec_level,
                                    .pack = fast_portable::pack_panel,
                                    .gemm = fast_portable::gemm_level};
  return &kLevel;
}
}  // namespace anemone
