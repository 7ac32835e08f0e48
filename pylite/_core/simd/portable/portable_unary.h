/* Micro-kernels of one operand, y[i] = f(x[i]); included by portable.c alone. */
#include "functions.h"
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* vp: the parameters, packed by lowering in the layout of P_TYPE. */
#define UNARY_LOOP(LOOP, name, X_TYPE, Y_TYPE, P_TYPE, expression) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const X_TYPE *px = vx; \
    Y_TYPE *py = vy; \
    P_TYPE p; \
    memcpy(&p, vp, sizeof p); \
    LOOP \
    for (size_t i = 0; i < n; i++) { \
      X_TYPE x = px[i]; \
      py[i] = (Y_TYPE)(expression); \
    } \
  }
#define UNARY_KERNEL(...) UNARY_LOOP(PL_INDEPENDENT, __VA_ARGS__)
#define UNARY_TIGHT(...) UNARY_LOOP(PL_TIGHT, __VA_ARGS__) /* for few instructions */
#define UNARY_FLOAT(name, expression) UNARY_KERNEL(name, float, float, none_p, expression)
#define UNARY_TIGHT_FLOAT(name, expression) UNARY_TIGHT(name, float, float, none_p, expression)

typedef struct { char none; } none_p; /* no parameters */
typedef struct { float low, high; } range_f_p;
typedef struct { float alpha; } alpha_f_p;

