/* The element-wise slots: micro-kernels of one and of two operands, each kind with one signature. */
#ifndef PYLITE_ELEMENTWISE_H
#define PYLITE_ELEMENTWISE_H
#include <stdint.h>

#define PL_SLOTS_ELEMENTWISE(X) \
  PL_UNARY_SLOTS(X) \
  PL_BINARY_SLOTS(X)
/* The slots that are the same on every ISA level: common.c and wide.c define them. */
#define PL_COMMON_SLOTS(X) \
  PL_COMMON_UNARY_SLOTS(X) \
  PL_COMMON_BINARY_SLOTS(X)

/* y[i] = f(x[i]) (portable_unary.h).  p: the parameters, as lowering packs them; a byte to read if there are none.
 * y may be x. */
#define PL_UNARY (size_t n, const void *x, void *y, const void *p)
#define PL_UNARY_SLOTS(X) \
  X(clamp_f32, PL_UNARY) X(leaky_relu_f32, PL_UNARY) X(logistic_f32, PL_UNARY) X(tanh_f32, PL_UNARY) \
  X(exp_f32, PL_UNARY) X(elu_f32, PL_UNARY) X(hard_swish_f32, PL_UNARY) X(gelu_f32, PL_UNARY) \
  X(gelu_tanh_f32, PL_UNARY) X(sqrt_f32, PL_UNARY) X(rsqrt_f32, PL_UNARY) X(abs_f32, PL_UNARY) X(neg_f32, PL_UNARY) \
  X(logistic_f16, PL_UNARY) X(tanh_f16, PL_UNARY) X(gelu_f16, PL_UNARY) X(gelu_tanh_f16, PL_UNARY) \
  X(hard_swish_f16, PL_UNARY) X(leaky_relu_f16, PL_UNARY) X(neg_f16, PL_UNARY) X(abs_i16, PL_UNARY) \
  X(abs_i32, PL_UNARY) X(neg_i16, PL_UNARY) X(neg_i32, PL_UNARY) \
  X(neg_i64, PL_UNARY) \
  X(lut8, PL_UNARY) X(lines8, PL_UNARY) X(lut8_i16, PL_UNARY) X(lut16, PL_UNARY) \
  X(logistic_i16, PL_UNARY) X(tanh_i16, PL_UNARY) \
  X(rescale_i16_i8, PL_UNARY) X(rescale_i16_i16, PL_UNARY) X(rescale_i16_i32, PL_UNARY) \
  X(rescale_i32_i8, PL_UNARY) X(rescale_i32_i16, PL_UNARY) X(rescale_abs_i16, PL_UNARY) \
  X(leaky_relu_i16, PL_UNARY) X(sqrt_i16, PL_UNARY) X(quantize_f32_i8, PL_UNARY) X(quantize_f32_i16, PL_UNARY) \
  X(dequantize_i8, PL_UNARY) X(dequantize_u8, PL_UNARY) X(dequantize_i16, PL_UNARY) \
  X(square_f32, PL_UNARY) X(floor_f32, PL_UNARY) X(ceil_f32, PL_UNARY) X(round_f32, PL_UNARY) X(log_f32, PL_UNARY) \
  X(sin_f32, PL_UNARY) X(sign_f32, PL_UNARY) X(sign_i32, PL_UNARY) X(half_to_float, PL_UNARY) \
  X(float_to_half, PL_UNARY) X(cast_f32_u8, PL_UNARY) X(cast_f32_i8, PL_UNARY) X(cast_f32_i16, PL_UNARY) \
  X(cast_f32_i32, PL_UNARY) X(cast_f32_i64, PL_UNARY) X(cast_f32_bool, PL_UNARY) X(cast_i32_f32, PL_UNARY) \
  X(cast_i64_f32, PL_UNARY) X(cast_bool_f32, PL_UNARY) \
  X(cast_i8_i16, PL_UNARY) X(cast_i8_i32, PL_UNARY) X(cast_i8_i64, PL_UNARY) \
  X(cast_u8_i16, PL_UNARY) X(cast_u8_i32, PL_UNARY) X(cast_u8_i64, PL_UNARY) X(cast_i16_i8, PL_UNARY) \
  X(cast_i16_i32, PL_UNARY) X(cast_i16_i64, PL_UNARY) X(cast_i32_i8, PL_UNARY) X(cast_i32_i16, PL_UNARY) \
  X(cast_i32_i64, PL_UNARY) X(cast_i64_i8, PL_UNARY) X(cast_i64_i16, PL_UNARY) X(cast_i64_i32, PL_UNARY) \
  X(cast_bool_i8, PL_UNARY) X(cast_bool_i16, PL_UNARY) X(cast_bool_i32, PL_UNARY) X(cast_bool_i64, PL_UNARY) \
  X(cast_i16_bool, PL_UNARY) X(cast_i32_bool, PL_UNARY) X(cast_i64_bool, PL_UNARY) \
  PL_COMMON_UNARY_SLOTS(X)
