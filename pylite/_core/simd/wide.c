/* Element-wise rows for any type: a block at a time into int64 or double, through the op, and out as any type.
 *
 * CAST is the op that does nothing.  Integers wrap when they are stored; float16, bfloat16 and float32 are rounded
 * once from float64, which is what float32 arithmetic gives for a single operation. */
#include "wide.h"
#include "casts.h"
#include <math.h>
#include <string.h>

enum { BLOCK = PL_CAST_BLOCK };
typedef union { int64_t i[BLOCK]; double f[BLOCK]; } block;

/* ---- one operand; the order of the ops is that of UNARY in pylite/ops/wide.py ---- */
typedef struct { int32_t x_type, y_type, op; } unary_p;
enum { CAST, ABS, NEG, SIGN, SQUARE, FLOOR, CEIL, ROUND, SIN, COS, LOG, NOT, TANH, LOGISTIC };
#define EACH(expression) \
  for (size_t i = 0; i < n; i++) v[i] = (expression); \
  break

static void unary_int(int op, size_t n, int64_t *v) {
  switch (op) {
    case ABS: EACH(v[i] < 0 ? -v[i] : v[i]);
    case NEG: EACH(-v[i]);
    case SIGN: EACH((v[i] > 0) - (v[i] < 0));
    case SQUARE: EACH(v[i] * v[i]);
    case NOT: EACH(!v[i]);
  }
}
static void unary_float(int op, size_t n, double *v) {
  switch (op) {
    case ABS: EACH(fabs(v[i]));
    case NEG: EACH(-v[i]);
    case SIGN: EACH((v[i] > 0) - (v[i] < 0));
    case SQUARE: EACH(v[i] * v[i]);
    case FLOOR: EACH(floor(v[i]));
    case CEIL: EACH(ceil(v[i]));
    case ROUND: EACH(rint(v[i]));
    case SIN: EACH(sin(v[i]));
    case COS: EACH(cos(v[i]));
    case LOG: EACH(log(v[i]));
    case TANH: EACH(tanh(v[i]));
    case LOGISTIC: EACH(1 / (1 + exp(-v[i])));
  }
}
void wide_unary(size_t n, const void *vx, void *vy, const void *vp) {
  unary_p p;
  memcpy(&p, vp, sizeof p);
  const pl_cast_type *from = &pl_cast_types[p.x_type], *to = &pl_cast_types[p.y_type];
  const char *x = vx;
  char *y = vy;
  block v;
  if (p.op == CAST && from == to) { /* keeps what a wider type would not: imaginary parts, the bits of NaN */
    memcpy(y, x, n * (size_t)from->size);
    return;
  }
  for (size_t m; n; n -= m, x += m * (size_t)from->size, y += m * (size_t)to->size) {
    m = n < BLOCK ? n : BLOCK;
    from->load(m, x, &v);
    if (from->is_float) {
      unary_float(p.op, m, v.f);
      to->from_float(m, &v, y);
    } else {
      unary_int(p.op, m, v.i);
      to->from_int(m, &v, y);
    }
  }
}

/* ---- two operands; the order of the ops is that of BINARY in pylite/ops/wide.py ---- */
typedef struct { int32_t x_type, y_type, op; } binary_p;
enum { ADD, SUB, MUL, MAXIMUM, MINIMUM, MAXIMUM_UNSIGNED, MINIMUM_UNSIGNED, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, AND, OR,
       XOR, SHIFT_RIGHT, SHIFT_LEFT, FLOOR_DIV, FLOOR_MOD, POW, ATAN2, SQUARED_DIFFERENCE };