/* ---- float32 ---- */
PL_LOOSE_BEGIN
UNARY_TIGHT(clamp_f32, float, float, range_f_p, pl_clampf(x, p.low, p.high))
UNARY_TIGHT(leaky_relu_f32, float, float, alpha_f_p, x > 0.0f ? x : x * p.alpha)
#if (defined(__FMA__) && defined(__AVX2__)) || (defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA))
#include "functions_vector.h"
#else
UNARY_FLOAT(logistic_f32, pl_logistic(x))
UNARY_FLOAT(tanh_f32, pl_tanh(x))
UNARY_FLOAT(exp_f32, pl_exp(x))
UNARY_FLOAT(gelu_f32, pl_gelu(x))
/* x / 2 (1 + tanh(u)), computed as x logistic(2 u), which is relatively exact for small results, too. */
UNARY_FLOAT(gelu_tanh_f32, x * pl_logistic(1.595769122f * (x + 0.044715f * x * x * x)))
UNARY_FLOAT(hard_swish_f32, x * (pl_clampf(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f)))
UNARY_FLOAT(elu_f32, x < 0.0f ? pl_expm1(x) : x)
UNARY_FLOAT(log_f32, pl_log(x))
UNARY_FLOAT(rsqrt_f32, 1.0f / sqrtf(x))
#endif
#if !(defined(__FMA__) && defined(__AVX2__))
UNARY_FLOAT(sqrt_f32, sqrtf(x))
#endif
UNARY_TIGHT_FLOAT(abs_f32, fabsf(x))
UNARY_TIGHT_FLOAT(neg_f32, -x)
UNARY_TIGHT_FLOAT(square_f32, x *x)
UNARY_TIGHT_FLOAT(floor_f32, floorf(x))
UNARY_TIGHT_FLOAT(ceil_f32, ceilf(x))
UNARY_TIGHT_FLOAT(round_f32, rintf(x)) /* halves to even */
UNARY_FLOAT(sign_f32, x == x ? (float)((x > 0.0f) - (x < 0.0f)) : x)
PL_LOOSE_END
/* sin(x + quarter pi / 2).  Below PL_TURNS_MAX, x is reduced to half a turn in float32 or float64. */
typedef struct { int32_t quarter; } turn_p;
/* 64 numbers, some of which are larger, in separate loops, so that gcc vectorises all but the look-ups. */
static void sin_of_any(float *x, int quarter) {
  uint32_t m[64], high[64], middle[64], low[64], half_turns[64];
  double r[64];
  for (int i = 0; i < 64; i++) {
    const uint32_t bits = pl_bits_of(x[i]) & 0x7FFFFFFF, e = (bits < 0x46000000 ? 0x46000000 : bits) / 0x800000 - 136;
    const uint32_t *words = pl_two_over_pi + (e >> 3);
    m[i] = ((bits & 0x7FFFFF) | 0x800000) << (e & 7);
    high[i] = words[0], middle[i] = words[4], low[i] = words[8];
  }
  for (int i = 0; i < 64; i++) {
    const uint64_t upper = ((uint64_t)m[i] * high[i] << 32) + (uint64_t)m[i] * middle[i];
    const uint64_t quarters = upper + ((uint64_t)m[i] * low[i] >> 32) + ((uint64_t)quarter << 62);
    half_turns[i] = (uint32_t)((quarters + ((uint64_t)1 << 62)) >> 63);
    r[i] = (double)((int64_t)(quarters << 1) >> 1); /* less the nearest half turn */
  }
  for (int i = 0; i < 64; i++) {
    const float large = pl_sin_turned((float)(r[i] * (1.57079632679489661923 * 0x1p-62)), half_turns[i]);
    const uint32_t sign = quarter ? 0 : pl_bits_of(x[i]) & 0x80000000u;
    const float far = pl_float_of(pl_bits_of(large) ^ sign) + (x[i] - x[i]); /* NaN of infinity */
    x[i] = fabsf(x[i]) < PL_TURNS_MAX ? pl_sin_shifted(x[i], quarter) : far;
  }
}
/* Numbers that equal their sine.  Their squares could be subnormal, for which CPUs take long. */
#define PL_SMALL_ANGLE 0x20000000u /* the bits of 2^-63 */
PL_INLINE int small_angle(float x) { return pl_bits_of(x) * 2 - 1 < PL_SMALL_ANGLE * 2 - 1; } /* and not 0 */
PL_INLINE void sin_near(size_t n, const float *x, float *y, int quarter) {
  PL_INDEPENDENT
  for (size_t i = 0; i < n; i++) y[i] = pl_sin_shifted(x[i], quarter);
}
static __attribute__((noinline)) void sin_of_some(size_t n, const float *x, float *y, int quarter) {
  sin_near(n, x, y, quarter);
}
static __attribute__((noinline)) void sin_of_64(const float *x, float *y, int quarter) {
  float v[64];
  int near = 1;
  for (int i = 0; i < 64; i++) near &= fabsf(x[i]) < PL_TURNS_MAX;
  for (int i = 0; i < 64; i++) v[i] = small_angle(x[i]) ? 0 : x[i];
  if (near) sin_of_some(64, v, v, quarter);
  else sin_of_any(v, quarter);
  for (int i = 0; i < 64; i++) y[i] = small_angle(x[i]) && !quarter ? x[i] : v[i];
}
static __attribute__((noinline)) int near_or_zero(const float *x) {
  uint32_t least = UINT32_MAX, most = 0;
  for (int i = 0; i < 64; i++) {
    const uint32_t bits = pl_bits_of(x[i]) & 0x7FFFFFFF, less = bits - 1; /* the largest number for 0 */
    least = less < least ? less : least;
    most = bits > most ? bits : most;
  }
  return least >= PL_SMALL_ANGLE - 1 && most < pl_bits_of(PL_TURNS_MAX);
}
static void sin_f32(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  float *y = vy;
  const uint32_t range = (pl_bits_of(PL_TURNS_MAX) - PL_SMALL_ANGLE) * 2;
  turn_p p;
  memcpy(&p, vp, sizeof p);
  for (; n >= 64; n -= 64, x += 64, y += 64) {
    uint32_t most = 0;
    for (int i = 0; i < 64; i++) {
      const uint32_t above = pl_bits_of(x[i]) * 2 - PL_SMALL_ANGLE * 2;
      most = above > most ? above : most;
    }
    if (most < range || near_or_zero(x)) sin_near(64, x, y, p.quarter);
    else sin_of_64(x, y, p.quarter);
  }
  if (n) {
    float last[64] = {0};
    memcpy(last, x, n * sizeof *x);
    if (near_or_zero(last)) sin_of_some(n, last, last, p.quarter);
    else sin_of_64(last, last, p.quarter);
    memcpy(y, last, n * sizeof *y);
  }
}

/* ---- float16, computed in float32, a block at a time ----
 * The conversions are not inlined, to avoid twenty copies of them. */
static void half_to_float(size_t n, const void *vx, void *vy, const void *vp) __attribute__((noinline));
static void float_to_half(size_t n, const void *vx, void *vy, const void *vp) __attribute__((noinline));
UNARY_KERNEL(half_to_float, uint16_t, float, none_p, pl_from_half(x))
UNARY_KERNEL(float_to_half, float, uint16_t, none_p, pl_to_half(x))
enum { HALF_BLOCK = 256 };
#define UNARY_HALF(name, row) \
  static void name(size_t n, const void *vx, void *vy, const void *p) { \
    const uint16_t *x = vx; \
    uint16_t *y = vy; \
    float f[HALF_BLOCK]; \
    for (size_t m; n; n -= m, x += m, y += m) { \
      m = n < HALF_BLOCK ? n : HALF_BLOCK; \
      half_to_float(m, x, f, p); \
      row(m, f, f, p); \
      float_to_half(m, f, y, p); \
    } \
  }
