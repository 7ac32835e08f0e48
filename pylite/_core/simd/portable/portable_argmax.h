/* ARG_MAX and ARG_MIN; included by portable.c alone, after portable_movement.h and portable_reduction.h.
 *
 * argmax[j] = the first of n rows in which column j of x is largest.  Rows are `stride` elements apart, columns `next`;
 * one of the two is 1, and there are at most 16 columns.  Elements are compared after ^ flip, which reverses the order,
 * or makes bytes signed.  NaN is less than any other float. */
#include "reducing.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static inline float pl_load_f32(const float *p, uint32_t flip) {
  uint32_t bits;
  float value;
  memcpy(&bits, p, 4);
  bits ^= flip;
  memcpy(&value, &bits, 4);
  return value;
}
static inline int32_t pl_load_s32(const int32_t *p, uint32_t flip) { return *p ^ (int32_t)flip; }
static inline int8_t pl_load_s8(const int8_t *p, uint32_t flip) { return (int8_t)(*p ^ (int8_t)flip); }

#ifdef __AVX2__
#define PL_VECTOR 32
#else
#define PL_VECTOR 16
#endif

/* T: type of elements; R: an integer of the same size, which counts up to MAX_ROWS rows; BYTES: of a vector of either.
 * name_16 takes 16 neighbouring columns at once, and gives -1 for a column without an element above LEAST; name_one
 * then takes this column element by element. */
