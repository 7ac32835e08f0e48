/* Element-wise micro-kernels (elementwise.h) for 64-bit NEON that take a few instructions: arithmetic of plain
 * integers, comparisons, and functions of one operand.  gcc's loops compute one vector of results at a time, whose
 * instructions wait for each other on an in-order core, and clamp int16 in 32 bits. */
#include "elementwise.h"
#include "neon.h"

#define EACH(n) _Pragma("GCC unroll 8") for (int k = 0; k < (n); k++)

/* A slot of two operands.  STEP: statements that compute results from the vectors first[k] and second[k], and store
 * them at y; LANES: elements of a vector; VECTORS: how many are loaded for a step; PREPARE: statements before the loop.
 * The last elements are copied and filled up.  Each form of the operands has a loop of its own: a single element stays
 * in a register. */
#define LINE(suffix, p, at) vld1q_##suffix(p + (at))
#define SAME(suffix, p, at) p##_all
#define LOOP(suffix, A, B, LANES, VECTORS, STEP) \
  for (; n >= LANES * VECTORS; n -= LANES * VECTORS, a += LANES * VECTORS * a_step, b += LANES * VECTORS * b_step, \
                               y += LANES * VECTORS) { \
    EACH(VECTORS) first[k] = A(suffix, a, LANES * k); \
    EACH(VECTORS) second[k] = B(suffix, b, LANES * k); \
    STEP \
  }
#define KERNEL(name, TYPE, VECTOR, suffix, Y_TYPE, LANES, VECTORS, PREPARE, STEP) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const TYPE *a = va, *b = vb; \
    const VECTOR a_all = vdupq_n_##suffix(*a), b_all = vdupq_n_##suffix(*b); \
    Y_TYPE *y = vy, last_y[LANES * VECTORS]; \
    TYPE last_a[LANES * VECTORS] = {0}, last_b[LANES * VECTORS] = {0}; \
    VECTOR first[VECTORS], second[VECTORS]; \
    PREPARE \
    if (a_step && b_step) LOOP(suffix, LINE, LINE, LANES, VECTORS, STEP) \
    else if (a_step) LOOP(suffix, LINE, SAME, LANES, VECTORS, STEP) \
    else LOOP(suffix, SAME, LINE, LANES, VECTORS, STEP) \
    const size_t left = n; \
    if (left == 0) return; \
    EACH(LANES * VECTORS) last_a[k] = *a, last_b[k] = *b; \
    if (a_step) memcpy(last_a, a, left * sizeof *a); \
    if (b_step) memcpy(last_b, b, left * sizeof *b); \
    Y_TYPE *const to = y; \
    a = last_a, b = last_b, y = last_y, n = LANES * VECTORS, a_step = b_step = 1; \
    LOOP(suffix, LINE, LINE, LANES, VECTORS, STEP) \
    memcpy(to, last_y, left * sizeof *y); \
  }

/* ---- arithmetic that wraps, and is then clamped ---- */
#define PLAIN_STEP(suffix, OPERATION, LANES) \
  EACH(4) vst1q_##suffix(y + LANES * k, OPERATION(first[k], second[k]));
#define CLAMPED_STEP(suffix, OPERATION, LANES) \
  EACH(4) first[k] = vminq_##suffix(vmaxq_##suffix(OPERATION(first[k], second[k]), low), high); \
  EACH(4) vst1q_##suffix(y + LANES * k, first[k]);
#define RANGE_16 \
  int32_t p[2]; \
  memcpy(p, vp, sizeof p); \
  const int16x8_t low = vdupq_n_s16((int16_t)(p[0] < INT16_MIN ? INT16_MIN : p[0])); \
  const int16x8_t high = vdupq_n_s16((int16_t)(p[1] > INT16_MAX ? INT16_MAX : p[1]));
#define RANGE_32 \
  int32_t p[2]; \
  memcpy(p, vp, sizeof p); \
  const int32x4_t low = vdupq_n_s32(p[0]), high = vdupq_n_s32(p[1]);