UNARY_HALF(logistic_f16, logistic_f32)
UNARY_HALF(tanh_f16, tanh_f32)
UNARY_HALF(gelu_f16, gelu_f32)
UNARY_HALF(gelu_tanh_f16, gelu_tanh_f32)
UNARY_KERNEL(neg_f16, uint16_t, uint16_t, none_p, x ^ 0x8000)

/* ---- plain integers; they wrap ---- */
UNARY_KERNEL(abs_i16, int16_t, int16_t, none_p, x < 0 ? -x : x)
UNARY_KERNEL(abs_i32, int32_t, int32_t, none_p, x < 0 ? -x : x)
UNARY_KERNEL(sign_i32, int32_t, int32_t, none_p, (x > 0) - (x < 0))
UNARY_KERNEL(neg_i16, int16_t, int16_t, none_p, -x)
UNARY_KERNEL(neg_i32, int32_t, int32_t, none_p, -x)
UNARY_KERNEL(neg_i64, int64_t, int64_t, none_p, -x)

/* ---- tables ---- */
static void lut8_plain(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx, *t = table;
  uint8_t *y = vy;
  PL_INDEPENDENT
  for (size_t i = 0; i < n; i++) y[i] = t[x[i]];
}
#if defined(__AVX512BW__)
/* Looks up pairs of entries, 64 of them per instruction, for even bytes and for odd ones; then selects from each pair.
 */
PL_INLINE __m512i paired_entries(const __m512i t[4], __m512i x) {
  const __m512i pair = _mm512_srli_epi16(x, 1), bit = _mm512_set1_epi16(1);
  const __m512i low = _mm512_permutex2var_epi16(t[0], pair, t[1]), high = _mm512_permutex2var_epi16(t[2], pair, t[3]);
  const __m512i both = _mm512_mask_blend_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi16(128)), low, high);
  return _mm512_srlv_epi16(both, _mm512_slli_epi16(_mm512_and_si512(x, bit), 3));
}
static void lut8(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx;
  uint8_t *y = vy;
  const __m512i last = _mm512_set1_epi16(255);
  __m512i t[4];
  PL_UNROLL for (int k = 0; k < 4; k++) t[k] = _mm512_loadu_si512((const char *)table + 64 * k);
  for (size_t i = 0; i < n; i += 64) {
    const __mmask64 some = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    const __m512i v = _mm512_maskz_loadu_epi8(some, x + i);
    const __m512i even = paired_entries(t, _mm512_and_si512(v, last)), odd = paired_entries(t, _mm512_srli_epi16(v, 8));
    const __m512i both = _mm512_or_si512(_mm512_and_si512(even, last), _mm512_slli_epi16(odd, 8));
    _mm512_mask_storeu_epi8(y + i, some, both);
  }
}
#elif defined(__AVX2__)
/* Sixteen entries per shuffle, which gives 0 for negative indices.  Step k sees the index less 16 k, and gives an entry
 * of t[k] for each one from 0 to 127: for block j of 16 entries, steps 0 to j if j < 8, and else steps j - 7 to j.  So
 * t[k] are such that the XOR of these is block j. */
