/* QUANTIZE of float32 to 8 bits without the division unit, whose divisions take as long as ten products, and
 * DEQUANTIZE of bytes, for AVX2 and AVX-512; included by portable_unary.h alone. */
#if defined(__AVX512F__)
typedef __m512i quantized_ints;
#define V_INTS(op) _mm512_##op
#else
typedef __m256i quantized_ints;
#define V_INTS(op) _mm256_##op
#endif
/* x + half, with the sign of x, truncated; INT32_MIN for NaN and numbers out of range */
PL_INLINE quantized_ints rounded(vf x, float half) {
#if defined(__AVX512F__)
  const vf signed_half = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(V_ALL(-0.0f)), _mm512_castps_si512(x), _mm512_castps_si512(V_ALL(half)), 0xEA));
#else
  const vf signed_half = V(or_ps)(V(and_ps)(x, V_ALL(-0.0f)), V_ALL(half));
#endif
  return V_INTS(cvttps_epi32)(V(add_ps)(x, signed_half));
}
/* pl_round_away32(x / scale), with pl_quotient() for the division */
PL_INLINE quantized_ints rounded_quotients(vf x, vf scale, vf inverse) {
  const vf estimate = V(mul_ps)(x, inverse);
  return rounded(V_FMA(V(fnmadd_ps)(estimate, scale, x), inverse, estimate), 0.49999997f);
}
#if defined(__AVX512F__)
#define ALL_ZERO(v) (_mm512_test_epi64_mask(v, v) == 0)
#else
#define ALL_ZERO(v) _mm256_testz_si256(v, v)
#endif
/* Stores bytes that were packed twice, which clamps, and interleaves 16-byte parts of vectors. */
PL_INLINE void store_packed(quantized_ints bytes, uint8_t *y) {
#if defined(__AVX512F__)
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, bytes));
#else
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256((__m256i *)y, _mm256_permutevar8x32_epi32(bytes, order));
#endif
}
/* Products with a reciprocal that is 2^-21 too small and with one that is 2^-21 too large enclose the quotient.  If both
 * have the same nearest integer, that is the result; otherwise the quotient, which is close to a half, is computed.
 * What no int32 holds becomes INT32_MIN, and the rule adds the zero point to it modulo 2^32: with a negative zero point
 * the sum is a large number.  Reciprocals are negative for these, and the products are subtracted, so that saturation
 * gives the same. */
PL_INLINE size_t quantize_blocks(size_t n, const float *x, uint8_t *y, const pl_quantize_p *p, int is_uint8,
                                 int negative) {
  enum { BLOCK = 4 * V_WIDTH, PATIENCE = 16 /* blocks without products after one whose products disagree */ };
  const float inverse = 1.0f / p->scale, factor = negative ? -inverse : inverse;
  const vf less = V_ALL(factor * (1 - 0x1p-21f)), more = V_ALL(factor * (1 + 0x1p-21f));
  const quantized_ints zero = V_INTS(set1_epi32)(p->zero), zero16 = V_INTS(set1_epi16)((int16_t)p->zero);
  size_t i = 0, exact = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    quantized_ints pair[2], other[2]; /* 16-bit numbers, in the order of packing */
    if (i >= exact) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; k++) {
        const vf u = V(loadu_ps)(x + i + 2 * k * V_WIDTH), v = V(loadu_ps)(x + i + (2 * k + 1) * V_WIDTH);
        pair[k] = V_INTS(packs_epi32)(V_INTS(cvtps_epi32)(V(mul_ps)(u, less)), V_INTS(cvtps_epi32)(V(mul_ps)(v, less)));
        other[k] = V_INTS(packs_epi32)(V_INTS(cvtps_epi32)(V(mul_ps)(u, more)), V_INTS(cvtps_epi32)(V(mul_ps)(v, more)));
      }
    }
    if (i >= exact && ALL_ZERO((pair[0] ^ other[0]) | (pair[1] ^ other[1]))) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; k++)
        pair[k] = negative ? V_INTS(subs_epi16)(zero16, pair[k]) : V_INTS(adds_epi16)(zero16, pair[k]);
    } else {
      const vf scale = V_ALL(p->scale);
      quantized_ints q[4];
      for (int k = 0; k < 4; k++)
        q[k] = V_INTS(add_epi32)(rounded_quotients(V(loadu_ps)(x + i + k * V_WIDTH), scale, V_ALL(inverse)), zero);
      pair[0] = V_INTS(packs_epi32)(q[0], q[1]), pair[1] = V_INTS(packs_epi32)(q[2], q[3]);
      if (i >= exact) exact = i + PATIENCE * BLOCK;
    }
    const quantized_ints bytes =
        is_uint8 ? V_INTS(packus_epi16)(pair[0], pair[1]) : V_INTS(packs_epi16)(pair[0], pair[1]);
    store_packed(bytes, y + i);
  }
  return i;
}
static void quantize_f32_i8(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  uint8_t *y = vy;
  pl_quantize_p p;
  size_t done = 0;
  memcpy(&p, vp, sizeof p);
  /* else the reciprocal is subnormal or infinite, or the zero point is no number of the type */
  if (p.scale > 0x1p-100f && p.scale < 0x1p100f && p.low <= p.zero && p.zero <= p.high) {
    if (p.low == 0 && p.high == UINT8_MAX) done = quantize_blocks(n, x, y, &p, 1, 0);
    else if (p.low == INT8_MIN && p.high == INT8_MAX)
      done = p.zero < 0 ? quantize_blocks(n, x, y, &p, 0, 1) : quantize_blocks(n, x, y, &p, 0, 0);
  }
  quantize_by_division(n - done, x + done, y + done, vp);
}

