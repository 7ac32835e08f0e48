/* 8-bit matrix products for dotprod: an instruction adds the products of four bytes to each of four lanes.
 *
 * A panels are int8, row after row; panels are packed[k / 4][column][k % 4], so that a vector has four columns.  All of
 * them are multiplied by the same four bytes of a row: a lane of that row's vector. */
#define NR 16
#define KR 4
enum { WIDE = 4, NARROW = 8, ROWS = NARROW };
#include "neon.h"

/* Four rows by sixteen columns, in assembly, because gcc moves the sums to other registers around the loop.
 * v0-v3: the rows; v4-v7: weights of four columns each; v16 + 4 r + v: sums of row r and vector v of columns. */
#define ROW(s0, s1, s2, s3, x, i) \
  "sdot v" #s0 ".4s, v4.16b, v" #x ".4b[" #i "]\n sdot v" #s1 ".4s, v5.16b, v" #x ".4b[" #i "]\n" \
  "sdot v" #s2 ".4s, v6.16b, v" #x ".4b[" #i "]\n sdot v" #s3 ".4s, v7.16b, v" #x ".4b[" #i "]\n"
#define FOUR_DEEP(offset, i) \
  "ldp q4, q5, [%[w], #" #offset "]\n ldp q6, q7, [%[w], #" #offset " + 32]\n" \
  ROW(16, 17, 18, 19, 0, i) ROW(20, 21, 22, 23, 1, i) ROW(24, 25, 26, 27, 2, i) ROW(28, 29, 30, 31, 3, i)
#define LOAD_ROWS(v) \
  "ldr " #v "0, [x9, x13]\n ldr " #v "1, [x10, x13]\n ldr " #v "2, [x11, x13]\n ldr " #v "3, [x12, x13]\n"
#define BIAS(s, from) "mov v" #s ".16b, v" #from ".16b\n"
#define BIASES(s0, s1, s2, s3) BIAS(s0, 16) BIAS(s1, 17) BIAS(s2, 18) BIAS(s3, 19)
/* The first value of a sum is the bias of its column (START_BIAS), or that number times the factor of its row
 * (START_FACTORS). */
#define START_BIAS \
  "ldp q16, q17, [%[bias]]\n ldp q18, q19, [%[bias], #32]\n" \
  BIASES(20, 21, 22, 23) BIASES(24, 25, 26, 27) BIASES(28, 29, 30, 31)
#define TERM(s, v, r) "mul v" #s ".4s, v" #v ".4s, v4.s[" #r "]\n"
#define TERMS(s0, s1, s2, s3, r) TERM(s0, 0, r) TERM(s1, 1, r) TERM(s2, 2, r) TERM(s3, 3, r)
#define START_FACTORS \
  "ldr q4, [%[factors]]\n ldp q0, q1, [%[bias]]\n ldp q2, q3, [%[bias], #32]\n" \
  TERMS(16, 17, 18, 19, 0) TERMS(20, 21, 22, 23, 1) TERMS(24, 25, 26, 27, 2) TERMS(28, 29, 30, 31, 3)
#define SUM(i, r, v) register int32x4_t s##i __asm__("v" #i);
#define EACH_SUM(X) \
  X(16, 0, 0) X(17, 0, 1) X(18, 0, 2) X(19, 0, 3) X(20, 1, 0) X(21, 1, 1) X(22, 1, 2) X(23, 1, 3) \
  X(24, 2, 0) X(25, 2, 1) X(26, 2, 2) X(27, 2, 3) X(28, 3, 0) X(29, 3, 1) X(30, 3, 2) X(31, 3, 3)
