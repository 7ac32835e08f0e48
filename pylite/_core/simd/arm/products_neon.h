/* 8-bit products of four rows by four columns for 64-bit NEON, without dotprod; included by gemm_neon.c alone.
 *
 * If no weight is -128, two products are added up in 16 bits, then pairwise to the four lanes of their sum; otherwise
 * each product separately.  This is assembly for cores without renaming (Cortex-A53), on which gcc's order takes half
 * as long again: an instruction comes eight after the one whose result it needs, and loads stand together.  A row is
 * loaded sixteen deep: smull multiplies the lower half of its vector, smlal2 the upper half.  Weights eight deeper are
 * loaded from an address 8 bytes lower, which puts them in the upper half as well.
 *
 * v0-v3: the rows; v4, v6: weights of a column; v5, v7: those eight deeper, in the upper half; v8-v15: products;
 * v16 + 4 r + c: sums of row r and column c. */
#define MULTIPLY(p0, p1, p2, p3, w) \
  "smull v" #p0 ".8h, v0.8b, v" #w ".8b\n smull v" #p1 ".8h, v1.8b, v" #w ".8b\n" \
  "smull v" #p2 ".8h, v2.8b, v" #w ".8b\n smull v" #p3 ".8h, v3.8b, v" #w ".8b\n"
#define MULTIPLY_MORE(p0, p1, p2, p3, w) \
  "smlal2 v" #p0 ".8h, v0.16b, v" #w ".16b\n smlal2 v" #p1 ".8h, v1.16b, v" #w ".16b\n" \
  "smlal2 v" #p2 ".8h, v2.16b, v" #w ".16b\n smlal2 v" #p3 ".8h, v3.16b, v" #w ".16b\n"
#define ADD_PAIRS(add, s0, s1, s2, s3, p0, p1, p2, p3) \
  add " v" #s0 ".4s, v" #p0 ".8h\n" add " v" #s1 ".4s, v" #p1 ".8h\n" \
  add " v" #s2 ".4s, v" #p2 ".8h\n" add " v" #s3 ".4s, v" #p3 ".8h\n"
#define LOAD_ROWS(v) \
  "ldr " #v "0, [%[x0], %[k]]\n ldr " #v "1, [%[x1], %[k]]\n ldr " #v "2, [%[x2], %[k]]\n ldr " #v "3, [%[x3], %[k]]\n"
/* A step: sixteen or eight deep.  The products of its last column are added in the next step, by `last` = LAST, which
 * is NO_LAST in the first step.  add: sadalp, or saddlp in the first step, where sums begin. */
#define STEP_16(last, add) \
  LOAD_ROWS(q) "ldr d4, [%[w]]\n ldr q5, [%[w], #56]\n ldr d6, [%[w], #8]\n ldr q7, [%[w], #64]\n" \
  "add %[k], %[k], #16\n subs %[left], %[left], #16\n" \
  MULTIPLY(8, 9, 10, 11, 4) last MULTIPLY_MORE(8, 9, 10, 11, 5) \
  "ldr d4, [%[w], #16]\n ldr q5, [%[w], #72]\n" \
  MULTIPLY(12, 13, 14, 15, 6) ADD_PAIRS(add, 16, 20, 24, 28, 8, 9, 10, 11) MULTIPLY_MORE(12, 13, 14, 15, 7) \
  "ldr d6, [%[w], #24]\n ldr q7, [%[w], #80]\n add %[w], %[w], #128\n" \
  MULTIPLY(8, 9, 10, 11, 4) ADD_PAIRS(add, 17, 21, 25, 29, 12, 13, 14, 15) MULTIPLY_MORE(8, 9, 10, 11, 5) \
  MULTIPLY(12, 13, 14, 15, 6) ADD_PAIRS(add, 18, 22, 26, 30, 8, 9, 10, 11) MULTIPLY_MORE(12, 13, 14, 15, 7)
#define STEP_8(last, add) \
  LOAD_ROWS(d) "ldp d4, d5, [%[w]]\n ldp d6, d7, [%[w], #16]\n add %[w], %[w], #64\n" \
  MULTIPLY(8, 9, 10, 11, 4) last \
  MULTIPLY(12, 13, 14, 15, 5) ADD_PAIRS(add, 16, 20, 24, 28, 8, 9, 10, 11) \
  MULTIPLY(8, 9, 10, 11, 6) ADD_PAIRS(add, 17, 21, 25, 29, 12, 13, 14, 15) \
  MULTIPLY(12, 13, 14, 15, 7) ADD_PAIRS(add, 18, 22, 26, 30, 8, 9, 10, 11)
#define LAST ADD_PAIRS("sadalp", 19, 23, 27, 31, 12, 13, 14, 15)
#define NO_LAST "movi v19.4s, #0\n movi v23.4s, #0\n movi v27.4s, #0\n movi v31.4s, #0\n"
#define ADD_LANES(to, a, b) "addp v" #to ".4s, v" #a ".4s, v" #b ".4s\n"