#define RANGE_64 \
  int64_t p[2]; \
  memcpy(p, vp, sizeof p); \
  const int64x2_t low = vdupq_n_s64(p[0]), high = vdupq_n_s64(p[1]); \
  const int whole = p[0] == INT64_MIN && p[1] == INT64_MAX;
#define STEP_64(OPERATION) \
  EACH(4) first[k] = OPERATION(first[k], second[k]); \
  if (!whole) EACH(4) first[k] = vbslq_s64(vcgtq_s64(low, first[k]), low, first[k]); \
  if (!whole) EACH(4) first[k] = vbslq_s64(vcgtq_s64(first[k], high), high, first[k]); \
  EACH(4) vst1q_s64(y + 2 * k, first[k]);
#define CLAMPED(name, operation) \
  KERNEL(name##_i16, int16_t, int16x8_t, s16, int16_t, 8, 4, RANGE_16, CLAMPED_STEP(s16, operation##_s16, 8)) \
  KERNEL(name##_i32, int32_t, int32x4_t, s32, int32_t, 4, 4, RANGE_32, CLAMPED_STEP(s32, operation##_s32, 4))
CLAMPED(add, vaddq)
CLAMPED(sub, vsubq)
CLAMPED(mul, vmulq)
KERNEL(add_i64, int64_t, int64x2_t, s64, int64_t, 2, 4, RANGE_64, STEP_64(vaddq_s64))
KERNEL(sub_i64, int64_t, int64x2_t, s64, int64_t, 2, 4, RANGE_64, STEP_64(vsubq_s64))

#define BYTES(name, OPERATION) \
  KERNEL(name, uint8_t, uint8x16_t, u8, uint8_t, 16, 4, (void)vp;, PLAIN_STEP(u8, OPERATION, 16))
#define EITHER(a, b) vminq_u8(vorrq_u8(a, b), vdupq_n_u8(1))
#define BOTH(a, b) vminq_u8(vminq_u8(a, b), vdupq_n_u8(1))
BYTES(add_i8, vaddq_u8)
BYTES(or_bool, EITHER)
BYTES(and_bool, BOTH)
#define EXTREME(name, operation) \
  BYTES(name##_u8, operation##_u8) \
  KERNEL(name##_i8, int8_t, int8x16_t, s8, int8_t, 16, 4, (void)vp;, PLAIN_STEP(s8, operation##_s8, 16)) \
  KERNEL(name##_i16, int16_t, int16x8_t, s16, int16_t, 8, 4, (void)vp;, PLAIN_STEP(s16, operation##_s16, 8)) \
  KERNEL(name##_i32, int32_t, int32x4_t, s32, int32_t, 4, 4, (void)vp;, PLAIN_STEP(s32, operation##_s32, 4))
EXTREME(maximum, vmaxq)
EXTREME(minimum, vminq)

/* ---- comparisons: 0 or 1, or the reverse where the parameter is 1 ---- */
/* A vector of elements half as wide for two masks. */
#define HALVED(a, b) vreinterpretq_u32_u16(vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)))
/* `inverted` leaves 1 where the mask v is set, or else where it is not. */
#define STORE_RESULTS(at, v) vst1q_u8(y + (at), vbicq_u8(one, veorq_u8(v, inverted)));
#define INVERTED \
  int32_t invert; \
  memcpy(&invert, vp, sizeof invert); \
  const uint8x16_t one = vdupq_n_u8(1), inverted = vdupq_n_u8(invert ? 0 : 255);
#define BYTES_OF_16(a, b) vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b))
#define BYTES_OF_32(a, b) vuzp1q_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b))
#define STEP_16(OPERATION) \
  uint16x8_t r[4]; \
  EACH(4) r[k] = OPERATION(first[k], second[k]); \
  EACH(2) STORE_RESULTS(16 * k, BYTES_OF_16(r[2 * k], r[2 * k + 1]))
#define STEP_32(OPERATION) \
  uint32x4_t r[8]; \
  EACH(8) r[k] = OPERATION(first[k], second[k]); \
  EACH(4) r[k] = HALVED(r[2 * k], r[2 * k + 1]); \
  EACH(2) STORE_RESULTS(16 * k, BYTES_OF_32(r[2 * k], r[2 * k + 1]))
#define COMPARE_64(OPERATION) \
  uint32x4_t r[8]; \
  EACH(8) r[k] = vreinterpretq_u32_u64(OPERATION(first[k], second[k])); \
  EACH(4) r[k] = vuzp1q_u32(r[2 * k], r[2 * k + 1]); \
  EACH(2) r[k] = HALVED(r[2 * k], r[2 * k + 1]); \
  STORE_RESULTS(0, BYTES_OF_32(r[0], r[1]))
#define COMPARISONS(name, operation) \
  KERNEL(name##_i16, int16_t, int16x8_t, s16, uint8_t, 8, 4, INVERTED, STEP_16(operation##_s16)) \
  KERNEL(name##_i32, int32_t, int32x4_t, s32, uint8_t, 4, 8, INVERTED, STEP_32(operation##_s32)) \
  KERNEL(name##_i64, int64_t, int64x2_t, s64, uint8_t, 2, 8, INVERTED, COMPARE_64(operation##_s64)) \
  KERNEL(name##_f32, float, float32x4_t, f32, uint8_t, 4, 8, INVERTED, STEP_32(operation##_f32))
COMPARISONS(less, vcltq)
COMPARISONS(equal, vceqq)
KERNEL(less_equal_f32, float, float32x4_t, f32, uint8_t, 4, 8, INVERTED, STEP_32(vcleq_f32))

/* ---- one operand ---- */
/* A slot whose STEP computes 16 elements r[k] from those at x. */
#define UNARY(name, X_TYPE, PREPARE, STEP) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const X_TYPE *x = vx; \
    float *y = vy, last_y[16]; \
    X_TYPE last_x[16] = {0}; \
    PREPARE \
    for (; n >= 16; n -= 16, x += 16, y += 16) { \
      float32x4_t r[4]; \
      STEP \
      EACH(4) vst1q_f32(y + 4 * k, r[k]); \
    } \
    if (n) { \
      float32x4_t r[4]; \
      x = memcpy(last_x, x, n * sizeof *x); \
      STEP \
      EACH(4) vst1q_f32(last_y + 4 * k, r[k]); \
      memcpy(y, last_y, n * sizeof *y); \
    } \
  }
#define FLOATS(name, OPERATION) \
  UNARY(name, float, (void)vp;, EACH(4) r[k] = vld1q_f32(x + 4 * k); EACH(4) r[k] = OPERATION(r[k]);)
#define SQUARE(v) vmulq_f32(v, v)
/* 1 with the sign of v; 0 for a zero of either sign, NaN for NaN */
PL_INLINE float32x4_t sign(float32x4_t v) {
  const uint32x4_t one = vreinterpretq_u32_f32(vdupq_n_f32(1)), bits = vreinterpretq_u32_f32(v);
  const uint32x4_t r = vbicq_u32(vbslq_u32(vdupq_n_u32(0x80000000), bits, one), vceqzq_f32(v));
  return vbslq_f32(vceqq_f32(v, v), vreinterpretq_f32_u32(r), v);
}
FLOATS(abs_f32, vabsq_f32)
FLOATS(neg_f32, vnegq_f32)
FLOATS(square_f32, SQUARE)
FLOATS(floor_f32, vrndmq_f32)
FLOATS(ceil_f32, vrndpq_f32)
FLOATS(round_f32, vrndnq_f32)
FLOATS(sign_f32, sign)

/* Dequantization.  Added to the bits of 2^23, a number without a sign becomes a float, which takes less time than a
 * conversion; `start` is 2^23 and the zero point, less the smallest number, and the difference is exact. */
typedef struct { float scale; int32_t zero; } dequantize_p;
#define DEQUANTIZING(LEAST) \
  dequantize_p p; \
  memcpy(&p, vp, sizeof p); \
  const float32x4_t start = vdupq_n_f32(0x1p23f + (float)(p.zero - (LEAST))), scale = vdupq_n_f32(p.scale);
/* Dequantizes 16 numbers, less the smallest of their type. */
PL_INLINE void dequantize(uint16x8_t low, uint16x8_t high, float32x4_t start, float32x4_t scale, float32x4_t r[4]) {
  const uint32x4_t bits = vreinterpretq_u32_f32(vdupq_n_f32(0x1p23f));
  r[0] = vreinterpretq_f32_u32(vaddw_u16(bits, vget_low_u16(low)));
  r[1] = vreinterpretq_f32_u32(vaddw_high_u16(bits, low));
  r[2] = vreinterpretq_f32_u32(vaddw_u16(bits, vget_low_u16(high)));
  r[3] = vreinterpretq_f32_u32(vaddw_high_u16(bits, high));
  EACH(4) r[k] = vsubq_f32(r[k], start);
  EACH(4) r[k] = vmulq_f32(r[k], scale);
}
#define WITHOUT_SIGN(p) veorq_u16(vreinterpretq_u16_s16(vld1q_s16(p)), vdupq_n_u16(0x8000))
UNARY(dequantize_u8, uint8_t, DEQUANTIZING(0), const uint8x16_t v = vld1q_u8(x);
      dequantize(vmovl_u8(vget_low_u8(v)), vmovl_high_u8(v), start, scale, r);)
UNARY(dequantize_i8, int8_t, DEQUANTIZING(INT8_MIN),
      const uint8x16_t v = veorq_u8(vreinterpretq_u8_s8(vld1q_s8(x)), vdupq_n_u8(0x80));
      dequantize(vmovl_u8(vget_low_u8(v)), vmovl_high_u8(v), start, scale, r);)
UNARY(dequantize_i16, int16_t, DEQUANTIZING(INT16_MIN),
      dequantize(WITHOUT_SIGN(x), WITHOUT_SIGN(x + 8), start, scale, r);)

PL_FILL(elementwise_plain, s) {
  s->add_i8 = add_i8, s->or_bool = or_bool, s->and_bool = and_bool;
  s->add_i16 = add_i16, s->add_i32 = add_i32, s->add_i64 = add_i64;
  s->sub_i16 = sub_i16, s->sub_i32 = sub_i32, s->sub_i64 = sub_i64;
  s->mul_i16 = mul_i16, s->mul_i32 = mul_i32;
  s->maximum_i8 = maximum_i8, s->maximum_u8 = maximum_u8, s->maximum_i16 = maximum_i16, s->maximum_i32 = maximum_i32;
  s->minimum_i8 = minimum_i8, s->minimum_u8 = minimum_u8, s->minimum_i16 = minimum_i16, s->minimum_i32 = minimum_i32;
  s->less_i16 = less_i16, s->less_i32 = less_i32, s->less_i64 = less_i64, s->less_f32 = less_f32;
  s->equal_i16 = equal_i16, s->equal_i32 = equal_i32, s->equal_i64 = equal_i64, s->equal_f32 = equal_f32;
  s->less_equal_f32 = less_equal_f32;
  s->abs_f32 = abs_f32, s->neg_f32 = neg_f32, s->square_f32 = square_f32, s->sign_f32 = sign_f32;
  s->floor_f32 = floor_f32, s->ceil_f32 = ceil_f32, s->round_f32 = round_f32;
  s->dequantize_i8 = dequantize_i8, s->dequantize_u8 = dequantize_u8, s->dequantize_i16 = dequantize_i16;
}