static void lut8(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx;
  uint8_t *y = vy;
  const __m256i sixteen = _mm256_set1_epi8(16);
  __m256i t[16];
  size_t i = 0;
  for (int k = 0; k < 16; k++) {
    t[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table + k));
    for (int j = k < 8 ? 0 : k - 7; j < k; j++) t[k] = _mm256_xor_si256(t[k], t[j]);
  }
  for (; i + 128 <= n; i += 128) { /* four vectors, for which entries are loaded once */
    __m256i v[4], r[4];
    PL_UNROLL for (int j = 0; j < 4; j++) {
      v[j] = _mm256_loadu_si256((const __m256i *)(x + i + 32 * j));
      r[j] = _mm256_shuffle_epi8(t[0], v[j]);
    }
    PL_UNROLL for (int k = 1; k < 16; k++)
      PL_UNROLL for (int j = 0; j < 4; j++) {
        v[j] = k <= 8 ? _mm256_sub_epi8(v[j], sixteen) : _mm256_subs_epi8(v[j], sixteen);
        r[j] = _mm256_xor_si256(r[j], _mm256_shuffle_epi8(t[k], v[j]));
        __asm__("" : "+x"(r[j])); /* gcc would store all entries, and then join them in another order */
      }
    PL_UNROLL for (int j = 0; j < 4; j++) _mm256_storeu_si256((__m256i *)(y + i + 32 * j), r[j]);
  }
  lut8_plain(n - i, x + i, y + i, table);
}
#elif defined(__aarch64__)
/* 64 entries at a time; an index outside this range leaves the byte unchanged. */
static void lut8(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx, *t = table;
  uint8_t *y = vy;
  const uint8x16x4_t t0 = vld1q_u8_x4(t), t1 = vld1q_u8_x4(t + 64);
  const uint8x16x4_t t2 = vld1q_u8_x4(t + 128), t3 = vld1q_u8_x4(t + 192);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    uint8x16_t v = vld1q_u8(x + i), r = vqtbl4q_u8(t0, v);
    r = vqtbx4q_u8(r, t1, veorq_u8(v, vdupq_n_u8(0x40)));
    r = vqtbx4q_u8(r, t2, veorq_u8(v, vdupq_n_u8(0x80)));
    r = vqtbx4q_u8(r, t3, veorq_u8(v, vdupq_n_u8(0xC0)));
    vst1q_u8(y + i, r);
  }
  lut8_plain(n - i, x + i, y + i, table);
}
#else
static void lut8(size_t n, const void *x, void *y, const void *table) { lut8_plain(n, x, y, table); }
#endif
#if defined(__AVX2__)
#include "x86/lines_x86.h"
#else
static void(*const lines8) PL_UNARY = lut8;
#endif
/* 8 bits to 16: table of 256 int16 */
static void lut8_i16(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx;
  const int16_t *t = table;
  int16_t *y = vy;
  PL_INDEPENDENT
  for (size_t i = 0; i < n; i++) y[i] = t[x[i]];
}
/* LUT16: 512 segments, 513 int16 */
static void lut16(size_t n, const void *vx, void *vy, const void *table) {
  const int16_t *x = vx, *t = table;
  int16_t *y = vy;
  PL_INDEPENDENT
  for (size_t i = 0; i < n; i++) {
    int index = 256 + (x[i] >> 7), offset = x[i] & 127;
    int base = t[index], slope = (int16_t)(t[index + 1] - base);
    y[i] = (int16_t)(base + ((slope * offset + 64) >> 7));
  }
}

/* int16 LOGISTIC and TANH (docs/numerics.md section 6): q * multiplier >> shift, interpolated between two entries of
 * the table */
typedef struct { int32_t multiplier, shift, table[256]; } sigmoid16_p;
PL_INLINE int32_t sigmoid16_index(int32_t q, const sigmoid16_p *p) {
  return (q * p->multiplier + (int32_t)((1u << p->shift) >> 1)) >> p->shift;
}
PL_INLINE int32_t sigmoid16_entry(int32_t v, int bits) { return pl_min32((v < 0 ? -v : v) >> bits, 254); }
/* The value of the table for v with `bits` bits of fraction, `most` beyond its end; from, to: the two entries. */
PL_INLINE int32_t sigmoid16_value(int32_t v, int32_t from, int32_t to, int bits, int32_t most) {
  const int32_t a = v < 0 ? -v : v, r = (from << bits) + (a & ((1 << bits) - 1)) * (to - from);
  return a >> bits >= 255 ? most : r;
}
PL_INLINE int16_t logistic_i16_result(int32_t v, int32_t from, int32_t to) {
  const int32_t r = sigmoid16_value(v, from, to, 9, 0x7FFF << 10);
  return (int16_t)((v >= 0 ? r + 512 : (1 << 25) - r + 511) >> 10);
}
PL_INLINE int16_t tanh_i16_result(int32_t v, int32_t from, int32_t to) {
  const int32_t r = sigmoid16_value(v, from, to, 8, 0xFFFF << 8);
  return (int16_t)((v >= 0 ? r - (1 << 23) + 128 : -r + (1 << 23) + 127) >> 8);
}
#if defined(__AVX2__)
/* Entries are loaded one by one: gathering them takes longer on many CPUs. */
enum { SIGMOID_BLOCK = 64 };
#define SIGMOID16(name, bits) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const int16_t *x = vx; \
    const sigmoid16_p *p = vp; \
    int16_t *y = vy; \
    for (size_t m; n; n -= m, x += m, y += m) { \
      int32_t v[SIGMOID_BLOCK], from[SIGMOID_BLOCK], to[SIGMOID_BLOCK]; \
      m = n < SIGMOID_BLOCK ? n : SIGMOID_BLOCK; \
      for (size_t i = 0; i < m; i++) v[i] = sigmoid16_index(x[i], p), from[i] = sigmoid16_entry(v[i], bits); \
      for (size_t i = 0; i < m; i++) { \
        const int32_t *entry = p->table + from[i]; \
        __asm__("" : "+r"(entry)); \
        from[i] = entry[0], to[i] = entry[1]; \
      } \
      PL_INDEPENDENT \
      for (size_t i = 0; i < m; i++) y[i] = name##_result(v[i], from[i], to[i]); \
    } \
  }
