/* The slots of recurrent layers of integers.  docs/numerics.md section 10 has the formulas; rounding.h has the rules
 * that are named here.  n: cells; acc: the sums of a product; m, e: a quantized multiplier; i, f, o: the input, forget
 * and output gates of an LSTM; g: its cell gate, or any gate; c: its cells; t: tanh of the cells. */
#ifndef PYLITE_RECURRING_H
#define PYLITE_RECURRING_H

enum { PL_PEEPHOLE = 16 }; /* in blocks of this many cells the reference rounds halves differently */

#define PL_SLOTS_RECURRING(X) \
  /* g = sat16(MBQM32(acc + bias) + g) */ \
  X(gate_s16, (int n, const int32_t *acc, const int32_t *bias, int32_t m, int e, int16_t *g)) \
  /* g = sat16(RUY(a b) + g) in blocks of PL_PEEPHOLE, and sat16(MBQM32(a b) + g) in the remainder */ \
  X(peephole_s16, (int n, const int16_t *a, const int16_t *b, int32_t m, int e, int16_t *g)) \
  /* layer normalization of a row, in place; guard: replaces a variance below 1 */ \
  X(norm_s16, (int n, const int16_t *scale, const int32_t *bias, int32_t m, int e, int32_t guard, int16_t *g)) \
  /* the fixed-point functions, of Q3 and of Qm with m <= 6, to Q0; y may be x */ \
  X(logistic_q3, (int n, const int16_t *x, int16_t *y)) \
  X(tanh_qm, (int n, int m, const int16_t *x, int16_t *y)) \
  /* c = sat16(RDBPOT(f c, 15) + int16(RDBPOT(i g, shift))); i NULL: 32767 - f */ \
  X(cell_s16, (int n, const int16_t *i, const int16_t *f, const int16_t *g, int shift, int16_t *c)) \
  /* y = clamp(MBQM32(o t) + zero) */ \
  X(hidden_s8, (int n, const int16_t *o, const int16_t *t, int32_t m, int e, int32_t zero, int8_t *y)) \
  /* the filters of SVDF: each one's memory is shifted by one, x becomes its newest element; sum = memory . time */ \
  X(filter_s16, (int n, int steps, const int16_t *x, const int16_t *time, int16_t *memory, int32_t *sum))
#endif
