/* Micro-kernels of two operands, y[i] = f(a[i], b[i]), one of which may be a single element; included by portable.c
 * alone. */
#include "fitted.h"
#if defined(__AVX2__)
#include "x86/pairs_x86.h"
#endif

#define BINARY_LOOP(LOOP, name, A_TYPE, B_TYPE, Y_TYPE, P_TYPE, expression) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const A_TYPE *pa = va; \
    const B_TYPE *pb = vb; \
    Y_TYPE *py = vy; \
    P_TYPE p; \
    memcpy(&p, vp, sizeof p); \
    if (a_step && b_step) { \
      LOOP \
      for (size_t i = 0; i < n; i++) { \
        A_TYPE a = pa[i]; \
        B_TYPE b = pb[i]; \
        py[i] = (Y_TYPE)(expression); \
      } \
    } else if (a_step) { \
      const B_TYPE b = *pb; \
      LOOP \
      for (size_t i = 0; i < n; i++) { \
        A_TYPE a = pa[i]; \
        py[i] = (Y_TYPE)(expression); \
      } \
    } else { \
      const A_TYPE a = *pa; \
      LOOP \
      for (size_t i = 0; i < n; i++) { \
        B_TYPE b = pb[i]; \
        py[i] = (Y_TYPE)(expression); \
      } \
    } \
  }
#define BINARY_KERNEL(...) BINARY_LOOP(PL_INDEPENDENT, __VA_ARGS__)
/* BINARY_KERNEL in a third of the code, for operations that are expensive or rare: a scalar operand is first expanded
 * to an array, which takes little time compared with the operation. */
enum { EXPANDED = 256 };
#define COSTLY_KERNEL(name, A_TYPE, B_TYPE, Y_TYPE, P_TYPE, expression) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const A_TYPE *all_a = va; \
    const B_TYPE *all_b = vb; \
    A_TYPE a_expanded[EXPANDED]; \
    B_TYPE b_expanded[EXPANDED]; \
    P_TYPE p; \
    memcpy(&p, vp, sizeof p); \
    size_t m = a_step && b_step ? n : n < EXPANDED ? n : EXPANDED; \
    for (size_t i = 0; !a_step && i < m; i++) a_expanded[i] = *all_a; \
    for (size_t i = 0; !b_step && i < m; i++) b_expanded[i] = *all_b; \
    for (size_t done = 0; done < n; done += m) { \
      const A_TYPE *pa = a_step ? all_a + done : a_expanded; \
      const B_TYPE *pb = b_step ? all_b + done : b_expanded; \
      Y_TYPE *py = (Y_TYPE *)vy + done; \
      m = m < n - done ? m : n - done; \
      PL_INDEPENDENT \
      for (size_t i = 0; i < m; i++) { \
        A_TYPE a = pa[i]; \
        B_TYPE b = pb[i]; \
        py[i] = (Y_TYPE)(expression); \
      } \
    } \
  }
#define COSTLY(name, TYPE, P_TYPE, expression) COSTLY_KERNEL(name, TYPE, TYPE, TYPE, P_TYPE, expression)
#define ARITHMETIC(name, TYPE, P_TYPE, expression) BINARY_KERNEL(name, TYPE, TYPE, TYPE, P_TYPE, expression)
#define BINARY_TIGHT_FLOAT(name, P_TYPE, expression) BINARY_LOOP(PL_TIGHT, name, float, float, float, P_TYPE, expression)

/* ---- float32, clamped to the fused activation ---- */
PL_LOOSE_BEGIN
BINARY_TIGHT_FLOAT(add_f32, range_f_p, pl_clampf(a + b, p.low, p.high))
BINARY_TIGHT_FLOAT(sub_f32, range_f_p, pl_clampf(a - b, p.low, p.high))
BINARY_TIGHT_FLOAT(mul_f32, range_f_p, pl_clampf(a *b, p.low, p.high))
BINARY_TIGHT_FLOAT(maximum_f32, none_p, a > b ? a : b)
BINARY_TIGHT_FLOAT(minimum_f32, none_p, a < b ? a : b)
BINARY_TIGHT_FLOAT(prelu_f32, none_p, a >= 0.0f ? a : a * b)
BINARY_TIGHT_FLOAT(squared_difference_f32, none_p, (a - b) * (a - b))
PL_LOOSE_END
ARITHMETIC(div_f32, float, range_f_p, pl_clampf(a / b, p.low, p.high))
/* in float64, because float32 would round quotients just below a whole number up to it */
ARITHMETIC(floor_div_f32, float, none_p, (float)floor((double)a / (double)b))

