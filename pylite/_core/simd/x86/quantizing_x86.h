/* QUANTIZE of float32 to 8 bits by products with the reciprocal of the scale; included by portable_unary.h alone.
 *
 * A division takes as long as ten products.  A block of numbers is divided only if one of them is so near to a half that
 * its quotient could be rounded to another integer, or near 2^31.  The quotient, rounded to float32, and the product are
 * less than NEAR_HALF apart below 512; beyond it results are clamped.  Conversions give INT32_MIN for numbers out of
 * range and for NaN, as pl_round_away32() does. */
#define NEAR_HALF 0x1p-13f
enum { QUANTIZED_BLOCK = sizeof(vf) }; /* four vectors of floats, one vector of bytes */
#if defined(__AVX512F__)
typedef __m512i quantized_ints;
#define V_INTS(op) _mm512_##op
#define V_INTS_OF(v) _mm512_cvtps_epi32(v)
#define V_FARTHEST(v, most) _mm512_range_ps(v, most, 0xB) /* the larger magnitude, without sign */
#define V_ABOVE(v, bound) _mm512_cmp_ps_mask(v, V_ALL(bound), _CMP_GT_OQ)
#else
typedef __m256i quantized_ints;
#define V_INTS(op) _mm256_##op
#define V_INTS_OF(v) _mm256_cvtps_epi32(v)
#define V_FARTHEST(v, most) V(max_ps)(V(andnot_ps)(V_ALL(-0.0f), v), most) /* the second one for NaN */
#define V_ABOVE(v, bound) _mm256_movemask_ps(_mm256_cmp_ps(v, V_ALL(bound), _CMP_GT_OQ))
#endif
/* Stores a block, clamped to uint8 or int8. */
PL_INLINE void store_quantized(const quantized_ints q[4], int is_uint8, uint8_t *y) {
#if defined(__AVX512F__)
  for (int k = 0; k < 4; k++)
    _mm_storeu_si128((__m128i *)y + k, is_uint8 ? _mm512_cvtusepi32_epi8(_mm512_max_epi32(q[k], _mm512_setzero_si512()))
                                                : _mm512_cvtsepi32_epi8(q[k]));
#else
  const __m256i a = _mm256_packs_epi32(q[0], q[1]), b = _mm256_packs_epi32(q[2], q[3]);
  const __m256i bytes = is_uint8 ? _mm256_packus_epi16(a, b) : _mm256_packs_epi16(a, b);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256((__m256i *)y, _mm256_permutevar8x32_epi32(bytes, order));
#endif
}
PL_INLINE size_t quantize_blocks(size_t n, const float *x, uint8_t *y, const pl_quantize_p *p, int is_uint8) {
  const vf inverse = V_ALL(1.0f / p->scale);
  const quantized_ints zero = V_INTS(set1_epi32)(p->zero);
  size_t i = 0;
  for (; i + QUANTIZED_BLOCK <= n; i += QUANTIZED_BLOCK) {
    quantized_ints q[4];
    vf farthest = V_ALL(0.0f), most = V_ALL(0.0f);
    for (int k = 0; k < 4; k++) {
      const vf v = V(mul_ps)(V(loadu_ps)(x + i + k * V_WIDTH), inverse);
      q[k] = V_INTS_OF(v);
      farthest = V_FARTHEST(V(sub_ps)(v, V(cvtepi32_ps)(q[k])), farthest);
      most = V_FARTHEST(v, most);
      q[k] = V_INTS(add_epi32)(q[k], zero);
    }
    if (V_ABOVE(farthest, 0.5f - NEAR_HALF) | V_ABOVE(most, 0x1p30f))
      quantize_by_division(QUANTIZED_BLOCK, x + i, y + i, p);
    else store_quantized(q, is_uint8, y + i);
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
