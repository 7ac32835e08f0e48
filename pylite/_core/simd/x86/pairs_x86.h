/* Sums and products of two operands of bytes, by the short forms of fitted.h, for AVX2 and AVX-512; included by
 * portable_binary.h alone, after functions_vector.h.  Defines short_sum_q8(), fitted_sum_q8() and product_pairs(). */
#include <immintrin.h>

#if defined(__AVX512BW__)
typedef __m512i vi;
#define VI(op) _mm512_##op##_si512
#else
typedef __m256i vi;
#define VI(op) _mm256_##op##_si256
#endif
enum { VI_BYTES = sizeof(vi) };
#if defined(__AVX512VNNI__)
#define ADD_PRODUCTS(sum, x, w) _mm512_dpwssd_epi32(sum, x, w)
#else
#define ADD_PRODUCTS(sum, x, w) V(add_epi32)(sum, V(madd_epi16)(x, w))
#endif
/* Does a statement for k = 0 to 3. */
#define FOUR(statement) PL_UNROLL for (int k = 0; k < 4; k++) statement

/* How results become bytes, and operands are read. */
typedef struct { vi flip, zero, low, high; } byte_ends;
PL_INLINE byte_ends byte_ends_of(int32_t zero, int32_t low, int32_t high, int32_t flip) {
  return (byte_ends){V(set1_epi8)((char)flip), V(set1_epi16)((short)zero), V(set1_epi8)((char)low),
                     V(set1_epi8)((char)high)};
}
/* Stores four vectors of 32-bit results as bytes. */
PL_INLINE void put_bytes(const vi v[4], const byte_ends *e, void *y) {
  const vi first = V(adds_epi16)(V(packs_epi32)(v[0], v[1]), e->zero);
  const vi last = V(adds_epi16)(V(packs_epi32)(v[2], v[3]), e->zero);
  const vi bytes = V(min_epi8)(V(max_epi8)(V(packs_epi16)(first, last), e->low), e->high);
  VI(storeu)(y, VI(xor)(bytes, e->flip));
}
PL_INLINE vi operand_of(const void *x, const byte_ends *e) { return VI(xor)(VI(loadu)(x), e->flip); }

/* The members of pl_fitted_sum in all lanes; digits: those of both ratios, in the halves of a lane. */
typedef struct {
  byte_ends ends;
  vi digits[3], start, start_low, above, below;
  vi zero, step, offset, gain, mean, one, correction; /* of corrections; `correction` in pairs with start_low */
  __m128i fraction;
} sum_numbers;
PL_INLINE vi both_digits(int16_t a, int16_t b) {
  return V(set1_epi32)((int32_t)((uint32_t)(uint16_t)b << 16 | (uint16_t)a));
}
PL_INLINE sum_numbers sum_numbers_of(const pl_fitted_sum *p) {
  sum_numbers s = {.ends = byte_ends_of(p->rule.y_zero, p->rule.low, p->rule.high, p->rule.flip)};
  if (p->short_form) s.ends.zero = V(set1_epi16)((short)p->start);
  PL_UNROLL for (int k = 0; k < 3; k++) s.digits[k] = both_digits(p->a[k], p->b[k]);
  s.start = V(set1_epi32)(p->start), s.start_low = V(set1_epi32)(p->start_low);
  s.above = V(set1_epi32)(p->above), s.below = V(set1_epi32)(p->below - p->above);
  s.zero = V(set1_epi16)((short)p->zero), s.step = V(set1_epi16)((short)p->step);
  s.offset = V(set1_epi16)((short)p->offset), s.gain = V(set1_epi16)((short)p->gain);
  s.mean = V(set1_epi16)((short)p->mean), s.one = V(set1_epi16)(1);
  s.correction = both_digits(1 << (15 - PL_CORRECTION), (int16_t)p->start_low);
  s.fraction = _mm_cvtsi32_si128(p->fraction);
  return s;
}
/* w = the bytes x times 256, as 16-bit numbers, in an order that the packs of put_bytes() undo. */
PL_INLINE void widened(vi x, vi w[2]) {
  w[0] = V(unpacklo_epi8)(VI(xor)(x, x), x), w[1] = V(unpackhi_epi8)(VI(xor)(x, x), x);
}
/* v = pairs of a and b, times 256, as 16-bit halves of 32-bit lanes. */
PL_INLINE void paired(vi a, vi b, vi v[4]) {
  vi va[2], vb[2];
  widened(a, va);
  widened(b, vb);
  PL_UNROLL for (int k = 0; k < 2; k++)
    v[2 * k] = V(unpacklo_epi16)(va[k], vb[k]), v[2 * k + 1] = V(unpackhi_epi16)(va[k], vb[k]);
}
/* pl_short_sum() of a vector of bytes. */
PL_INLINE void short_sum_step(const sum_numbers *s, vi a, vi b, void *y) {
  vi v[4], low[4];
  paired(a, b, v);
  FOUR(low[k] = ADD_PRODUCTS(s->start_low, v[k], s->digits[1]);)
  FOUR(low[k] = ADD_PRODUCTS(V(srai_epi32)(low[k], PL_LOW_DIGIT), v[k], s->digits[0]);)
  FOUR(v[k] = V(srai_epi32)(low[k], PL_FRACTION + 8 - PL_LOW_DIGIT);)
  put_bytes(v, &s->ends, y);
}
/* low = start_low + pl_sum_correction() of the bytes x */
PL_INLINE void corrected(const sum_numbers *s, vi x, vi low[4]) {
  vi w[2];
  widened(x, w);
  PL_UNROLL for (int k = 0; k < 2; k++) {
    const vi d = V(sub_epi16)(V(srai_epi16)(w[k], 8), s->zero);
    const vi sign = V(srai_epi16)(d, 15), offset = V(add_epi16)(s->offset, sign);
    const vi phase = V(add_epi16)(V(mullo_epi16)(V(abs_epi16)(d), s->step), offset);
    const vi size = V(sub_epi16)(s->mean, V(mulhi_epi16)(phase, s->gain));
    const vi correction = V(sub_epi16)(VI(xor)(size, sign), sign);
    low[2 * k] = V(madd_epi16)(V(unpacklo_epi16)(correction, s->one), s->correction);
    low[2 * k + 1] = V(madd_epi16)(V(unpackhi_epi16)(correction, s->one), s->correction);
  }
}
/* pl_sum_fitted() of a vector of bytes; corrects: 0, or the operand that has corrections; three: ratios have a third
 * digit that is not 0. */