/* b is not 0 (checked beforehand); -2^63 / -1 would trap */
static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b ? (int64_t)(0 - (uint64_t)a) : 0;
  return a / b - ((a % b != 0) & ((a ^ b) < 0));
}
static int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r + (-(int64_t)((r != 0) & ((r ^ b) < 0)) & b);
}
static double floor_mod_f(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* POW of int32, by way of float64 as in the reference: what is out of range becomes -2^31, as x86-64 converts it */
static int64_t power(double a, double b) {
  double r = pow(a, b);
  return r > -2147483649.0 && r < 2147483648.0 ? (int64_t)r : INT32_MIN;
}
#define PAIR(expression) \
  for (size_t i = 0; i < n; i++) { \
    const T a = va[i * as], b = vb[i * bs]; \
    v[i] = (expression); \
  } \
  break

/* bits: of the type, which limits a shift */
static void binary_int(int op, int bits, size_t n, const int64_t *va, size_t as, const int64_t *vb, size_t bs,
                       int64_t *v) {
  typedef int64_t T;
  switch (op) {
    case ADD: PAIR(a + b);
    case SUB: PAIR(a - b);
    case MUL: PAIR(a * b);
    case MAXIMUM: PAIR(a > b ? a : b);
    case MINIMUM: PAIR(a < b ? a : b);
    case MAXIMUM_UNSIGNED: PAIR((uint64_t)a > (uint64_t)b ? a : b);
    case MINIMUM_UNSIGNED: PAIR((uint64_t)a < (uint64_t)b ? a : b);
    case LESS: PAIR(a < b);
    case LESS_EQUAL: PAIR(a <= b);
    case EQUAL: PAIR(a == b);
    case NOT_EQUAL: PAIR(a != b);
    case AND: PAIR(a & b);
    case OR: PAIR(a | b);
    case XOR: PAIR(a ^ b);
    case SHIFT_RIGHT: PAIR(a >> (b < 0 ? 0 : b >= bits ? bits - 1 : b));
    case SHIFT_LEFT: PAIR(b < 0 || b >= bits ? 0 : (int64_t)((uint64_t)a << b));
    case FLOOR_DIV: PAIR(floor_div(a, b));
    case FLOOR_MOD: PAIR(floor_mod(a, b));
    case POW: PAIR(power((double)a, (double)b));
    case SQUARED_DIFFERENCE: PAIR((a - b) * (a - b));
  }
}
/* Comparisons write their int64 where the double was. */
static void compare_float(int op, size_t n, const double *va, size_t as, const double *vb, size_t bs, int64_t *v) {
  typedef double T;
  switch (op) {
    case LESS: PAIR(a < b);
    case LESS_EQUAL: PAIR(a <= b);
    case EQUAL: PAIR(a == b);
    case NOT_EQUAL: PAIR(a != b);
  }
}
static void binary_float(int op, size_t n, const double *va, size_t as, const double *vb, size_t bs, double *v) {
  typedef double T;
  switch (op) {
    case ADD: PAIR(a + b);
    case SUB: PAIR(a - b);
    case MUL: PAIR(a * b);
    case MAXIMUM: PAIR(a > b ? a : b);
    case MINIMUM: PAIR(a < b ? a : b);
    case FLOOR_DIV: PAIR(floor((float)(a / b))); /* the quotient is float32's: its rounding may reach a whole number */
    case FLOOR_MOD: PAIR(floor_mod_f(a, b));
    case ATAN2: PAIR(atan2(a, b));
    case SQUARED_DIFFERENCE: PAIR((double)(float)(a - b) * (float)(a - b));
  }
}
/* The commonest cases, without the detour: comparisons of float32 and int32, AND and OR of truth values. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("tree-vectorize")))
#else
#define VECTORISED
#endif
#define EACH_PAIR(expression) \
  if (bs) { \
    for (size_t i = 0; i < n; i++) { const T a = va[i], b = vb[i]; y[i] = (uint8_t)(expression); } \
  } else { \
    for (size_t i = 0; i < n; i++) { const T a = va[i], b = *vb; y[i] = (uint8_t)(expression); } \
  } \
  break
#define COMPARE(name, TYPE) \
  VECTORISED static void name(int op, size_t n, const TYPE *restrict va, const TYPE *restrict vb, size_t bs, \
                              uint8_t *restrict y) { \
    typedef TYPE T; \
    switch (op) { \
      case LESS: EACH_PAIR(a < b); \
      case LESS_EQUAL: EACH_PAIR(a <= b); \
      case EQUAL: EACH_PAIR(a == b); \
      default: EACH_PAIR(a != b); \
    } \
  }
COMPARE(compare_int32, int32_t)
COMPARE(compare_float32, float)
VECTORISED static void both_or_either(int op, size_t n, const uint8_t *va, const uint8_t *vb, size_t bs, uint8_t *y) {
  typedef uint8_t T;
  switch (op) { /* y may be an operand */
    case AND: EACH_PAIR((a != 0) & (b != 0));
    default: EACH_PAIR((a != 0) | (b != 0));
  }
}
/* XOR of any integers, which knows only bytes; y may be an operand */
VECTORISED static void exclusive(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; i++) y[i] = a[i] ^ b[i];
}
void wide_binary(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  binary_p p;
  memcpy(&p, vp, sizeof p);
  const pl_cast_type *from = &pl_cast_types[p.x_type], *to = &pl_cast_types[p.y_type];
  const char *a = va, *b = vb;
  char *y = vy;
  const size_t size = (size_t)from->size, as = a_step != 0, bs = b_step != 0;
  block ba, bb, v;
  if (p.x_type == TYPE_INT64 && p.y_type == TYPE_INT64) return binary_int(p.op, 64, n, va, as, vb, bs, vy);
  if (as) {
    const int compares = p.op >= LESS && p.op <= NOT_EQUAL;
    if (compares && p.x_type == TYPE_INT32) return compare_int32(p.op, n, va, vb, bs, vy);
    if (compares && p.x_type == TYPE_FLOAT32) return compare_float32(p.op, n, va, vb, bs, vy);
    if (bs && p.op == XOR) return exclusive(n * size, va, vb, vy);
    if (p.x_type == TYPE_BOOL && (p.op == AND || p.op == OR)) return both_or_either(p.op, n, va, vb, bs, vy);
  }
  if (!as) from->load(1, a, &ba);
  if (!bs) from->load(1, b, &bb);
  for (size_t m; n; n -= m, a += as * m * size, b += bs * m * size, y += m * (size_t)to->size) {
    m = n < BLOCK ? n : BLOCK;
    if (as) from->load(m, a, &ba);
    if (bs) from->load(m, b, &bb);
    if (!from->is_float) binary_int(p.op, 8 * from->size, m, ba.i, as, bb.i, bs, v.i);
    else if (p.op >= LESS && p.op <= NOT_EQUAL) compare_float(p.op, m, ba.f, as, bb.f, bs, v.i);
    else binary_float(p.op, m, ba.f, as, bb.f, bs, v.f);
    if (from->is_float && !(p.op >= LESS && p.op <= NOT_EQUAL)) to->from_float(m, &v, y);
    else to->from_int(m, &v, y);
  }
}

