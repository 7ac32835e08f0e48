/* row_of_nibbles (see gemm_neon.h) for NEON without dotprod; included by gemm_neon.c alone.
 *
 * A byte holds a weight of each of two steps of eight. */

/* The products of the lower or the upper halves of two vectors, added to `sum` unless they are the first. */
PL_INLINE int16x8_t half_products(int upper, int first, int16x8_t sum, int8x16_t a, int8x16_t b) {
#if defined(__aarch64__)
  if (upper) return first ? vmull_high_s8(a, b) : vmlal_high_s8(sum, a, b);
#endif
  const int8x8_t c = upper ? vget_high_s8(a) : vget_low_s8(a), d = upper ? vget_high_s8(b) : vget_low_s8(b);
  return first ? vmull_s8(c, d) : vmlal_s8(sum, c, d);
}
/* Adds the products of two columns, `deep` steps of eight each, to the lanes of their sums.  A 16-bit lane has room for
 * 31 products of 8 and 4 bits.  x: eight numbers of the row for each step, in both halves. */
PL_INLINE void two_columns(int deep, const int8x16_t x[4], const uint8_t *w, int32x4_t lanes[2]) {
  int16x8_t sum[2] = {vdupq_n_s16(0), vdupq_n_s16(0)};
#pragma GCC unroll 2
  for (int d = 0; d < deep; d += 2, w += NR * KR) {
    const int8x16_t both = vreinterpretq_s8_u8(vld1q_u8(w));
    const int8x16_t v0 = vshrq_n_s8(vshlq_n_s8(both, 4), 4), v1 = vshrq_n_s8(both, 4);
#pragma GCC unroll 2
    for (int c = 0; c < 2; c++) sum[c] = half_products(c, d == 0, sum[c], v0, x[d]);
#pragma GCC unroll 2
    for (int c = 0; c < 2; c++) sum[c] = half_products(c, 0, sum[c], v1, x[d + 1]);
  }
#pragma GCC unroll 2
  for (int c = 0; c < 2; c++) lanes[c] = vpadalq_s16(lanes[c], sum[c]);
}
/* Eight bytes, at any address, in both halves. */
PL_INLINE int8x16_t twice(const int8_t *x) {
#if defined(__aarch64__)
  return vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)x));
#else /* where this load needs aligned addresses */
  return vcombine_s8(vld1_s8(x), vld1_s8(x));
#endif
}
PL_INLINE void row_of_nibbles(int V, ptrdiff_t size, const int8_t *a, const uint8_t *w, int32x4_t acc[4]) {
  int32x4_t lanes[8];
#pragma GCC unroll 8
  for (int c = 0; c < 4 * V; c++) lanes[c] = vdupq_n_s32(0);
#define STEPS(deep) \
  { \
    int8x16_t x[4]; \
    _Pragma("GCC unroll 4") for (int d = 0; d < (deep); d++) x[d] = twice(a + k + 8 * d); \
    _Pragma("GCC unroll 4") for (int c = 0; c < 4 * V; c += 2) two_columns(deep, x, w + 8 * c, lanes + c); \
  }
  ptrdiff_t k = 0;
  for (; k + 32 <= size; k += 32, w += 2 * NR * KR) STEPS(4)
  if (k < size) STEPS(2)
#undef STEPS
#pragma GCC unroll 2
  for (int v = 0; v < V; v++)
    acc[v] = four_sums(lanes[4 * v], lanes[4 * v + 1], lanes[4 * v + 2], lanes[4 * v + 3]);
}
