/* Softmax of rows of at least V_WIDTH floats for AVX2 and AVX-512; included by portable_softmax.h alone.
 *
 * The last vector of a row ends with it, and overlaps the one before.  It is read before the others are written,
 * because y may be x. */
#if defined(__AVX512F__)
#define v_largest(v) _mm512_reduce_max_ps(v)
#define v_sum(v) _mm512_reduce_add_ps(v)
/* v without its first n lanes */
PL_INLINE vf v_behind(vf v, size_t n) { return _mm512_maskz_mov_ps((__mmask16)(0xFFFF << n), v); }
#else
#define V_REDUCED(name, op) \
  PL_INLINE float name(vf v) { \
    __m128 r = op##_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); \
    r = op##_ps(r, _mm_movehl_ps(r, r)); \
    return _mm_cvtss_f32(op##_ss(r, _mm_movehdup_ps(r))); \
  }
V_REDUCED(v_largest, _mm_max)
V_REDUCED(v_sum, _mm_add)
PL_INLINE vf v_behind(vf v, size_t n) {
  static const int32_t lanes[2 * V_WIDTH] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
  return V(and_ps)(v, V(loadu_ps)((const float *)(lanes + V_WIDTH - n)));
}
#endif
/* The largest of n >= V_WIDTH numbers; NaN may be among them. */
PL_INLINE float largest_of(size_t n, const float *x) {
  const size_t last = n - V_WIDTH;
  vf a = V(loadu_ps)(x + last), b = a;
  size_t i = 0;
  for (; i + V_WIDTH < last; i += 2 * V_WIDTH)
    a = V(max_ps)(a, V(loadu_ps)(x + i)), b = V(max_ps)(b, V(loadu_ps)(x + i + V_WIDTH));
  if (i < last) a = V(max_ps)(a, V(loadu_ps)(x + i));
  return v_largest(V(max_ps)(a, b));
}
/* softmax_f32 for beta >= 0 and n >= V_WIDTH. */
static void softmax_rows(size_t rows, size_t n, float beta, const float *x, float *y) {
  const size_t last = n - V_WIDTH;
  for (; rows; rows--, x += n, y += n) {
    const vf top = V_ALL(largest_of(n, x)), factor = V_ALL(beta);
    vf ending = V(loadu_ps)(x + last), sum = V_ALL(0.0f), other = sum;
    size_t i = 0;
#define EXPONENT(v) v_exp_negative(V(mul_ps)(V(sub_ps)(v, top), factor))
    for (; i + V_WIDTH < last; i += 2 * V_WIDTH) {
      const vf a = EXPONENT(V(loadu_ps)(x + i)), b = EXPONENT(V(loadu_ps)(x + i + V_WIDTH));
      V(storeu_ps)(y + i, a);
      V(storeu_ps)(y + i + V_WIDTH, b);
      sum = V(add_ps)(sum, a), other = V(add_ps)(other, b);
    }
    if (i < last) {
      const vf a = EXPONENT(V(loadu_ps)(x + i));
      V(storeu_ps)(y + i, a);
      sum = V(add_ps)(sum, a);
      i += V_WIDTH;
    }
    ending = EXPONENT(ending);
#undef EXPONENT
    sum = V(add_ps)(V(add_ps)(sum, other), v_behind(ending, i - last));
    const vf reciprocal = V_ALL(1.0f / v_sum(sum));
    for (i = 0; i < last; i += V_WIDTH) V(storeu_ps)(y + i, V(mul_ps)(V(loadu_ps)(y + i), reciprocal));
    V(storeu_ps)(y + last, V(mul_ps)(ending, reciprocal));
  }
}