void pow_f32(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const float *a = va, *b = vb;
  float *y = vy;
  (void)vp;
  for (; n; n--, a += a_step, b += b_step) *y++ = powf(*a, *b);
}
void mul_c64(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const complex64 *a = va, *b = vb;
  complex64 *y = vy;
  (void)vp;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step)
    y[i] = (complex64){a->re * b->re - a->im * b->im, a->re * b->im + a->im * b->re};
}

/* ---- quantized operands (docs/numerics.md section 5); op counts from LESS ---- */
enum { OP_LESS, OP_LESS_EQUAL, OP_EQUAL };
static int compared(int op, int32_t a, int32_t b) {
  return op == OP_LESS ? a < b : op == OP_LESS_EQUAL ? a <= b : op == OP_EQUAL ? a == b : a != b;
}
/* each operand's 256 values on the common scale */
typedef struct { int32_t op, a[256], b[256]; } compare_q8_p;
void compare_q8(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const compare_q8_p *p = vp;
  const uint8_t *a = va, *b = vb;
  uint8_t *y = vy;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step) y[i] = (uint8_t)compared(p->op, p->a[*a], p->b[*b]);
}
typedef struct { int32_t op, a_zero, a_m, a_e, b_zero, b_m, b_e; } compare_q16_p;
void compare_q16(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const int16_t *a = va, *b = vb;
  uint8_t *y = vy;
  compare_q16_p p;
  memcpy(&p, vp, sizeof p);
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step)
    y[i] = (uint8_t)compared(p.op, pl_rdbpot_any(pl_mul_high(pl_shl32(*a - p.a_zero, 8), p.a_m), -p.a_e),
                             pl_rdbpot_any(pl_mul_high(pl_shl32(*b - p.b_zero, 8), p.b_m), -p.b_e));
}
typedef struct { int32_t m, e, y_zero, a[256], b[256]; } difference_q8_p;
void squared_difference_q8(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy,
                           const void *vp) {
  const difference_q8_p *p = vp;
  const uint8_t *a = va, *b = vb;
  int8_t *y = vy;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step) {
    int32_t d = p->a[*a] - p->b[*b];
    y[i] = (int8_t)pl_clamp32(pl_rdbpot_any(pl_mul_high(d * d, p->m), -p->e) + p->y_zero, -128, 127);
  }
}