#define PL_COMMON_UNARY_SLOTS(X) \
  X(wide_unary, PL_UNARY) X(table16, PL_UNARY) X(finish_product_q8, PL_UNARY) \
  X(finish_product_q16, PL_UNARY) X(fake_quant, PL_UNARY) \
  X(bucketize_f32, PL_UNARY) X(bucketize_f64, PL_UNARY) X(bucketize_i32, PL_UNARY) X(bucketize_i64, PL_UNARY)

/* y[i] = f(a[i * a_step], b[i * b_step]) (portable_binary.h).  Steps are 0 or 1, not both 0; y may be a or b. */
#define PL_BINARY (size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *p)
#define PL_BINARY_SLOTS(X) \
  X(add_f32, PL_BINARY) X(sub_f32, PL_BINARY) X(mul_f32, PL_BINARY) X(div_f32, PL_BINARY) \
  X(maximum_f32, PL_BINARY) X(minimum_f32, PL_BINARY) X(prelu_f32, PL_BINARY) \
  X(add_f16, PL_BINARY) X(mul_f16, PL_BINARY) X(maximum_f16, PL_BINARY) X(minimum_f16, PL_BINARY) \
  X(prelu_f16, PL_BINARY) X(add_i16, PL_BINARY) X(sub_i16, PL_BINARY) X(mul_i16, PL_BINARY) \
  X(add_i32, PL_BINARY) X(sub_i32, PL_BINARY) X(mul_i32, PL_BINARY) X(div_i32, PL_BINARY) \
  X(add_i64, PL_BINARY) X(sub_i64, PL_BINARY) X(mul_i64, PL_BINARY) X(mul_u32, PL_BINARY) \
  X(maximum_i8, PL_BINARY) X(minimum_i8, PL_BINARY) X(maximum_u8, PL_BINARY) X(minimum_u8, PL_BINARY) \
  X(maximum_i16, PL_BINARY) X(minimum_i16, PL_BINARY) X(maximum_i32, PL_BINARY) X(minimum_i32, PL_BINARY) \
  X(maximum_i64, PL_BINARY) X(minimum_i64, PL_BINARY) \
  X(sum_q8, PL_BINARY) X(sum_q16, PL_BINARY) X(add_pot16, PL_BINARY) X(sub_pot16, PL_BINARY) \
  X(mul_q8, PL_BINARY) X(mul_q16, PL_BINARY) X(mul_q16_q8, PL_BINARY) X(div_q8, PL_BINARY) X(div_q16, PL_BINARY) \
  X(prelu_q8, PL_BINARY) X(prelu_q16, PL_BINARY) \
  X(squared_difference_f32, PL_BINARY) X(floor_div_f32, PL_BINARY) X(floor_div_i32, PL_BINARY) \
  X(floor_mod_i32, PL_BINARY) X(squared_difference_i32, PL_BINARY) \
  X(less_f32, PL_BINARY) X(less_i16, PL_BINARY) X(less_i32, PL_BINARY) \
  X(less_i64, PL_BINARY) X(less_equal_f32, PL_BINARY) \
  X(equal_f32, PL_BINARY) X(equal_i16, PL_BINARY) X(equal_i32, PL_BINARY) X(equal_i64, PL_BINARY) \
  X(equal_q16, PL_BINARY) X(pow_i32, PL_BINARY) X(pow_modulo_i32, PL_BINARY) \
  X(and_bool, PL_BINARY) X(or_bool, PL_BINARY) \
  X(add_i8, PL_BINARY) X(mul_i8, PL_BINARY) \
  PL_COMMON_BINARY_SLOTS(X)
