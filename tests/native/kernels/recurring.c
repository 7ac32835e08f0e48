/* Checks of the slots of recurrent layers of integers. */
#include "draw.h"

static void gate_s16(void) {
  const size_t n = some(0, 200);
  const int32_t *acc = array(n, 4), *bias = array(n, 4), m = multiplier();
  const int e = between(-31, 3);
  const int16_t *g = array(n, 2);
  EACH_LEVEL(s) s->gate_s16((int)n, acc, bias, m, e, result(n, 2, g, n, EXACT));
}

static void peephole_s16(void) {
  const size_t n = some(0, 200);
  const int16_t *a = array(n, 2), *b = array(n, 2), *g = array(n, 2);
  const int32_t m = multiplier();
  const int e = between(-31, 0);
  EACH_LEVEL(s) s->peephole_s16((int)n, a, b, m, e, result(n, 2, g, n, EXACT));
}

static void norm_s16(void) {
  const size_t n = some(1, 200);
  const int16_t *scale = array(n, 2), *g = array(n, 2);
  const int32_t *bias = integers(n, 4, -(1 << 20), 1 << 20), m = multiplier(), guard = between(1, 1000);
  const int e = between(-20, -1);
  EACH_LEVEL(s) s->norm_s16((int)n, scale, bias, m, e, guard, result(n, 2, g, n, EXACT));
}

static void logistic_q3(void) {
  const size_t n = some(0, 300);
  const int16_t *x = array(n, 2);
  const bool in_place = chance(2);
  EACH_LEVEL(s) {
    int16_t *y = result(n, 2, x, n, EXACT);
    s->logistic_q3((int)n, in_place ? y : x, y);
  }
}

static void tanh_qm(void) {
  const size_t n = some(0, 300);
  const int m = between(0, 6);
  const int16_t *x = array(n, 2);
  const bool in_place = chance(2);
  EACH_LEVEL(s) {
    int16_t *y = result(n, 2, x, n, EXACT);
    s->tanh_qm((int)n, m, in_place ? y : x, y);
  }
}

static void cell_s16(void) {
  const size_t n = some(0, 200);
  const int16_t *i = array(n, 2), *f = array(n, 2), *g = array(n, 2), *c = array(n, 2);
  const int shift = between(0, 30);
  const bool coupled = chance(3);
  EACH_LEVEL(s) s->cell_s16((int)n, coupled ? NULL : i, f, g, shift, result(n, 2, c, n, EXACT));
}

static void hidden_s8(void) {
  const size_t n = some(0, 200);
  const int16_t *o = array(n, 2), *t = array(n, 2);
  const int32_t m = multiplier(), zero = between(-128, 127);
  const int e = between(-31, -8);
  EACH_LEVEL(s) s->hidden_s8((int)n, o, t, m, e, zero, results(n, 1, EXACT));
}

static void filter_s16(void) {
  const size_t n = some(1, 40), steps = some(1, 20);
  const int16_t *x = array(n, 2), *time = array(n * steps, 2), *memory = array(n * steps, 2);
  EACH_LEVEL(s)
    s->filter_s16((int)n, (int)steps, x, time, result(n * steps, 2, memory, n * steps, EXACT), results(n, 4, EXACT));
}

#define X(name) {#name, name}
const check recurring_checks[] = {X(gate_s16), X(peephole_s16), X(norm_s16),   X(logistic_q3), X(tanh_qm),
                                  X(cell_s16), X(hidden_s8),    X(filter_s16), {NULL, NULL}};
