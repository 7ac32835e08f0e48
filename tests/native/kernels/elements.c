/* Checks of the element-wise slots: each has an entry that says which parameters and elements it takes. */
#include "draw.h"
#include <math.h>
#include <string.h>

/* ---- parameters, written to p; returns their bytes ---- */
typedef size_t (*parameters)(uint8_t *p);
typedef struct { int low, high; } ends_of;
static ends_of ends(int low, int high) {
  const int a = between(low, high), b = between(low, high);
  return a < b ? (ends_of){a, b} : (ends_of){b, a};
}
static int zero_point(void) { return between(-128, 127); }
#define PUT(type, ...) \
  const type v[] = {__VA_ARGS__}; \
  memcpy(p, v, sizeof v); \
  return sizeof v

static size_t nothing(uint8_t *p) { PUT(int32_t, 0); }
static size_t one_of_two(uint8_t *p) { PUT(int32_t, between(0, 1)); }
static size_t float_range(uint8_t *p) {
  const float low = (float)between(-99, 20);
  PUT(float, chance(4) ? -INFINITY : low, chance(4) ? INFINITY : low + (float)between(0, 99));
}
static size_t int_range(uint8_t *p) {
  const ends_of e = chance(3) ? (ends_of){INT32_MIN, INT32_MAX} : ends(-20000, 20000);
  PUT(int32_t, e.low, e.high);
}
static size_t long_range(uint8_t *p) {
  const ends_of e = ends(-20000, 20000);
  const bool all = chance(3);
  PUT(int64_t, all ? INT64_MIN : e.low, all ? INT64_MAX : e.high);
}
static size_t slope(uint8_t *p) { PUT(float, real() - 1); }
static size_t rescale(uint8_t *p, int low, int high) {
  const int zero = between(-200, 200), e = between(-31, 12), y_zero = zero_point();
  const ends_of y = ends(low, high);
  PUT(int32_t, zero, multiplier(), e, y_zero, y.low, y.high);
}
static size_t rescale8(uint8_t *p) { return rescale(p, -128, 127); }
static size_t rescale16(uint8_t *p) { return rescale(p, -32768, 32767); }
static size_t rescale32(uint8_t *p) { return rescale(p, INT32_MIN, INT32_MAX); }
static size_t leaky(uint8_t *p) {
  PUT(int32_t, between(-300, 300), multiplier(), between(-20, 3), multiplier(), between(-20, 3), -between(0, 1),
      between(-300, 300));
}
static size_t table(uint8_t *p, size_t n, size_t item) { return memcpy(p, array(n, item), n * item), n * item; }
static size_t table8(uint8_t *p) { return table(p, 256, 1); }
static size_t table8_16(uint8_t *p) { return table(p, 256, 2); }
static size_t table513(uint8_t *p) { return table(p, 513, 2); }
static size_t table64k(uint8_t *p) { /* of any numbers, the same ones at each call */
  static int16_t made[65536];
  for (int i = 0; i < 65536 && !made[1]; i++) made[i] = (int16_t)(i * 40503);
  return memcpy(p, made, sizeof made), sizeof made;
}
static size_t sigmoid(uint8_t *p) {
  int32_t v[258] = {between(1, 32768), between(0, 15), between(0, 40000)};
  const int step = between(0, 99);
  for (int i = 3; i < 258; i++) v[i] = v[i - 1] + step;
  memcpy(p, v, sizeof v);
  return sizeof v;
}
/* Numbers that are looked for slowly, once for each of 64 choices. */
#define ONCE(type, name, make) \
  static size_t name(uint8_t *p) { \
    static type known[64]; \
    static bool made[64]; \
    const int i = between(0, 63); \
    if (!made[i]) made[i] = true, make(known + i); \
    memcpy(p, known + i, sizeof(type)); \
    return sizeof(type); \
  }
