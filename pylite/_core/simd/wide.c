/* wide_unary and wide_binary: element-wise ops on any types, for combinations that have no micro-kernel.
 *
 * Elements are loaded as int64 or double, block by block, and stored as any type.  Integers wrap when they are stored.
 * float16, bfloat16 and float32 are rounded once, from double; for a single operation this gives the result of float32
 * arithmetic.  CAST is the op that changes no element. */
#include "common.h"
#include "casts.h"
#include "simd.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = PL_CAST_BLOCK };
typedef union { int64_t i[BLOCK]; double f[BLOCK]; } block;
typedef struct { int32_t op, x_type, y_type; } parameters; /* indices into the tables of ops and of pl_cast_types */

/* ---- the ops of one operand, in place ---- */
typedef void (*unary_fn)(size_t n, void *v);
typedef struct { const char *name; unary_fn of_int, of_real; } unary_op; /* NULL: not defined for these types */

#define UNARY(name, WIDE, expression) \
  static void name(size_t n, void *v) { \
    WIDE *p = v; \
    for (size_t i = 0; i < n; i++) { \
      const WIDE x = p[i]; \
      p[i] = (WIDE)(expression); \
    } \
  }
static void unchanged(size_t n, void *v) { (void)n, (void)v; }
UNARY(abs_int, int64_t, x < 0 ? -x : x)
UNARY(abs_real, double, fabs(x))
UNARY(neg_int, int64_t, -x)
UNARY(neg_real, double, -x)
UNARY(sign_int, int64_t, (x > 0) - (x < 0))
UNARY(sign_real, double, x == x ? (x > 0) - (x < 0) : x)
UNARY(square_int, int64_t, x * x)
UNARY(square_real, double, x * x)
UNARY(floor_real, double, floor(x))
UNARY(ceil_real, double, ceil(x))
UNARY(round_real, double, rint(x))
UNARY(sin_real, double, sin(x))
UNARY(cos_real, double, cos(x))
UNARY(log_real, double, log(x))
UNARY(tanh_real, double, tanh(x))
UNARY(logistic_real, double, 1 / (1 + exp(-x)))
UNARY(not_int, int64_t, !x)

#define BOTH(op) {#op, op##_int, op##_real}
#define INT(op) {#op, op##_int, NULL}
#define REAL(op) {#op, NULL, op##_real}
static const unary_op unary_ops[] = {
  {"cast", unchanged, unchanged}, BOTH(abs), BOTH(neg), BOTH(sign), BOTH(square), REAL(floor), REAL(ceil), REAL(round),
  REAL(sin), REAL(cos), REAL(log), REAL(tanh), REAL(logistic), INT(not)};
#undef BOTH
#undef INT
#undef REAL

void wide_unary(size_t n, const void *vx, void *vy, const void *vp) {
  parameters p;
  memcpy(&p, vp, sizeof p);
  const pl_cast_type *from = &pl_cast_types[p.x_type], *to = &pl_cast_types[p.y_type];
  const unary_fn op = from->is_float ? unary_ops[p.op].of_real : unary_ops[p.op].of_int;
  const pl_store_fn store = from->is_float ? to->from_float : to->from_int;
  const char *x = vx;
  char *y = vy;
  block v;
  if (op == unchanged && from == to) { /* double would lose imaginary parts and the bits of NaN */
    memcpy(y, x, n * (size_t)from->size);
    return;
  }
  for (size_t m; n; n -= m, x += m * (size_t)from->size, y += m * (size_t)to->size) {
    m = n < BLOCK ? n : BLOCK;
    from->load(m, x, &v);
    op(m, &v);
    store(m, &v, y);
  }
}

/* ---- the ops of two operands ---- */
/* y[i] = op(a[i * a_step], b[i * b_step]).  bits: of the type, which limits shifts; steps are 1, or 0 if the operand is
 * one element.  Comparisons write 0 or 1 as int64. */
typedef void (*binary_fn)(size_t n, int bits, const void *a, size_t a_step, const void *b, size_t b_step, void *y);
typedef struct {
  const char *name;
  int compares;              /* results are truth values */
  binary_fn of_int, of_real; /* NULL: not defined for these types */
} binary_op;

/* Division by 0 gives 0: another kernel has checked the divisor.  -2^63 / -1 would trap.  Small numbers are divided in
 * 32 bits, which takes half as long. */
