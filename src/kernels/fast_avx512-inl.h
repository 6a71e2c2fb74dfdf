// Vectors of 512 bits and what all levels with AVX-512 do with them; included inside their namespaces, as
// fast_loops-inl.h says.

using Bytes = __m512i;
using Ints = __m512i;
using Floats = __m512;

FAST_INLINE Bytes load_bytes(const void* p) { return _mm512_loadu_si512(p); }
FAST_INLINE void store_bytes(Bytes v, void* p) { _mm512_storeu_si512(p, v); }
FAST_INLINE Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
FAST_INLINE Floats load_floats(const void* p) { return _mm512_loadu_ps(p); }
FAST_INLINE void store_floats(Floats v, float* p) { _mm512_storeu_ps(p, v); }
FAST_INLINE Ints zero_ints() { return _mm512_setzero_si512(); }
FAST_INLINE Floats zero_floats() { return _mm512_setzero_ps(); }
FAST_INLINE Floats all_floats(float f) { return _mm512_set1_ps(f); }
FAST_INLINE Floats two_halves(float a, float b) {
  return _mm512_mask_broadcastss_ps(_mm512_set1_ps(a), 0xff00, _mm_set_ss(b));
}
FAST_INLINE Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
FAST_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
FAST_INLINE Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
FAST_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
FAST_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
template <class V>
FAST_INLINE void keep_in_register(V& v) {
  asm("" : "+v"(v));
}
FAST_INLINE Bytes flip(Bytes v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }

FAST_INLINE __m256 fold(Floats v) {
  return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
FAST_INLINE void store_four_sums(const Floats* v, float* out) {
  const __m256 ab = _mm256_hadd_ps(fold(v[0]), fold(v[1])), cd = _mm256_hadd_ps(fold(v[2]), fold(v[3]));
  const __m256 all = _mm256_hadd_ps(ab, cd);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

FAST_INLINE Ints times_128(Ints v) { return _mm512_slli_epi32(v, 7); }
FAST_INLINE Floats spread(const float* p, int64_t count) {
  const Ints lanes = _mm512_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7);
  const __m256 some = _mm256_maskz_loadu_ps(static_cast<__mmask8>((1 << count) - 1), p);
  return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(some));
}
FAST_INLINE Floats spread_four(const float* p, int64_t count) {
  const Ints lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m128 some = _mm_maskz_loadu_ps(static_cast<__mmask8>((1 << count) - 1), p);
  return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(some));
}
FAST_INLINE Floats load_some_floats(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
FAST_INLINE Bytes first_halves(Bytes a, Bytes b) { return _mm512_unpacklo_epi64(a, b); }
FAST_INLINE Bytes second_halves(Bytes a, Bytes b) { return _mm512_unpackhi_epi64(a, b); }
FAST_INLINE Bytes load_some(const uint8_t* p, int64_t count) {
  return _mm512_maskz_loadu_epi8((1ull << count) - 1, p);
}