PL_INLINE void sum_step(int corrects, int three, const sum_numbers *s, vi a, vi b, void *y) {
  vi v[4], low[4];
  paired(a, b, v);
  if (corrects) corrected(s, corrects == 2 ? b : a, low);
  else FOUR(low[k] = s->start_low;)
  if (three) FOUR(low[k] = V(add_epi32)(V(srai_epi32)(V(madd_epi16)(v[k], s->digits[2]), 15), low[k]);)
  FOUR(low[k] = ADD_PRODUCTS(low[k], v[k], s->digits[1]);)
  FOUR(v[k] = ADD_PRODUCTS(s->start, v[k], s->digits[0]);)
  FOUR(v[k] = V(add_epi32)(v[k], V(srai_epi32)(low[k], 15));)
  FOUR(low[k] = VI(and)(V(srai_epi32)(v[k], 31), s->below);)
  FOUR(v[k] = V(sra_epi32)(V(add_epi32)(V(add_epi32)(v[k], s->above), low[k]), s->fraction);)
  put_bytes(v, &s->ends, y);
}

typedef struct { byte_ends ends; vi a_zero, b_zero; vf scale, half, sign; } product_numbers;
PL_INLINE product_numbers product_numbers_of(const pl_fitted_product *p) {
  return (product_numbers){byte_ends_of(p->y_zero, p->low, p->high, p->flip), V(set1_epi16)((short)p->a_zero),
                           V(set1_epi16)((short)p->b_zero), V_ALL(p->scale), V_ALL(p->half), V_ALL(-0.0f)};
}
/* pl_product_fitted() of a vector of bytes. */
PL_INLINE void product_step(const product_numbers *s, vi a, vi b, void *y) {
  vi x[2], w[2], v[4];
  widened(a, x);
  widened(b, w);
  PL_UNROLL for (int k = 0; k < 2; k++) {
    x[k] = V(sub_epi16)(V(srai_epi16)(x[k], 8), s->a_zero);
    w[k] = V(sub_epi16)(V(srai_epi16)(w[k], 8), s->b_zero);
    const vi low = V(mullo_epi16)(x[k], w[k]), high = V(mulhi_epi16)(x[k], w[k]);
    v[2 * k] = V(unpacklo_epi16)(low, high), v[2 * k + 1] = V(unpackhi_epi16)(low, high);
  }
  PL_UNROLL for (int k = 0; k < 4; k++) {
    const vf f = V(mul_ps)(V(cvtepi32_ps)(v[k]), s->scale);
    v[k] = V(cvttps_epi32)(V(add_ps)(f, V(or_ps)(V(and_ps)(f, s->sign), s->half)));
  }
  put_bytes(v, &s->ends, y);
}

/* STEP(a, b, y) for all elements, VI_BYTES at a time; the last ones and a single operand are copied. */
#define EACH_PAIR(STEP) \
  uint8_t a_line[VI_BYTES], b_line[VI_BYTES], y_line[VI_BYTES]; \
  if (!a_step) a = memset(a_line, *a, sizeof a_line); \
  if (!b_step) b = memset(b_line, *b, sizeof b_line); \
  for (size_t some; n; n -= some, a += VI_BYTES * a_step, b += VI_BYTES * b_step, y += VI_BYTES) { \
    uint8_t *to = y; \
    some = n < VI_BYTES ? n : VI_BYTES; \
    if (some < VI_BYTES) { \
      if (a_step) a = memcpy(a_line, a, some); \
      if (b_step) b = memcpy(b_line, b, some); \
      to = y_line; \
    } \
    STEP(operand_of(a, &s.ends), operand_of(b, &s.ends), to) \
    if (some < VI_BYTES) memcpy(y, y_line, some); \
  }

static void short_sum_q8(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const uint8_t *a = va, *b = vb;
  uint8_t *y = vy;
  const sum_numbers s = sum_numbers_of(vp);
#define STEP(a, b, y) short_sum_step(&s, a, b, y);
  EACH_PAIR(STEP)
#undef STEP
}
static void fitted_sum_q8(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const uint8_t *a = va, *b = vb;
  uint8_t *y = vy;
  const pl_fitted_sum *p = vp;
  const sum_numbers s = sum_numbers_of(p);
  const int corrects = p->corrected, three = p->a[2] || p->b[2];
#define STEP(a, b, y) sum_step(corrects, three, &s, a, b, y);
  EACH_PAIR(STEP)
#undef STEP
}
static void product_pairs(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *p) {
  const uint8_t *a = va, *b = vb;
  uint8_t *y = vy;
  const product_numbers s = product_numbers_of(p);
#define STEP(a, b, y) product_step(&s, a, b, y);
  EACH_PAIR(STEP)
#undef STEP
}
#undef FOUR
#undef ADD_PRODUCTS