static int is_small(int64_t a, int64_t b) { return ((uint64_t)a | (uint64_t)b) >> 32 == 0; }
static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b ? (int64_t)(0 - (uint64_t)a) : 0;
  if (is_small(a, b)) return (uint32_t)a / (uint32_t)b;
  return a / b - ((a % b != 0) & ((a ^ b) < 0));
}
static int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  if (is_small(a, b)) return (uint32_t)a % (uint32_t)b;
  int64_t r = a % b;
  return r + (-(int64_t)((r != 0) & ((r ^ b) < 0)) & b);
}
static double floor_mod_f(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#define BINARY(name, T, Y, expression) \
  static void name(size_t n, int bits, const void *va, size_t a_step, const void *vb, size_t b_step, void *vy) { \
    const T *pa = va, *pb = vb; \
    Y *y = vy; \
    (void)bits; \
    for (size_t i = 0; i < n; i++) { \
      const T a = pa[i * a_step], b = pb[i * b_step]; \
      y[i] = (expression); \
    } \
  }
#define OF_INT(op, expression) BINARY(op##_int, int64_t, int64_t, expression)
#define OF_REAL(op, expression) BINARY(op##_real, double, double, expression)
OF_INT(add, a + b)
OF_INT(sub, a - b)
OF_INT(mul, a * b)
OF_INT(maximum, a > b ? a : b)
OF_INT(minimum, a < b ? a : b)
OF_INT(maximum_unsigned, (uint64_t)a > (uint64_t)b ? a : b)
OF_INT(minimum_unsigned, (uint64_t)a < (uint64_t)b ? a : b)
OF_INT(and, a & b)
OF_INT(or, a | b)
OF_INT(xor, a ^ b)
OF_INT(shift_right, a >> (b < 0 ? 0 : b >= bits ? bits - 1 : b))
OF_INT(shift_left, b < 0 || b >= bits ? 0 : (int64_t)((uint64_t)a << b))
/* -128 / -1 saturates in 8 and 16 bits; wider types wrap */
OF_INT(floor_div, floor_div(a, b) - (bits < 32 && b == -1 && a == -((int64_t)1 << (bits - 1))))
OF_INT(floor_mod, floor_mod(a, b))
OF_INT(squared_difference, (a - b) * (a - b))
OF_REAL(add, a + b)
OF_REAL(sub, a - b)
OF_REAL(mul, a * b)
OF_REAL(maximum, a > b ? a : b)
OF_REAL(minimum, a < b ? a : b)
OF_REAL(floor_div, floor(a / b))
OF_REAL(floor_mod, floor_mod_f(a, b))
OF_REAL(atan2, atan2(a, b))
OF_REAL(squared_difference, (double)(float)(a - b) * (float)(a - b))

#define COMPARISON(op, expression) \
  BINARY(op##_int, int64_t, int64_t, expression) \
  BINARY(op##_real, double, int64_t, expression)
COMPARISON(less, a < b)
COMPARISON(less_equal, a <= b)
COMPARISON(equal, a == b)
COMPARISON(not_equal, a != b)
COMPARISON(all, (a != 0) & (b != 0))
COMPARISON(any, (a != 0) | (b != 0))

/* XOR of integers of any size, as bytes; y may be an operand. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("tree-vectorize")))
#endif
static void xor_bytes(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; i++) y[i] = a[i] ^ b[i];
}

#define BOTH(op) {.name = #op, .of_int = op##_int, .of_real = op##_real}
#define INT(op) {.name = #op, .of_int = op##_int}
#define REAL(op) {.name = #op, .of_real = op##_real}
#define COMPARES(op) {#op, 1, op##_int, op##_real}
static const binary_op binary_ops[] = {
  BOTH(add), BOTH(sub), BOTH(mul), BOTH(maximum), BOTH(minimum), INT(maximum_unsigned), INT(minimum_unsigned),
  INT(and), INT(or), INT(xor), INT(shift_right), INT(shift_left), BOTH(floor_div), BOTH(floor_mod),
  REAL(atan2), BOTH(squared_difference), COMPARES(less), COMPARES(less_equal), COMPARES(equal), COMPARES(not_equal),
  COMPARES(all), COMPARES(any)};

void wide_binary(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  parameters p;
  memcpy(&p, vp, sizeof p);
  const pl_cast_type *from = &pl_cast_types[p.x_type], *to = &pl_cast_types[p.y_type];
  const binary_op *op = &binary_ops[p.op];
  const binary_fn f = from->is_float ? op->of_real : op->of_int;
  const pl_store_fn store = from->is_float && !op->compares ? to->from_float : to->from_int;
  const size_t size = (size_t)from->size, as = a_step != 0, bs = b_step != 0;
  const int bits = 8 * from->size;
  const char *a = va, *b = vb;
  char *y = vy;
  block ba, bb, v;
  if (p.x_type == PL_CAST_int64 && p.y_type == PL_CAST_int64) return f(n, bits, va, as, vb, bs, vy);
  if (as && bs && f == xor_int) return xor_bytes(n * size, va, vb, vy);
  if (!as) from->load(1, a, &ba);
  if (!bs) from->load(1, b, &bb);
  for (size_t m; n; n -= m, a += as * m * size, b += bs * m * size, y += m * (size_t)to->size) {
    m = n < BLOCK ? n : BLOCK;
    if (as) from->load(m, a, &ba);
    if (bs) from->load(m, b, &bb);
    f(m, bits, &ba, as, &bb, bs, &v);
    store(m, &v, y);
  }
}

/* ---- parameters from names: "op x_type y_type" ---- */
static int type_number(const char *name) {
  for (int i = 0; i < PL_CAST_TYPES_COUNT; i++)
    if (!strcmp(pl_cast_types[i].name, name)) return i;
  return -1;
}

int pl_wide_parameters(int operands, const char *words, int32_t *p) {
  char op[32], x[32], y[32];
  if (sscanf(words, "%31s %31s %31s", op, x, y) != 3) return 0;
  parameters parsed = {-1, type_number(x), type_number(y)};
  if (parsed.x_type < 0 || parsed.y_type < 0) return 0;
  const int is_float = pl_cast_types[parsed.x_type].is_float;
#define FIND(ops) \
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) { \
    const int exists = is_float ? ops[i].of_real != NULL : ops[i].of_int != NULL; \
    if (exists && !strcmp(ops[i].name, op)) parsed.op = (int32_t)i; \
  }
  if (operands == 1) {
    FIND(unary_ops)
  } else {
    FIND(binary_ops)
  }
#undef FIND
  memcpy(p, &parsed, sizeof parsed);
  return parsed.op >= 0;
}