#define PL_COMMON_BINARY_SLOTS(X) \
  X(wide_binary, PL_BINARY) X(pow_f32, PL_BINARY) X(mul_c64, PL_BINARY) X(less_q8, PL_BINARY) \
  X(equal_q8, PL_BINARY) X(squared_difference_q8, PL_BINARY) X(real_q, PL_BINARY) \
  X(product_q8, PL_BINARY) X(product_q16, PL_BINARY)

typedef struct sum_q_p { /* the parameters of sum_q8 and sum_q16 */
  int32_t a_zero, b_zero, y_zero, low, high, flip, left, sign; /* sign: -1 subtracts, or 0 */
  int32_t a_m, a_e, b_m, b_e, y_m, y_e;
} sum_q_p;
typedef struct product_q_p { /* the parameters of mul_q8 and mul_q16 */
  int32_t a_zero, b_zero, y_zero, low, high, flip, m, e;
} product_q_p;
/* The parameters of sum_q8 and mul_q8, with the numbers of fitted.h, for which fitting.c searches. */
typedef struct pl_fitted_sum {
  sum_q_p rule;
  int32_t fraction, start, start_low, above, below; /* fraction 0: by the rule */
  int16_t a[3], b[3];                               /* the ratios' digits */
  int32_t short_form;                               /* ratios have two digits, see fitted.h */
  int32_t corrected;                                /* 1 or 2: the operand whose values are corrected, or 0 */
  int32_t zero, step, offset, gain, mean;           /* of the corrections, see pl_sum_correction() */
} pl_fitted_sum;
#define PL_FRACTION 22 /* bits of fraction if ratios have two digits; on Arm one less if sums are large */
typedef struct pl_fitted_product {
  int32_t a_zero, b_zero, y_zero, low, high, flip, m, e;
  float scale, half; /* scale 0: by the rule */
} pl_fitted_product;
/* The parameters of lines8, which has the results of lut8 for a table that is one line, or the larger of two lines at
 * each operand.  The operand, a byte xor x_flip, is signed; so is the result, which y_flip turns into a byte.  A line
 * is ((x slope >> 8) + start) >> shift in 16 bits; a single line may be (x slope + start) >> shift in 32 bits. */
typedef struct pl_lines8 {
  uint8_t table[256]; /* first, where lut8 expects it */
  int16_t slope[2];
  int32_t start[2], shift, in_32_bits;
  uint8_t x_flip, y_flip;
  int8_t low, high;
} pl_lines8;
int pl_fit_lines(pl_lines8 *p); /* sets the lines from p->table; 0 if there are none */
#if defined(__x86_64__)
#define PL_LONG_LINES (1) /* are lines in 32 bits faster than lut8? */
#else
#define PL_LONG_LINES (0)
#endif
/* Defines lines8 by lines8_of(n, x, y, lines, plain, parameters), compiled for each case.  lines: 1, 2, or 0 for one in
 * 32 bits; plain: x and y are int8, and results are clamped to the range of int8 only. */
#define PL_LINES8(lines8_of) \
  static void lines8(size_t n, const void *x, void *y, const void *vp) { \
    pl_lines8 p; /* a copy, which y cannot alias */ \
    memcpy(&p, vp, sizeof p); \
    const int two = p.slope[0] != p.slope[1] || p.start[0] != p.start[1]; \
    const int plain = !p.x_flip && !p.y_flip && p.low == INT8_MIN && p.high == INT8_MAX; \
    if (PL_LONG_LINES && p.in_32_bits) lines8_of(n, x, y, 0, 0, &p); \
    else if (plain && !two) lines8_of(n, x, y, 1, 1, &p); \
    else if (plain) lines8_of(n, x, y, 2, 1, &p); \
    else if (!two) lines8_of(n, x, y, 1, 0, &p); \
    else lines8_of(n, x, y, 2, 0, &p); \
  }
void pl_fit_sum(pl_fitted_sum *p);
void pl_fit_product(pl_fitted_product *p);
#endif
