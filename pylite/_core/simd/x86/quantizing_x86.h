/* QUANTIZE of float32 to 8 bits without the division unit, whose divisions take as long as ten products, and
 * DEQUANTIZE of bytes, for AVX2 and AVX-512; included by portable_unary.h alone. */
#if defined(__AVX512F__)
typedef __m512i quantized_ints;
#define V_INTS(op) _mm512_##op
#else
typedef __m256i quantized_ints;
#define V_INTS(op) _mm256_##op
#endif
/* pl_round_away32(x / scale), with pl_quotient() for the division */
PL_INLINE quantized_ints rounded_quotients(vf x, vf scale, vf inverse) {
  const vf estimate = V(mul_ps)(x, inverse), q = V_FMA(V(fnmadd_ps)(estimate, scale, x), inverse, estimate);
#if defined(__AVX512F__)
  const vf half = _mm512_castsi512_ps(_mm512_ternarylogic_epi32( /* 0.49999997 with the sign of q */
      _mm512_castps_si512(V_ALL(-0.0f)), _mm512_castps_si512(q), _mm512_castps_si512(V_ALL(0.49999997f)), 0xEA));
#else
  const vf half = V(or_ps)(V(and_ps)(q, V_ALL(-0.0f)), V_ALL(0.49999997f));
#endif
  return V_INTS(cvttps_epi32)(V(add_ps)(q, half)); /* INT32_MIN for NaN and numbers out of range */
}
#if defined(__AVX512F__)
#define ALL_ZERO(v) (_mm512_test_epi64_mask(v, v) == 0)
#else
#define ALL_ZERO(v) _mm256_testz_si256(v, v)
#endif
/* Products with a reciprocal that is 2^-21 too small and with one that is 2^-21 too large enclose the quotient.  The
 * addition of 1.5 2^23 rounds them to integers, which are the last bits of the sums.  If both are the same, they are the
 * result; otherwise the quotient is computed, because it is close to a half, far out of range, or NaN. */
PL_INLINE size_t quantize_blocks(size_t n, const float *x, uint8_t *y, const pl_quantize_p *p, int is_uint8) {
  enum { BLOCK = 4 * V_WIDTH, PATIENCE = 16 /* blocks without products after one whose products disagree */ };
  const float inverse = 1.0f / p->scale;
  const vf less = V_ALL(inverse * (1 - 0x1p-21f)), more = V_ALL(inverse * (1 + 0x1p-21f)), magic = V_ALL(12582912.0f);
  const quantized_ints zero = V_INTS(set1_epi32)(p->zero), bits = V_INTS(set1_epi32)(0x4B400000 - p->zero);
  size_t i = 0, exact = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    quantized_ints q[4], different = V_INTS(set1_epi32)(0);
    if (i >= exact) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        const vf v = V(loadu_ps)(x + i + k * V_WIDTH);
        const vf low = V(fmadd_ps)(v, less, magic), high = V(fmadd_ps)(v, more, magic);
        different |= (quantized_ints)V(sub_ps)(low, high); /* NaN less NaN is not 0, either */
        q[k] = V_INTS(sub_epi32)((quantized_ints)low, bits);
      }
    }
    if (i < exact || !ALL_ZERO(different)) {
      const vf scale = V_ALL(p->scale);
      for (int k = 0; k < 4; k++)
        q[k] = V_INTS(add_epi32)(rounded_quotients(V(loadu_ps)(x + i + k * V_WIDTH), scale, V_ALL(inverse)), zero);
      if (i >= exact) exact = i + PATIENCE * BLOCK;
    }
    /* Packing clamps, and interleaves 16-byte parts of vectors. */
    const quantized_ints a = V_INTS(packs_epi32)(q[0], q[1]), b = V_INTS(packs_epi32)(q[2], q[3]);
    const quantized_ints bytes = is_uint8 ? V_INTS(packus_epi16)(a, b) : V_INTS(packs_epi16)(a, b);
#if defined(__AVX512F__)
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(order, bytes));
#else
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(y + i), _mm256_permutevar8x32_epi32(bytes, order));
#endif
  }
  return i;
}
static void quantize_f32_i8(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  uint8_t *y = vy;
  pl_quantize_p p;
  size_t done = 0;
  memcpy(&p, vp, sizeof p);
  if (p.scale > 0x1p-100f && p.scale < 0x1p100f) { /* else the reciprocal is subnormal, or infinite */
    if (p.low == INT8_MIN && p.high == INT8_MAX) done = quantize_blocks(n, x, y, &p, 0);
    else if (p.low == 0 && p.high == UINT8_MAX) done = quantize_blocks(n, x, y, &p, 1);
  }
  quantize_by_division(n - done, x + done, y + done, vp);
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