/* REDUCE_PROD (section 8): an int64 accumulator, INT64_MIN while it is empty, times the next element */
typedef struct { int32_t zero, m16, e, wide; } product_p;
void product_q(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const int64_t *a = va;
  int64_t *y = vy;
  product_p p;
  memcpy(&p, vp, sizeof p);
  for (size_t i = 0; i < n; i++, a += a_step) {
    int32_t b = p.wide ? ((const int16_t *)vb)[i * (size_t)b_step] : ((const int8_t *)vb)[i * (size_t)b_step];
    b -= p.zero;
    y[i] = *a == INT64_MIN ? b : pl_mbqm64((int64_t)(int32_t)*a * b, p.m16, p.e);
  }
}
typedef struct { int32_t m16, e, y_zero, low, high, wide; } product_end_p;
void finish_product_q(size_t n, const void *vx, void *vy, const void *vp) {
  const int64_t *x = vx;
  product_end_p p;
  memcpy(&p, vp, sizeof p);
  for (size_t i = 0; i < n; i++) {
    int32_t r = pl_clamp32(pl_mbqm64(x[i], p.m16, p.e) + p.y_zero, p.low, p.high);
    if (p.wide) ((int16_t *)vy)[i] = (int16_t)r;
    else ((int8_t *)vy)[i] = (int8_t)r;
  }
}

/* ---- FAKE_QUANT, BUCKETIZE ---- */
typedef struct { float low, high, scale, inverse; } fake_quant_p;
void fake_quant(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  float *y = vy;
  fake_quant_p p;
  memcpy(&p, vp, sizeof p);
  for (size_t i = 0; i < n; i++)
    y[i] = (float)pl_round_away32((pl_clampf(x[i], p.low, p.high) - p.low) * p.inverse) * p.scale + p.low;
}
/* type, number of boundaries, then the boundaries in float32: how many are not above x */
void bucketize(size_t n, const void *vx, void *vy, const void *vp) {
  const int32_t *head = vp;
  const float *boundaries = (const float *)(head + 2);
  const pl_cast_type *from = &pl_cast_types[head[0]];
  const char *x = vx;
  int32_t *y = vy;
  block v;
  for (size_t m; n; n -= m, x += m * (size_t)from->size, y += m) {
    m = n < BLOCK ? n : BLOCK;
    from->load(m, x, &v);
    for (size_t i = 0; i < m; i++) {
      const double value = from->is_float ? v.f[i] : (float)v.i[i];
      int32_t low = 0, high = head[1];
      while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (value < boundaries[middle]) high = middle;
        else low = middle + 1;
      }
      y[i] = low;
    }
  }
}