#define PL_ARG_MAX_COLUMNS(name, T, R, BYTES, MAX_ROWS, LOAD, LEAST) \
  static int32_t name##_one(size_t n, ptrdiff_t stride, const T *x, uint32_t flip) { \
    T best = LOAD(x, flip); \
    int32_t argmax = 0; \
    for (size_t i = 1; i < n; i++) { \
      T v = LOAD(x + (ptrdiff_t)i * stride, flip); \
      const int better = (v > best) | ((best != best) & (v == v)); \
      best = better ? v : best; \
      argmax = better ? (int32_t)i : argmax; \
    } \
    return argmax; \
  } \
  typedef T name##_t __attribute__((vector_size(BYTES))); \
  typedef R name##_r __attribute__((vector_size(BYTES))); \
  static void name##_16(size_t n, ptrdiff_t stride, const T *x, uint32_t flip, T *best, int32_t *argmax) { \
    enum { LANES = BYTES / sizeof(T), PARTS = 16 / LANES }; \
    name##_t kept[PARTS]; \
    name##_r row[PARTS], i; \
    for (int j = 0; j < 16; j++) best[j] = LEAST, argmax[j] = -1; \
    memcpy(kept, best, sizeof kept); \
    for (size_t top = 0; top < n; top += MAX_ROWS) { \
      size_t end = n - top < MAX_ROWS ? n : top + MAX_ROWS; \
      name##_t b[PARTS]; /* b and at are never indexed by a variable, so they are registers in the loop */ \
      name##_r at[PARTS]; \
      i = (name##_r){0}; \
      PL_UNROLL for (int p = 0; p < PARTS; p++) b[p] = kept[p], at[p] = i - 1; \
      for (size_t r = top; r < end; r++, x += stride, i += 1) \
        PL_UNROLL for (int p = 0; p < PARTS; p++) { \
          name##_r bits, better; \
          memcpy(&bits, x + p * LANES, BYTES); \
          bits ^= (R)flip; \
          better = (name##_t)bits > b[p]; \
          at[p] = (better & i) | (~better & at[p]); \
          b[p] = (name##_t)((better & bits) | (~better & (name##_r)b[p])); \
        } \
      PL_UNROLL for (int p = 0; p < PARTS; p++) kept[p] = b[p], row[p] = at[p]; \
      for (int j = 0; j < 16; j++) \
        if (row[j / LANES][j % LANES] >= 0) argmax[j] = (int32_t)top + row[j / LANES][j % LANES]; \
    } \
    memcpy(best, kept, sizeof kept); \
  }
/* name_long takes a long row as 16 columns, and the elements that are left. */
#define PL_ARG_MAX_LONG(name, T, LOAD, LEAST) \
  static int32_t name##_long(size_t n, const T *x, uint32_t flip) { \
    T best[16]; \
    int32_t argmax[16], first = -1; \
    T top = LEAST; \
    name##_16(n / 16, 16, x, flip, best, argmax); \
    for (int j = 0; j < 16; j++) { \
      int32_t i = argmax[j] * 16 + j; \
      if (argmax[j] >= 0 && (best[j] > top || (best[j] == top && i < first))) top = best[j], first = i; \
    } \
    for (size_t i = n - n % 16; i < n; i++) { \
      T v = LOAD(x + i, flip); \
      if (v > top) top = v, first = (int32_t)i; \
    } \
    return first < 0 ? name##_one(n, 1, x, flip) : first; \
  }
/* Bytes: finds the maximum; then the C library searches for it. */
static int32_t arg_max_s8_long(size_t n, const int8_t *x, uint32_t flip) {
  const pl_reduction g = {.flip = (uint8_t)(flip ^ 0x80)};
  uint8_t top = 0;
  max_8_run(&g, 1, 0, (ptrdiff_t)n, x, &top);
  return (int32_t)((const int8_t *)memchr(x, top ^ g.flip, n) - x);
}
/* IS_LONG: does name_long search each of `cols` columns, which are contiguous runs of n elements?  Runs of up to TINY
 * elements take less time one by one than transposed. */
#define PL_ARG_MAX(name, T, IS_LONG, TINY) \
  static void name(size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *data, uint32_t flip, \
                   int32_t *argmax) { \
    const T *x = data; \
    T best[16], block[128 * 16]; \
    int32_t block_argmax[16]; \
    if (stride == 1 && (IS_LONG)) { \
      for (size_t j = 0; j < cols; j++) argmax[j] = name##_long(n, x + (ptrdiff_t)j * next, flip); \
      return; \
    } \
    if (next == 1 && cols == 16) { \
      name##_16(n, stride, x, flip, best, block_argmax); \
    } else if (stride == 1 && cols > 1 && n <= 128 && n > TINY) { \
      if (cols < 16) memset(block, 0, n * 16 * sizeof(T)); \
      copy_transposed(sizeof(T), n, cols, data, next * (ptrdiff_t)sizeof(T), (uint8_t *)block, 16 * sizeof(T)); \
      name##_16(n, 16, block, flip, best, block_argmax); \
    } else { \
      for (size_t j = 0; j < cols; j++) argmax[j] = name##_one(n, stride, x + (ptrdiff_t)j * next, flip); \
      return; \
    } \
    for (size_t j = 0; j < cols; j++) \
      argmax[j] = block_argmax[j] < 0 ? name##_one(n, stride, x + (ptrdiff_t)j * next, flip) : block_argmax[j]; \
  }
PL_ARG_MAX_COLUMNS(arg_max_f32, float, int32_t, PL_VECTOR, INT_MAX, pl_load_f32, -INFINITY)
PL_ARG_MAX_COLUMNS(arg_max_s32, int32_t, int32_t, PL_VECTOR, INT_MAX, pl_load_s32, INT32_MIN)
PL_ARG_MAX_COLUMNS(arg_max_s8, int8_t, int8_t, 16, 127, pl_load_s8, INT8_MIN)
PL_ARG_MAX_LONG(arg_max_f32, float, pl_load_f32, -INFINITY)
PL_ARG_MAX_LONG(arg_max_s32, int32_t, pl_load_s32, INT32_MIN)
PL_ARG_MAX(arg_max_f32, float, n > 128 || (cols == 1 && n >= 64), 3)
PL_ARG_MAX(arg_max_s32, int32_t, n > 128 || (cols == 1 && n >= 64), 4)
PL_ARG_MAX(arg_max_s8, int8_t, n > 80 || (cols == 1 && n >= 32), 7)