static void make_lines(pl_lines8 *p) {
  const bool is_signed = chance(2), flips = chance(2);
  const int zero = zero_point(), start = between(-100, 100);
  const float below = real() / 4 - 0.5f, above = real() / 3;
  for (int i = 0; i < 256; i++) {
    const int x = (is_signed ? (int8_t)i : i - 128) - zero;
    const int v = (int)roundf((float)x * (x < 0 ? below : above)) + start;
    p->table[i] = (uint8_t)((v < -128 ? -128 : v > 127 ? 127 : v) ^ (flips ? 0x80 : 0));
  }
  if (pl_fit_lines(p)) return;
  for (int i = 0; i < 256; i++) p->table[i] = (uint8_t)i;
  pl_fit_lines(p);
}
ONCE(pl_lines8, lines, make_lines)
static size_t quantize(uint8_t *p, int low, int high) {
  const struct { float scale; int32_t zero, low, high; } v = {real(), zero_point(), low, high};
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t quantize8(uint8_t *p) { return chance(2) ? quantize(p, 0, 255) : quantize(p, -128, 127); }
static size_t quantize16(uint8_t *p) { return quantize(p, -32768, 32767); }
static size_t dequantize(uint8_t *p) {
  const struct { float scale; int32_t zero; } v = {real(), zero_point()};
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t root(uint8_t *p) {
  const struct { float x, y; int32_t x_zero, y_zero; } v = {real(), real(), -32768, between(-99, 99)};
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t finished(uint8_t *p) {
  const ends_of y = ends(-128, 127);
  PUT(int32_t, between(1 << 14, 32767), between(-20, 5), zero_point(), y.low, y.high);
}
static size_t fake(uint8_t *p) { PUT(float, -1, 1, 1 / 128.f, 128); }
static size_t boundaries(uint8_t *p) {
  const struct { int32_t count; float v[5]; } v = {between(0, 5), {-2, -1, 0, 0.5f, 7}};
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t product(uint8_t *p, int low, int high) {
  const ends_of y = ends(low, high);
  PUT(int32_t, zero_point(), zero_point(), zero_point(), y.low, y.high, 0, multiplier(), between(-20, 3));
}
static size_t product8(uint8_t *p) { return product(p, -128, 127); }
static size_t product16(uint8_t *p) { return product(p, -32768, 32767); }
static void make_product(pl_fitted_product *p) {
  product8((uint8_t *)p);
  p->flip = between(0, 1) * 0x80;
  pl_fit_product(p);
}
ONCE(pl_fitted_product, fitted_product, make_product)
static sum_q_p sum_rule(int zero, int low, int high, int flip, int left_shift) {
  const ends_of y = ends(low, high);
  const bool halves = chance(2); /* round scales, whose sums are often halfway between two integers */
#define SCALING halves ? 1 << 30 : multiplier(), between(-6, -1)
  const int32_t v[6] = {SCALING, SCALING, halves ? 1 << 30 : multiplier(), between(-left_shift - 2, 1 - left_shift)};
#define ZERO between(-zero, zero)
  return (sum_q_p){ZERO, ZERO, ZERO, y.low, y.high, flip, left_shift, -between(0, 1), v[0], v[1], v[2], v[3], v[4],
                   v[5]};
}
static void make_sum(pl_fitted_sum *p) {
  p->rule = sum_rule(127, -128, 127, 0x80 * between(0, 1), 20);
  pl_fit_sum(p);
}
ONCE(pl_fitted_sum, sum8, make_sum)
static size_t sum16(uint8_t *p) {
  const sum_q_p v = sum_rule(0, -32768, 32767, 0, 15);
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t shifts(uint8_t *p) {
  const ends_of y = ends(-32768, 32767);
  PUT(int32_t, between(0, 31), between(0, 31), y.low, y.high);
}
static size_t prelu(uint8_t *p, int low, int high) {
  const ends_of y = ends(low, high);
  const int flip = low == -128 ? 0x80 * between(0, 1) : 0;
  PUT(int32_t, zero_point(), zero_point(), zero_point(), y.low, y.high, flip, multiplier(), between(-15, 2),
      multiplier(), between(-15, 2));
}
static size_t prelu8(uint8_t *p) { return prelu(p, -128, 127); }
static size_t prelu16(uint8_t *p) { return prelu(p, -32768, 32767); }
static size_t values(uint8_t *p, int32_t first, int32_t second, int32_t third, size_t head) {
  const int32_t v[3] = {first, second, third};
  memcpy(p, v, 4 * head);
  memcpy(p + 4 * head, integers(512, 4, -9000, 9000), 4 * 512);
  return 4 * (head + 512);
}
static size_t compared(uint8_t *p) { return values(p, between(0, 1), 0, 0, 1); }
static size_t inverted(uint8_t *p) { PUT(int32_t, between(0, 1)); }
static size_t differences(uint8_t *p) { return values(p, multiplier(), -between(0, 20), 5, 3); }
static size_t compared16(uint8_t *p) {
  PUT(int32_t, between(0, 1), zero_point(), multiplier(), -between(0, 9), zero_point(), multiplier(), -between(0, 9));
}
static size_t on_reals(uint8_t *p) {
  const struct { double s[3]; int32_t v[7]; } v = {
      {ldexp(1, -between(5, 15)), ldexp(1, -between(5, 15)) / between(1, 3), ldexp(1, -between(5, 15))},
      {0, 1, 2, -32768, 32767, between(0, 1), 2}};
  return memcpy(p, &v, sizeof v), sizeof v;
}
static size_t factors(uint8_t *p) { PUT(int32_t, zero_point(), between(1 << 14, 32767), -between(0, 9)); }

/* ---- slots of one operand: name, bytes of x and y, are x floats, parameters, comparison ---- */
#define UNARY(name, x_item, y_item, real_x, make, how) \
  static void name(void) { unary(offsetof(pl_slots, name), x_item, y_item, real_x, make, how); }
static _Alignas(8) uint8_t numbers[1 << 18];
static void unary(size_t slot, size_t x_item, size_t y_item, bool real_x, parameters make, closeness how) {
  const size_t n = some(0, 300), bytes = make(numbers);
  const void *p = copied(numbers, bytes / 4 + (bytes % 4 != 0), 4);
  const void *x = real_x ? (void *)floats(n) : array(n, x_item);
  const bool in_place = x_item == y_item && chance(2);
  if (real_x && how == NEAR && make == nothing && between(0, 1)) flush_subnormals();
  EACH_LEVEL(s) {
    void *y = result(n, y_item, in_place ? x : NULL, n, how);
    (*(const pl_unary_fn *)((const char *)s + slot))(n, in_place ? y : x, y, p);
  }
}
#define FLUSHING(X) /* subnormals, at times: those of ARITHMETIC in elementwise.pyx */ \
  X(logistic_f32) X(tanh_f32) X(exp_f32) X(elu_f32) X(hard_swish_f32) X(gelu_f32) X(gelu_tanh_f32) X(square_f32)
#define FLOATS(X) \
  X(rsqrt_f32) X(log_f32) X(sin_f32) X(sqrt_f32) X(abs_f32) X(neg_f32) X(floor_f32) X(ceil_f32) X(round_f32) X(sign_f32)
#define HALVES(X) X(hard_swish_f16) X(logistic_f16) X(tanh_f16) X(gelu_f16) X(gelu_tanh_f16)
#define INTEGERS(X) \
  X(neg_f16, 2, 2, nothing) X(abs_i16, 2, 2, nothing) X(abs_i32, 4, 4, nothing) X(neg_i16, 2, 2, nothing) \
  X(neg_i32, 4, 4, nothing) X(neg_i64, 8, 8, nothing) X(sign_i32, 4, 4, nothing) \
  X(lut8, 1, 1, table8) X(lines8, 1, 1, lines) X(lut8_i16, 1, 2, table8_16) X(lut16, 2, 2, table513) \
  X(table16, 2, 2, table64k) X(logistic_i16, 2, 2, sigmoid) X(tanh_i16, 2, 2, sigmoid) \
  X(rescale_i16_i8, 2, 1, rescale8) X(rescale_i16_i16, 2, 2, rescale16) X(rescale_i16_i32, 2, 4, rescale32) \
  X(rescale_i32_i8, 4, 1, rescale8) X(rescale_i32_i16, 4, 2, rescale16) X(rescale_abs_i16, 2, 2, rescale16) \
  X(leaky_relu_i16, 2, 2, leaky) X(sqrt_i16, 2, 2, root) X(dequantize_i8, 1, 4, dequantize) \
  X(dequantize_u8, 1, 4, dequantize) X(dequantize_i16, 2, 4, dequantize) X(finish_product_q8, 8, 1, finished) \
  X(finish_product_q16, 8, 2, finished) X(bucketize_f64, 8, 4, boundaries) X(bucketize_i32, 4, 4, boundaries) \
  X(bucketize_i64, 8, 4, boundaries)
#define CASTS(X) \
  X(cast_i64_f32, 8, 4, nothing) X(cast_bool_f32, 1, 4, nothing) X(cast_i32_f32, 4, 4, nothing) \
  X(cast_i8_i16, 1, 2, nothing) X(cast_i8_i32, 1, 4, nothing) X(cast_i8_i64, 1, 8, nothing) \
  X(cast_u8_i16, 1, 2, nothing) X(cast_u8_i32, 1, 4, nothing) X(cast_u8_i64, 1, 8, nothing) \
  X(cast_i16_i8, 2, 1, nothing) X(cast_i16_i32, 2, 4, nothing) X(cast_i16_i64, 2, 8, nothing) \
  X(cast_i32_i8, 4, 1, nothing) X(cast_i32_i16, 4, 2, nothing) X(cast_i32_i64, 4, 8, nothing) \
  X(cast_i64_i8, 8, 1, nothing) X(cast_i64_i16, 8, 2, nothing) X(cast_i64_i32, 8, 4, nothing) \
  X(cast_bool_i8, 1, 1, nothing) X(cast_bool_i16, 1, 2, nothing) X(cast_bool_i32, 1, 4, nothing) \
  X(cast_bool_i64, 1, 8, nothing) X(cast_i16_bool, 2, 1, nothing) X(cast_i32_bool, 4, 1, nothing) \
  X(cast_i64_bool, 8, 1, nothing)
#define OF_FLOATS(X) \
  X(quantize_f32_i8, 4, 1, quantize8) X(quantize_f32_i16, 4, 2, quantize16) X(cast_f32_bool, 4, 1, nothing) \
  X(cast_f32_u8, 4, 1, nothing) X(cast_f32_i8, 4, 1, nothing) X(cast_f32_i16, 4, 2, nothing) \
  X(cast_f32_i32, 4, 4, nothing) X(cast_f32_i64, 4, 8, nothing) X(bucketize_f32, 4, 4, boundaries)
#define X(name) UNARY(name, 4, 4, true, nothing, NEAR)
FLUSHING(X)
#undef X
#define X(name) UNARY(name, 4, 4, true, one_of_two, NEAR)
FLOATS(X)
#undef X
UNARY(clamp_f32, 4, 4, true, float_range, NEAR)
UNARY(leaky_relu_f32, 4, 4, true, slope, NEAR)
UNARY(leaky_relu_f16, 2, 2, false, slope, NEAR_HALF)
UNARY(fake_quant, 4, 4, true, fake, NEAR)
UNARY(float_to_half, 4, 2, true, nothing, NEAR_HALF)
UNARY(half_to_float, 2, 4, false, nothing, NEAR)
#define X(name) UNARY(name, 2, 2, false, nothing, NEAR_HALF)
HALVES(X)
#undef X
#define X(name, x, y, make) UNARY(name, x, y, false, make, EXACT)
INTEGERS(X)
CASTS(X)
#undef X
#define X(name, x, y, make) UNARY(name, x, y, true, make, EXACT)
OF_FLOATS(X)
#undef X

/* ---- slots of two operands ---- */
static void fill_zeros(uint8_t *b, size_t n, size_t item, int64_t zero) { /* by another divisor */
  const int64_t other = zero ? 0 : 1;
  for (size_t i = 0; i < n; i++)
    if (!memcmp(b + i * item, &zero, item)) memcpy(b + i * item, &other, item);
}
static void binary(size_t slot, size_t a_item, size_t b_item, size_t y_item, bool real, parameters make, closeness how,
                   bool divides) {
  const size_t n = some(0, 300), bytes = make(numbers);
  const void *p = copied(numbers, bytes / 4 + (bytes % 4 != 0), 4);
  const int steps = between(0, 2), a_step = steps != 1, b_step = steps != 2;
  const size_t a_n = a_step ? n : 1, b_n = b_step ? n : 1;
  const void *a = real ? (void *)floats(a_n) : array(a_n, a_item);
  void *b = real ? (void *)floats(b_n) : array(b_n, b_item);
  if (divides) {
    const int32_t *v = (const int32_t *)numbers;
    fill_zeros(b, b_n, b_item, make == product8 ? (v[1] & 0xFF) ^ v[5] : make == product16 ? (int16_t)v[1] : 0);
  }
  const bool in_place = a_step && a_item == y_item && chance(2);
  if (real && make == float_range && between(0, 1)) flush_subnormals();
  EACH_LEVEL(s) {
    void *y = result(n, y_item, in_place ? a : NULL, n, how);
    (*(const pl_binary_fn *)((const char *)s + slot))(n, in_place ? y : a, a_step, b, b_step, y, p);
  }
}
#define BINARY(name, a, b, y, real, make, how, divides) \
  static void name(void) { binary(offsetof(pl_slots, name), a, b, y, real, make, how, divides); }
#define PAIRS_OF_FLOATS(X) \
  X(add_f32, float_range) X(sub_f32, float_range) X(mul_f32, float_range) X(div_f32, float_range) \
  X(maximum_f32, nothing) X(minimum_f32, nothing) X(prelu_f32, nothing) X(squared_difference_f32, nothing) \
  X(floor_div_f32, nothing)
#define PAIRS_OF_HALVES(X) X(prelu_f16) X(add_f16) X(mul_f16) X(maximum_f16) X(minimum_f16)
#define PAIRS(X) \
  X(add_i16, 2, 2, 2, int_range) X(sub_i16, 2, 2, 2, int_range) X(mul_i16, 2, 2, 2, int_range) \
  X(add_i32, 4, 4, 4, int_range) X(sub_i32, 4, 4, 4, int_range) X(mul_i32, 4, 4, 4, int_range) \
  X(add_i64, 8, 8, 8, long_range) X(sub_i64, 8, 8, 8, long_range) X(mul_i64, 8, 8, 8, long_range) \
  X(mul_u32, 4, 4, 4, int_range) X(maximum_i8, 1, 1, 1, nothing) X(minimum_i8, 1, 1, 1, nothing) \
  X(maximum_u8, 1, 1, 1, nothing) X(minimum_u8, 1, 1, 1, nothing) X(maximum_i16, 2, 2, 2, nothing) \
  X(minimum_i16, 2, 2, 2, nothing) X(maximum_i32, 4, 4, 4, nothing) X(minimum_i32, 4, 4, 4, nothing) \
  X(maximum_i64, 8, 8, 8, nothing) X(minimum_i64, 8, 8, 8, nothing) X(sum_q8, 1, 1, 1, sum8) \
  X(sum_q16, 2, 2, 2, sum16) X(add_pot16, 2, 2, 2, shifts) X(sub_pot16, 2, 2, 2, shifts) \
  X(mul_q8, 1, 1, 1, fitted_product) X(mul_q16, 2, 2, 2, product16) X(mul_q16_q8, 2, 2, 1, product8) \
  X(prelu_q8, 1, 1, 1, prelu8) X(prelu_q16, 2, 1, 2, prelu16) X(less_q8, 1, 1, 1, compared) X(pow_i32, 4, 4, 4, nothing) X(pow_modulo_i32, 4, 4, 4, nothing) \
  X(equal_q8, 1, 1, 1, compared) X(equal_q16, 2, 2, 1, compared16) X(squared_difference_q8, 1, 1, 1, differences) \
  X(real_q, 2, 2, 2, on_reals) X(product_q8, 8, 1, 8, factors) X(product_q16, 8, 2, 8, factors) \
  X(squared_difference_i32, 4, 4, 4, nothing) X(less_i16, 2, 2, 1, inverted) X(less_i32, 4, 4, 1, inverted) X(less_i64, 8, 8, 1, inverted) \
  X(equal_i16, 2, 2, 1, inverted) X(equal_i32, 4, 4, 1, inverted) X(equal_i64, 8, 8, 1, inverted) X(and_bool, 1, 1, 1, nothing) \
  X(or_bool, 1, 1, 1, nothing) X(add_i8, 1, 1, 1, nothing) X(mul_i8, 1, 1, 1, nothing)
#define COMPARED_FLOATS(X) X(less_f32, inverted) X(less_equal_f32, inverted) X(equal_f32, inverted)
#define DIVISIONS(X) \
  X(div_i32, 4, int_range) X(floor_div_i32, 4, nothing) X(floor_mod_i32, 4, nothing) X(div_q8, 1, product8) \
  X(div_q16, 2, product16)
#define X(name, make) BINARY(name, 4, 4, 4, true, make, NEAR, false)
PAIRS_OF_FLOATS(X)
#undef X
#define X(name, make) BINARY(name, 4, 4, 1, true, make, EXACT, false)
COMPARED_FLOATS(X)
#undef X
BINARY(pow_f32, 4, 4, 4, true, nothing, NEAR, false)
#define X(name) BINARY(name, 2, 2, 2, false, float_range, NEAR_HALF, false)
PAIRS_OF_HALVES(X)
#undef X
#define X(name, a, b, y, make) BINARY(name, a, b, y, false, make, EXACT, false)
PAIRS(X)
#undef X
#define X(name, item, make) BINARY(name, item, item, item, false, make, EXACT, true)
DIVISIONS(X)
#undef X
static void mul_c64(void) {
  const size_t n = some(0, 100);
  const float *a = whole(2 * n, 99), *b = whole(2 * n, 99);
  EACH_LEVEL(s) s->mul_c64(n, a, 1, b, 1, results(n, 8, EXACT), NULL);
}

/* ---- any op on any types ---- */
static const struct { const char *name; size_t bytes; } types[] = {
    {"int8", 1},  {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4},
    {"uint32", 4}, {"int64", 8}, {"uint64", 8},
    {"int4", 1},  {"uint4", 1}, {"int2", 1},  {"bool", 1},    {"float16", 2},  {"bfloat16", 2}, {"float32", 4},
    {"float64", 8}, {"complex64", 8}};
/* p: the parameters; x, y: bytes of elements.  to: the number of y's type, -1: any, -2: that of x. */
static bool wide(int operands, const char *op, int to, int32_t *p, size_t *x, size_t *y) {
  const int a = between(0, 16), b = to >= 0 ? to : to == -1 && chance(2) ? between(0, 16) : a;
  char words[96];
  strcat(strcat(strcat(strcat(strcpy(words, op), " "), types[a].name), " "), types[b].name);
  *x = types[a].bytes, *y = types[b].bytes;
  return pl_wide_parameters(operands, words, p);
}
static void wide_unary(void) {
  static const char *const ops[] = {"cast", "abs", "neg", "sign", "square", "floor",    "ceil",
                                    "round", "sin", "cos", "log",  "tanh",   "logistic", "not"};
  int32_t p[3];
  size_t x_item, y_item;
  if (!wide(1, ops[between(0, 13)], -1, p, &x_item, &y_item)) return;
  const size_t n = some(0, 300);
  const void *x = array(n, x_item), *at = copied(p, 3, 4);
  EACH_LEVEL(s) s->wide_unary(n, x, results(n, y_item, EXACT), at);
}
static void wide_binary(void) {
  enum { COMPARISONS = 6, BOOL = 11 };
  static const char *const ops[] = {
      "less", "less_equal", "equal", "not_equal", "all", "any", "add", "sub", "mul", "maximum", "minimum",
      "maximum_unsigned", "minimum_unsigned", "and", "or", "xor", "shift_right", "shift_left", "floor_div",
      "floor_mod", "squared_difference", "atan2"};
  int32_t p[3];
  size_t x_item, y_item;
  const int op = between(0, sizeof ops / sizeof *ops - 1);
  if (!wide(2, ops[op], op < COMPARISONS ? BOOL : -2, p, &x_item, &y_item)) return;
  const size_t n = some(0, 300);
  const int steps = between(0, 2), a_step = steps != 1, b_step = steps != 2;
  const void *a = array(a_step ? n : 1, x_item), *b = array(b_step ? n : 1, x_item), *at = copied(p, 3, 4);
  EACH_LEVEL(s) s->wide_binary(n, a, a_step, b, b_step, results(n, y_item, EXACT), at);
}

#define X(name, ...) {#name, name},
const check element_checks[] = {
    FLUSHING(X) FLOATS(X) HALVES(X) INTEGERS(X) CASTS(X) OF_FLOATS(X) COMPARED_FLOATS(X) PAIRS_OF_FLOATS(X) PAIRS_OF_HALVES(X) PAIRS(X)
    DIVISIONS(X) X(clamp_f32) X(leaky_relu_f32) X(leaky_relu_f16) X(fake_quant) X(float_to_half) X(half_to_float) X(pow_f32) X(mul_c64)
    X(wide_unary) X(wide_binary){NULL, NULL}};