#define SUMS_OF_LANES \
  ADD_LANES(16, 16, 17) ADD_LANES(20, 20, 21) ADD_LANES(24, 24, 25) ADD_LANES(28, 28, 29) LAST \
  ADD_LANES(18, 18, 19) ADD_LANES(22, 22, 23) ADD_LANES(26, 26, 27) ADD_LANES(30, 30, 31) \
  ADD_LANES(16, 16, 18) ADD_LANES(20, 20, 22) ADD_LANES(24, 24, 26) ADD_LANES(28, 28, 30)
#define NEXT_LINE \
  "add %[x0], %[x0], %[pitch]\n add %[x1], %[x1], %[pitch]\n" \
  "add %[x2], %[x2], %[pitch]\n add %[x3], %[x3], %[pitch]\n mov %[k], #0\n"
#define OPERANDS \
  : "=w"(sum0), "=w"(sum1), "=w"(sum2), "=w"(sum3), [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2), \
    [x3] "+&r"(x3), [w] "+&r"(w), [left] "+&r"(left), [lines] "+&r"(lines), [k] "+&r"(k) \
  : [depth] "r"(layout->depth), [pitch] "r"(layout->pitch) \
  : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
    "v15", "v17", "v18", "v19", "v21", "v22", "v23", "v25", "v26", "v27", "v29", "v30", "v31"

/* Sets acc[r][v], of vector v of the columns, to the products of four rows x[r] and the columns at w, of a panel of
 * eight.  The depth is not 0.  small: no weight is -128. */
PL_INLINE void four_by_four(int small, const pl_a_layout *layout, const int8_t *const *x, const int8_t *w, int v,
                            int32x4_t acc[][4]) {
  register int32x4_t sum0 __asm__("v16"), sum1 __asm__("v20"), sum2 __asm__("v24"), sum3 __asm__("v28");
  const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  ptrdiff_t left = layout->depth - 16, lines = layout->lines, k = 0;
  if (small)
    __asm__("tbnz %[left], #63, 1f\n" STEP_16(NO_LAST, "saddlp")
            "b.lt 3f\n"
            "2:\n" STEP_16(LAST, "sadalp")
            "b.ge 2b\n"
            "3: tbz %[left], #3, 4f\n" STEP_8(LAST, "sadalp")
            "b 4f\n"
            "1:\n" STEP_8(NO_LAST, "saddlp")
            "4: subs %[lines], %[lines], #1\n b.eq 5f\n" NEXT_LINE
            "subs %[left], %[depth], #16\n b.ge 2b\n b 3b\n"
            "5:\n" SUMS_OF_LANES OPERANDS);
  else
    __asm__("add %[left], %[left], #16\n" STEP_8(NO_LAST, "saddlp")
            "b 3f\n"
            "2:\n" STEP_8(LAST, "sadalp")
            "3: add %[k], %[k], #8\n subs %[left], %[left], #8\n b.gt 2b\n"
            "subs %[lines], %[lines], #1\n b.eq 5f\n" NEXT_LINE "mov %[left], %[depth]\n b 2b\n"
            "5:\n" SUMS_OF_LANES OPERANDS);
  acc[0][v] = sum0, acc[1][v] = sum1, acc[2][v] = sum2, acc[3][v] = sum3;
}
#undef MULTIPLY
#undef MULTIPLY_MORE
#undef ADD_PAIRS
#undef LOAD_ROWS
#undef STEP_16
#undef STEP_8
#undef LAST
#undef NO_LAST
#undef ADD_LANES
#undef SUMS_OF_LANES
#undef NEXT_LINE
#undef OPERANDS

/* The terms of four rows; lanes from `rows` on are not used. */
PL_INLINE int32x4_t four_terms(const int32_t *terms, int rows) {
  int32_t some[4];
  if (__builtin_expect(rows >= 4, 1)) return vld1q_s32(terms);
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) some[r] = terms[r < rows ? r : 0];
  return vld1q_s32(some);
}
/* products() of gemm_neon.h for four rows of a panel. */
PL_INLINE void four_rows(int small, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                         const int32_t *bias, const int32_t *terms, int32x4_t acc[][4]) {
  const int8_t *x[4];
#define EACH _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) x[r] = a + (r < rows ? r : rows - 1) * layout->step;
  if (small || layout->depth) {
    four_by_four(small, layout, x, w, 0, acc);
    four_by_four(small, layout, x, w + 4 * 8, 1, acc);
  } else {
    EACH acc[r][v] = vdupq_n_s32(0);
  }
  EACH __asm__("" : "+w"(acc[r][v])); /* gcc would add to sums of the first half where they lie, on the stack */
  if (bias) EACH acc[r][v] = vaddq_s32(acc[r][v], vld1q_s32(bias + 4 * v));
  if (terms) {
    const int32x4_t four = four_terms(terms, rows);
    EACH acc[r][v] = vaddq_s32(acc[r][v], vdupq_n_s32(four[r]));
  }
#undef EACH
}
