/* 16-bit fixed point in 16-bit lanes: gives the results of pl_logistic_q and pl_tanh_q (rounding.h) for `bits` 16,
 * twice as many at a time.  Loops are unrolled by hand, because compilers do not vectorise code around loops. */
#ifndef PYLITE_FIXED16_H
#define PYLITE_FIXED16_H
#include "rounding.h"

/* SRDHM of 16 bits, for operands that cannot both be -32768. */
PL_INLINE int16_t fx16_mul(int16_t a, int16_t b) { return (int16_t)((((int32_t)a * b >> 14) + 1) >> 1); }
/* x 2^k, saturated */
PL_INLINE int16_t fx16_shl(int16_t x, int k) {
  const int16_t limit = (int16_t)(32767 >> k), shifted = (int16_t)(uint16_t)((uint16_t)x << k);
  int16_t r = x > limit ? 32767 : shifted;
  return x < -limit ? -32768 : r;
}
/* Constants of a format Qm.  quarter: 1/4; scale: 2^m; b0 .. b6: the bits of 1/4, 1/2, ..., 16, or 0 if these are not
 * below 2^m; least: exp of smaller numbers is 0. */
typedef struct { int16_t quarter, scale, b0, b1, b2, b3, b4, b5, b6, least; } fx16_q;
PL_INLINE int16_t fx16_bit(int m, int k) { return (int16_t)(m > k ? 1 << (15 - m + k) : 0); }
PL_INLINE fx16_q fx16_format(int m) {
  return (fx16_q){(int16_t)(1 << (13 - m)), (int16_t)(1 << m), fx16_bit(m, -2), fx16_bit(m, -1), fx16_bit(m, 0),
                  fx16_bit(m, 1), fx16_bit(m, 2), fx16_bit(m, 3), fx16_bit(m, 4),
                  (int16_t)(m > 5 ? -(1 << (20 - m)) : -32768)};
}
/* exp(a) in Q0, a <= 0 in format q */
PL_INLINE int16_t fx16_exp(int16_t a, fx16_q q) {
  const int16_t u = (int16_t)((a & (q.quarter - 1)) - q.quarter), rem = (int16_t)(u - a);
  const int16_t x = (int16_t)((int16_t)(u * q.scale) + 4096);
  const int16_t x2 = fx16_mul(x, x), x3 = fx16_mul(x2, x), x4 = fx16_mul(x2, x2);
  const int16_t fourth = (int16_t)((x4 + 2) >> 2);
  int16_t t = fx16_mul((int16_t)(fourth + x3), 10923);
  t = (int16_t)(t + x2);
  t = (int16_t)((t >> 1) + (t & 1 & ~(t >> 15)));
  int16_t r = fx16_mul(28918, (int16_t)(x + t));
  r = (int16_t)(28918 + (r < 3849 ? r : 3849));
  r = rem & q.b0 ? fx16_mul(r, 25520) : r;
  r = rem & q.b1 ? fx16_mul(r, 19875) : r;
  r = rem & q.b2 ? fx16_mul(r, 12055) : r;
  r = rem & q.b3 ? fx16_mul(r, 4435) : r;
  r = rem & q.b4 ? fx16_mul(r, 600) : r;
  r = rem & q.b5 ? fx16_mul(r, 11) : r;
  r = rem & q.b6 ? 0 : r;
  r = a < q.least ? 0 : r;
  return a == 0 ? 32767 : r;
}
/* A step of Newton's method from x towards 1 / h */
PL_INLINE int16_t fx16_refined(int16_t x, int16_t h) {
  return (int16_t)(x + fx16_shl(fx16_mul(x, (int16_t)(8192 - fx16_mul(h, x))), 2));
}
/* 2 / (1 + a) in Q2, a in [0, 1] in Q0 */
PL_INLINE int16_t fx16_newton(int16_t a) {
  const int16_t h = (int16_t)(16384 + (a >> 1));
  const int16_t x = (int16_t)(23130 + fx16_mul(h, -15420));
  return fx16_refined(fx16_refined(fx16_refined(x, h), h), h);
}
/* 1 / (1 + exp(-a)) in Q0, a in format q */
PL_INLINE int16_t fx16_logistic(int16_t a, fx16_q q) {
  const int16_t n = a > 0 ? (int16_t)-a : a;
  const int16_t p = fx16_shl(fx16_newton(fx16_exp(n, q)), 1);
  const int16_t r = a > 0 ? p : (int16_t)(32767 - p);
  return a == 0 ? 16384 : r;
}
/* tanh(a) in Q0; q: the format with one integer bit more than the format of a */
PL_INLINE int16_t fx16_tanh(int16_t a, fx16_q q) {
  const int16_t n = a < 0 ? a : (int16_t)-a;
  const int16_t t = fx16_shl((int16_t)(fx16_newton(fx16_exp(n, q)) - 8192), 2);
  const int16_t r = a < 0 ? (int16_t)-t : t;
  return a == 0 ? 0 : r;
}
#endif