/* The quantization of hybrid operators, by pl_round_half32().  For a negative zero point the factor is negative, and
 * ~v + 1 is -v: see quantize_blocks(). */
static __attribute__((noinline)) void quantize_s8(ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric,
                                                  int flip, uint8_t *y) {
  enum { BLOCK = 4 * V_WIDTH };
  const int negative = zero < 0;
  const vf factor = V_ALL(negative ? -inverse : inverse);
  const quantized_ints sign = V_INTS(set1_epi16)((int16_t)-negative);
  const quantized_ints shift = V_INTS(set1_epi16)((int16_t)(zero + negative));
  const quantized_ints low = V_INTS(set1_epi8)(asymmetric ? -128 : -127), flips = V_INTS(set1_epi8)((char)flip);
  float few[BLOCK] = {0};
  uint8_t results[BLOCK], *to = n < BLOCK ? results : y;
  if (n < BLOCK) x = memcpy(few, x, n * sizeof *x);
  for (ptrdiff_t next = 0; next < n; next += BLOCK) {
    const ptrdiff_t i = next <= n - BLOCK || n < BLOCK ? next : n - BLOCK; /* the last block overlaps the one before */
    quantized_ints q[4];
    for (int k = 0; k < 4; k++) q[k] = rounded(V(mul_ps)(V(loadu_ps)(x + i + k * V_WIDTH), factor), 0.5f);
    q[0] = V_INTS(adds_epi16)(V_INTS(packs_epi32)(q[0], q[1]) ^ sign, shift);
    q[1] = V_INTS(adds_epi16)(V_INTS(packs_epi32)(q[2], q[3]) ^ sign, shift);
    store_packed(V_INTS(max_epi8)(V_INTS(packs_epi16)(q[0], q[1]), low) ^ flips, to + i);
  }
  if (n < BLOCK) memcpy(y, results, n);
}

#if defined(__AVX512F__)
#define LOAD_BYTES(p) _mm_loadu_si128((const __m128i *)(p))
#else
#define LOAD_BYTES(p) _mm_loadl_epi64((const __m128i *)(p))
#endif
/* Widens bytes in one step; gcc does it in two, with more shuffles.  The last vectors may be computed twice. */
#define DEQUANTIZE_BYTES(name, TYPE, widen) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    enum { BLOCK = 4 * V_WIDTH }; \
    const TYPE *x = vx; \
    float *y = vy; \
    dequantize_p p; \
    memcpy(&p, vp, sizeof p); \
    const vf scale = V_ALL(p.scale); \
    const quantized_ints zero = V_INTS(set1_epi32)(p.zero); \
    for (size_t i = 0; n < BLOCK && i < n; i++) y[i] = p.scale * (float)(x[i] - p.zero); \
    for (size_t next = 0; n >= BLOCK && next < n; next += BLOCK) { \
      const size_t i = next < n - BLOCK ? next : n - BLOCK; \
      for (int k = 0; k < BLOCK; k += V_WIDTH) { \
        const quantized_ints q = V_INTS(sub_epi32)(V_INTS(widen)(LOAD_BYTES(x + i + k)), zero); \
        V(storeu_ps)(y + i + k, V(mul_ps)(scale, V(cvtepi32_ps)(q))); \
      } \
    } \
  }
DEQUANTIZE_BYTES(dequantize_i8, int8_t, cvtepi8_epi32)
DEQUANTIZE_BYTES(dequantize_u8, uint8_t, cvtepu8_epi32)
#undef LOAD_BYTES