/* ---- float16, computed in float32, a block at a time ---- */
#define BINARY_HALF(name, of_float) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *p) { \
    const uint16_t *a = va, *b = vb; \
    uint16_t *y = vy; \
    float fa[HALF_BLOCK], fb[HALF_BLOCK]; \
    for (size_t m; n; n -= m, a += m * (size_t)a_step, b += m * (size_t)b_step, y += m) { \
      m = n < HALF_BLOCK ? n : HALF_BLOCK; \
      half_to_float(a_step ? m : 1, a, fa, p); \
      half_to_float(b_step ? m : 1, b, fb, p); \
      of_float(m, fa, a_step, fb, b_step, a_step ? fa : fb, p); \
      float_to_half(m, a_step ? fa : fb, y, p); \
    } \
  }
BINARY_HALF(add_f16, add_f32)
BINARY_HALF(mul_f16, mul_f32)
BINARY_HALF(maximum_f16, maximum_f32)
BINARY_HALF(minimum_f16, minimum_f32)

/* ---- plain integers; they wrap, and are clamped to the fused activation ---- */
typedef struct { int32_t low, high; } range_i32_p;
typedef struct { uint32_t low, high; } range_u32_p;
typedef struct { int64_t low, high; } range_i64_p;
PL_INLINE int64_t clamp64(int64_t v, int64_t low, int64_t high) {
  v = v < low ? low : v;
  return v > high ? high : v;
}
#define INTEGER_KERNELS(suffix, TYPE, WRAPPING, P_TYPE, CLAMP) \
  ARITHMETIC(add_##suffix, TYPE, P_TYPE, CLAMP((TYPE)((WRAPPING)a + (WRAPPING)b), p.low, p.high)) \
  ARITHMETIC(sub_##suffix, TYPE, P_TYPE, CLAMP((TYPE)((WRAPPING)a - (WRAPPING)b), p.low, p.high)) \
  ARITHMETIC(mul_##suffix, TYPE, P_TYPE, CLAMP((TYPE)((WRAPPING)a * (WRAPPING)b), p.low, p.high))
INTEGER_KERNELS(i16, int16_t, uint32_t, range_i32_p, pl_clamp32)
INTEGER_KERNELS(i32, int32_t, uint32_t, range_i32_p, pl_clamp32)
INTEGER_KERNELS(i64, int64_t, uint64_t, range_i64_p, clamp64)
PL_INLINE uint32_t clamp_u32(uint32_t v, uint32_t low, uint32_t high) {
  v = v < low ? low : v;
  return v > high ? high : v;
}
ARITHMETIC(mul_u32, uint32_t, range_u32_p, clamp_u32(a *b, p.low, p.high))
/* b is not 0, which another kernel has checked; -2^31 / -1 saturates. */
PL_INLINE int32_t quotient(int32_t a, int32_t b) {
  if (b == -1) return a == INT32_MIN ? INT32_MAX : -a;
  return a / b;
}
ARITHMETIC(div_i32, int32_t, range_i32_p, pl_clamp32(quotient(a, b), p.low, p.high))

/* The quotient rounded down, and its remainder.  Computed in float64, which never rounds a quotient of int32 up to a
 * whole number. */
PL_INLINE int32_t whole_part(int32_t a, int32_t b) {
  return b == -1 ? (int32_t)(0 - (uint32_t)a) : (int32_t)((double)a / (double)b);
}
PL_INLINE int32_t floor_div(int32_t a, int32_t b) {
  int32_t q = whole_part(a, b), r = (int32_t)((uint32_t)a - (uint32_t)q * (uint32_t)b);
  return q - ((r != 0) & ((r ^ b) < 0));
}
PL_INLINE int32_t floor_mod(int32_t a, int32_t b) {
  int32_t r = (int32_t)((uint32_t)a - (uint32_t)whole_part(a, b) * (uint32_t)b);
  return r + (-(int32_t)((r != 0) & ((r ^ b) < 0)) & b);
}
ARITHMETIC(floor_div_i32, int32_t, none_p, floor_div(a, b))
ARITHMETIC(floor_mod_i32, int32_t, none_p, floor_mod(a, b))

/* POW, b >= 0, as float64 gives it; out of range it is -2^31, as x86-64 converts it.  From b = 32 on, only the parity
 * of b matters, because only powers of 0, 1 and -1 are in range. */
PL_INLINE int32_t whole_power(int32_t a, int32_t b) {
  const int32_t least = b < 32 ? b : 30 | (b & 1), beyond = (b >= 32) & ((uint32_t)a + 1 > 2);
  double r = least & 1 ? a : 1, square = a;
  for (int k = 1; k < 5; k++) {
    square *= square;
    r = least >> k & 1 ? r * square : r;
  }
  return !beyond && r > -2147483649.0 && r < 2147483648.0 ? (int32_t)r : INT32_MIN;
}
COSTLY(pow_i32, int32_t, none_p, whole_power(a, b))
/* POW with one exponent for all elements, which the reference computes by multiplication in 32 bits; y may be a. */
static void pow_modulo_i32(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const uint32_t *a = va, exponent = n ? *(const uint32_t *)vb : 0;
  uint32_t *y = vy, square[EXPANDED];
  (void)b_step, (void)vp;
  for (size_t m; n; n -= m, a += m * (size_t)a_step, y += m) {
    const uint32_t *factor = a_step ? a : square;
    int begun = 0; /* is y a product, or 1 without being written yet? */
    m = n < EXPANDED ? n : EXPANDED;
    for (size_t i = 0; i < m && !a_step; i++) square[i] = *a;
    for (uint32_t b = exponent; b; b >>= 1) {
      if (b & 1) {
        if (begun)
          for (size_t i = 0; i < m; i++) y[i] *= square[i];
        else memmove(y, factor, m * sizeof *y);
        begun = 1;
      }
      if (b > 1)
        for (size_t i = 0; i < m; i++) square[i] = factor[i] * factor[i];
      factor = square;
    }
    for (size_t i = 0; i < m && !begun; i++) y[i] = 1;
  }
}

#define EXTREMES(suffix, TYPE) \
  ARITHMETIC(maximum_##suffix, TYPE, none_p, a > b ? a : b) \
  ARITHMETIC(minimum_##suffix, TYPE, none_p, a < b ? a : b)
EXTREMES(i8, int8_t)
EXTREMES(u8, uint8_t)
EXTREMES(i16, int16_t)
EXTREMES(i32, int32_t)
EXTREMES(i64, int64_t)

/* of either sign */
COSTLY(add_i8, uint8_t, none_p, a + b)
COSTLY(mul_i8, uint8_t, none_p, a *b)
COSTLY(squared_difference_i32, int32_t, none_p, ((uint32_t)a - (uint32_t)b) * ((uint32_t)a - (uint32_t)b))

/* ---- comparisons; inverted: the result is negated ---- */
typedef struct { int32_t inverted; } compare_p;
#if defined(__ARM_NEON)
#define COMPARISON_KERNEL BINARY_KERNEL /* loading a scalar operand from an array takes longer than comparing */
#else
#define COMPARISON_KERNEL COSTLY_KERNEL
#endif
#define COMPARISON(name, TYPE, operator) \
  COMPARISON_KERNEL(name, TYPE, TYPE, uint8_t, compare_p, (uint8_t)(a operator b) ^ (uint8_t)p.inverted)
COMPARISON(less_f32, float, <)
COMPARISON(less_i16, int16_t, <)
COMPARISON(less_i32, int32_t, <)
COMPARISON(less_i64, int64_t, <)
COMPARISON(less_equal_f32, float, <=)
COMPARISON(equal_f32, float, ==)
COMPARISON(equal_i16, int16_t, ==)
COMPARISON(equal_i32, int32_t, ==)
COMPARISON(equal_i64, int64_t, ==)
/* EQUAL of int16: both on the common scale, a block at a time; a single operand is computed once. */
static void common_16(size_t n, const int16_t *x, int step, const int32_t p[3], int32_t *y) {
  const int32_t zero = p[0], m = p[1], e = p[2];
  for (size_t i = 0; i < (step ? n : 1); i++) y[i] = pl_rdbpot_any(pl_mul_high(pl_shl32(x[i] - zero, 8), m), -e);
  for (size_t i = 1; i < n && !step; i++) y[i] = y[0];
}
static void equal_q16(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const int16_t *a = va, *b = vb;
  int32_t p[7], left[EXPANDED], right[EXPANDED]; /* p: inverted; zero point, multiplier, exponent of a, then of b */
  memcpy(p, vp, sizeof p);
  const uint8_t inverted = (uint8_t)p[0];
  uint8_t *y = vy;
  size_t m = n < EXPANDED ? n : EXPANDED;
  if (!a_step) common_16(m, a, 0, p + 1, left);
  if (!b_step) common_16(m, b, 0, p + 4, right);
  for (; n; n -= m, a += m, b += m, y += m) {
    m = n < EXPANDED ? n : EXPANDED;
    if (a_step) common_16(m, a, 1, p + 1, left);
    if (b_step) common_16(m, b, 1, p + 4, right);
    for (size_t i = 0; i < m; i++) y[i] = (left[i] == right[i]) ^ inverted;
  }
}
COSTLY(and_bool, uint8_t, none_p, (a != 0) & (b != 0))
COSTLY(or_bool, uint8_t, none_p, (a != 0) | (b != 0))

/* ---- quantized (section 5); flip: 0x80 makes uint8 int8, with zero points less 128 ---- */
#define BYTE(v) (int8_t)((v) ^ p.flip)

PL_INLINE int32_t sum_one(int32_t a, int32_t b, sum_q_p p) {
  a = pl_mbqm_small(pl_shl32(a - p.a_zero, p.left), p.a_m, p.a_e);
  b = pl_mbqm_small(pl_shl32(b - p.b_zero, p.left), p.b_m, p.b_e);
  int32_t sum = a + ((b ^ p.sign) - p.sign);
  return pl_clamp32(pl_mbqm_small(sum, p.y_m, p.y_e) + p.y_zero, p.low, p.high);
}

COSTLY(sum_by_rule_q8, uint8_t, sum_q_p, sum_one(BYTE(a), BYTE(b), p) ^ p.flip)
#if !defined(__AVX2__)
#define FITTED_BYTE(v) (int8_t)((v) ^ p.rule.flip)
#if !defined(__aarch64__)
COSTLY(short_sum_q8, uint8_t, pl_fitted_sum, pl_short_sum(FITTED_BYTE(a), FITTED_BYTE(b), &p) ^ p.rule.flip)
#else
#define short_sum_q8 fitted_sum_q8
#endif
COSTLY(fitted_sum_q8, uint8_t, pl_fitted_sum, pl_sum_fitted(FITTED_BYTE(a), FITTED_BYTE(b), &p) ^ p.rule.flip)
#endif
static void sum_q8(size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *vp) {
  const pl_fitted_sum *p = vp;
  (!p->fraction ? sum_by_rule_q8 : p->short_form ? short_sum_q8 : fitted_sum_q8)(n, a, a_step, b, b_step, y, vp);
}
COSTLY(sum_q16, int16_t, sum_q_p, sum_one(a, b, p))

typedef struct { int32_t a_shift, b_shift, low, high; } sum_pot_p;
PL_INLINE int32_t difference_pot(int32_t a, int32_t b, sum_pot_p p) {
  return pl_clamp32(pl_rdbpot16(a, p.a_shift) - pl_rdbpot16(b, p.b_shift), p.low, p.high);
}
COSTLY(add_pot16, int16_t, sum_pot_p,
       pl_clamp32(pl_sat16(pl_rdbpot16(a, p.a_shift) + pl_rdbpot16(b, p.b_shift)), p.low, p.high))
COSTLY(sub_pot16, int16_t, sum_pot_p, difference_pot(a, b, p))

PL_INLINE int32_t product_one(int32_t a, int32_t b, product_q_p p) {
  return pl_clamp32(pl_mbqm32((a - p.a_zero) * (b - p.b_zero), p.m, p.e) + p.y_zero, p.low, p.high);
}
COSTLY(mul_by_rule_q8, uint8_t, product_q_p, product_one(BYTE(a), BYTE(b), p) ^ p.flip)
#if !defined(__AVX2__)
COSTLY(product_pairs_q8, uint8_t, pl_fitted_product, pl_product_fitted(BYTE(a), BYTE(b), &p) ^ p.flip)
#define product_pairs product_pairs_q8
#endif
static void mul_q8(size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *p) {
  (((const pl_fitted_product *)p)->scale > 0 ? product_pairs : mul_by_rule_q8)(n, a, a_step, b, b_step, y, p);
}
COSTLY(mul_q16, int16_t, product_q_p, product_one(a, b, p))
/* int16 to 8 bits: operands count as Q15, whatever their scales */
COSTLY_KERNEL(mul_q16_q8, int16_t, int16_t, uint8_t, product_q_p,
              pl_clamp32(pl_rdbpot(pl_srdhm16(a, b), 8) + p.y_zero, p.low, p.high) ^ p.flip)

/* b differs from its zero point, which another kernel has checked. */
PL_INLINE int32_t quotient_one(int32_t a, int32_t b, product_q_p p) {
  return pl_clamp32(pl_div_q(a - p.a_zero, b - p.b_zero, p.m, p.e) + p.y_zero, p.low, p.high);
}
COSTLY(div_q8, uint8_t, product_q_p, quotient_one(BYTE(a), BYTE(b), p) ^ p.flip)
COSTLY(div_q16, int16_t, product_q_p, quotient_one(a, b, p))

typedef struct { int32_t a_zero, b_zero, y_zero, low, high, flip, m, e, negative_m, negative_e; } prelu_q_p;
PL_INLINE int32_t prelu_one(int32_t a, int32_t b, prelu_q_p p) {
  a -= p.a_zero;
  int32_t r = a >= 0 ? pl_mbqm32(a, p.m, p.e) : pl_mbqm32(a * (b - p.b_zero), p.negative_m, p.negative_e);
  return pl_clamp32(r + p.y_zero, p.low, p.high);
}
COSTLY(prelu_q8, uint8_t, prelu_q_p, prelu_one(BYTE(a), BYTE(b), p) ^ p.flip)
COSTLY_KERNEL(prelu_q16, int16_t, int8_t, int16_t, prelu_q_p, prelu_one(a, b, p))