#else
#define SIGMOID16(name, bits) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const int16_t *x = vx; \
    const sigmoid16_p *p = vp; \
    int16_t *y = vy; \
    PL_INDEPENDENT \
    for (size_t i = 0; i < n; i++) { \
      const int32_t v = sigmoid16_index(x[i], p), k = sigmoid16_entry(v, bits); \
      y[i] = name##_result(v, p->table[k], p->table[k + 1]); \
    } \
  }
#endif
SIGMOID16(logistic_i16, 9)
SIGMOID16(tanh_i16, 8)

/* ---- MBQM32 from one integer scale to another ---- */
typedef struct { int32_t x_zero, m, e, y_zero, low, high; } rescale_p;
#define RESCALE(v) pl_clamp32(pl_mbqm32(v, p.m, p.e) + p.y_zero, p.low, p.high)
UNARY_KERNEL(rescale_i16_i8, int16_t, uint8_t, rescale_p, RESCALE(x - p.x_zero))
UNARY_KERNEL(rescale_i16_i16, int16_t, int16_t, rescale_p, RESCALE(x - p.x_zero))
UNARY_KERNEL(rescale_i16_i32, int16_t, int32_t, rescale_p, RESCALE(x - p.x_zero))
UNARY_KERNEL(rescale_i32_i8, int32_t, uint8_t, rescale_p, RESCALE(x - p.x_zero))
UNARY_KERNEL(rescale_i32_i16, int32_t, int16_t, rescale_p, RESCALE(x - p.x_zero))
UNARY_KERNEL(rescale_abs_i16, int16_t, int16_t, rescale_p, RESCALE(x < p.x_zero ? p.x_zero - x : x - p.x_zero))

typedef struct { int32_t x_zero, m, e, negative_m, negative_e, flip, y_zero; } leaky_p; /* flip: -1 negates, or 0 */
PL_INLINE int32_t leaky_one(int32_t v, leaky_p p) {
  int32_t negative = (pl_mbqm32(v, p.negative_m, p.negative_e) ^ p.flip) - p.flip;
  return pl_sat16((v >= 0 ? pl_mbqm32(v, p.m, p.e) : negative) + p.y_zero);
}
UNARY_KERNEL(leaky_relu_i16, int16_t, int16_t, leaky_p, leaky_one(x - p.x_zero, p))

typedef struct { float x_scale, y_scale; int32_t x_zero, y_zero; } square_root_p;
PL_INLINE int32_t square_root_one(int32_t v, square_root_p p) {
  return pl_sat16((int32_t)(sqrtf(p.x_scale * (float)v) / p.y_scale) + p.y_zero);
}
UNARY_KERNEL(sqrt_i16, int16_t, int16_t, square_root_p, square_root_one(x - p.x_zero, p))

/* ---- QUANTIZE and DEQUANTIZE (section 9); a byte is int8 or uint8 ---- */
UNARY_KERNEL(quantize_by_division, float, uint8_t, pl_quantize_p, pl_quantize(x, p))
UNARY_KERNEL(quantize_f32_i16, float, int16_t, pl_quantize_p, pl_quantize(x, p))
/* s (q - z) in float32: both factors are exact, so the product is rounded once, as it would be from float64. */
typedef struct { float scale; int32_t zero; } dequantize_p;
PL_LOOSE_BEGIN
#if defined(__AVX2__)
#include "x86/quantizing_x86.h"
#else
static void quantize_f32_i8(size_t n, const void *x, void *y, const void *p) { quantize_by_division(n, x, y, p); }
UNARY_KERNEL(dequantize_i8, int8_t, float, dequantize_p, p.scale * (float)(x - p.zero))
UNARY_KERNEL(dequantize_u8, uint8_t, float, dequantize_p, p.scale * (float)(x - p.zero))
#endif
UNARY_TIGHT(dequantize_i16, int16_t, float, dequantize_p, p.scale * (float)(x - p.zero))
PL_LOOSE_END