#define TAKE(i, r, v) acc[r][v] = s##i;
#define FOUR_BY_SIXTEEN(name, START) \
  PL_INLINE void name(const pl_a_layout *layout, const int8_t *const *x, const int8_t *w, const int32_t *bias, \
                      const int32_t *factors, int32x4_t acc[][4]) { \
    EACH_SUM(SUM) \
    ptrdiff_t left, lines = layout->lines; \
    __asm__(START "ldp x9, x10, [%[x]]\n ldp x11, x12, [%[x], #16]\n" \
            "1: mov x13, #0\n subs %[left], %[depth], #16\n b.lt 3f\n" \
            "2:\n" LOAD_ROWS(q) FOUR_DEEP(0, 0) FOUR_DEEP(64, 1) FOUR_DEEP(128, 2) FOUR_DEEP(192, 3) \
            "add %[w], %[w], #256\n add x13, x13, #16\n subs %[left], %[left], #16\n b.ge 2b\n" \
            "3: adds %[left], %[left], #16\n b.eq 5f\n" \
            "4:\n" LOAD_ROWS(s) FOUR_DEEP(0, 0) \
            "add %[w], %[w], #64\n add x13, x13, #4\n subs %[left], %[left], #4\n b.gt 4b\n" \
            "5: add x9, x9, %[pitch]\n add x10, x10, %[pitch]\n add x11, x11, %[pitch]\n add x12, x12, %[pitch]\n" \
            "subs %[lines], %[lines], #1\n b.gt 1b\n" \
            : "=w"(s16), "=w"(s17), "=w"(s18), "=w"(s19), "=w"(s20), "=w"(s21), "=w"(s22), "=w"(s23), "=w"(s24), \
              "=w"(s25), "=w"(s26), "=w"(s27), "=w"(s28), "=w"(s29), "=w"(s30), "=w"(s31), [w] "+&r"(w), \
              [left] "=&r"(left), [lines] "+&r"(lines) \
            : [x] "r"(x), [bias] "r"(bias), [factors] "r"(factors), [depth] "r"(layout->depth), \
              [pitch] "r"(layout->pitch) \
            : "memory", "cc", "x9", "x10", "x11", "x12", "x13", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"); \
    EACH_SUM(TAKE) \
  }
FOUR_BY_SIXTEEN(four_by_sixteen, START_BIAS)
FOUR_BY_SIXTEEN(four_by_sixteen_terms, START_FACTORS)
#undef ROW
#undef FOUR_DEEP
#undef LOAD_ROWS
#undef BIAS
#undef BIASES
#undef START_BIAS
#undef TERM
#undef TERMS
#undef START_FACTORS
#undef FOUR_BY_SIXTEEN
#undef SUM
#undef EACH_SUM
#undef TAKE

PL_INLINE void products(int small, int R, int V, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        const int32_t *bias, const int32_t *terms, int32x4_t acc[ROWS][4]) {
  (void)small;
  const ptrdiff_t depth = layout->depth, pitch = layout->pitch;
  const int8_t *x[NARROW];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) x[r] = a + (r < rows ? r : rows - 1) * layout->step;
  if (R == 4 && V == 4 && bias) {
    four_by_sixteen(layout, x, w, bias, NULL, acc);
    if (terms)
#pragma GCC unroll 4
      for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) acc[r][v] = vaddq_s32(acc[r][v], vdupq_n_s32(terms[r < rows ? r : 0]));
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) acc[r][v] = bias ? vld1q_s32(bias + 4 * v) : vdupq_n_s32(0);
  }
  if (terms) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = vaddq_s32(acc[r][v], vdupq_n_s32(terms[r < rows ? r : 0]));
  }
  for (int line = layout->lines; line > 0; line--) {
    ptrdiff_t k = 0;
    for (; k + 16 <= depth; k += 16) {
      int8x16_t xv[NARROW];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) xv[r] = vld1q_s8(x[r] + k);
#define STEP(i) \
  _Pragma("GCC unroll 4") for (int v = 0; v < V; v++, w += 16) { \
    const int8x16_t wv = vld1q_s8(w); \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) acc[r][v] = vdotq_laneq_s32(acc[r][v], wv, xv[r], i); \
  }
      STEP(0) STEP(1) STEP(2) STEP(3)
#undef STEP
    }
    for (; k < depth; k += 4) {
      int8x16_t xv[NARROW];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) xv[r] = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(x[r] + k)));
#pragma GCC unroll 4
      for (int v = 0; v < V; v++, w += 16) {
        const int8x16_t wv = vld1q_s8(w);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) acc[r][v] = vdotq_s32(acc[r][v], wv, xv[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) x[r] += pitch;
  }
}

/* Four rows times sixteen columns; the sum of row r and column j begins with sums[j] factors[r]. */
PL_INLINE void products_of_terms(int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                                 const int32_t *sums, const int32_t *factors, int32x4_t acc[ROWS][4]) {
  const int8_t *x[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) x[r] = a + (r < rows ? r : rows - 1) * layout->step;
  four_by_sixteen_terms(layout, x, w, sums, factors, acc);
}
#define PRODUCTS_OF_TERMS(R, V) ((R) == 4 && (V) == 4)

/* One row times weights of 4 bits.  The low halves of 16 bytes are the weights of one step of four elements, the high
 * halves those of the next step.  Each weight is multiplied as 16 times its value, which keeps its sign; the sums are
 * divided by 16 at the end. */
PL_INLINE void row_of_nibbles(int V, ptrdiff_t size, const int8_t *a, const uint8_t *w, int32x4_t acc[4]) {
  const uint8x16_t upper = vdupq_n_u8(0xF0);
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = vdupq_n_s32(0);
#define STEPS(i) \
  _Pragma("GCC unroll 4") for (int v = 0; v < V; v++, w += 16) { \
    const uint8x16_t both = vld1q_u8(w); \
    acc[v] = vdotq_laneq_s32(acc[v], vreinterpretq_s8_u8(vshlq_n_u8(both, 4)), x, i); \
    acc[v] = vdotq_laneq_s32(acc[v], vreinterpretq_s8_u8(vandq_u8(both, upper)), x, i + 1); \
  }
  ptrdiff_t k = 0;
  for (; k + 16 <= size; k += 16) {
    const int8x16_t x = vld1q_s8(a + k);
    STEPS(0) STEPS(2)
  }
  if (k < size) {
    const int8x16_t x = vcombine_s8(vld1_s8(a + k), vdup_n_s8(0));
    STEPS(0)
  }
#undef STEPS
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = vshrq_n_s32(acc[v], 4);
}

#include "gemm_neon.h"

PL_FILL(gemm_dotprod, s) {
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
  s->q8 = (pl_tile){.mr = NARROW, .nr = NR, .nv = 8, .kr = KR, .ka = KR, .bytes = 1, .real = 1, .any_n = 1,
                    .rows = WIDE};
  fill_blocks(s);
}
