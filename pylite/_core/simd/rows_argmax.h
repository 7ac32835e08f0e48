/* The micro-kernels that find the largest element, in plain C; included by rows.c alone. */
#include <string.h>

/* at[j] = the first of n rows in which column j (of cols <= 16) of x is largest; rows lie `stride` elements apart.
 * The XOR of every element with `flip` turns the order round or shifts unsigned to signed.  A float NaN is less than
 * anything.  One column of consecutive elements is taken as 16 interleaved ones that are compared at the end. */
#define PL_LOAD_INT(T, p) (T)(*(p) ^ flip)
#define PL_BETTER_INT(v, best) (v > best)
#define PL_BETTER_FLOAT(v, best) ((v > best) | ((best != best) & (v == v)))
static inline float pl_flipped(const float *p, uint32_t flip) {
  uint32_t bits;
  float value;
  memcpy(&bits, p, 4);
  bits ^= flip;
  memcpy(&value, &bits, 4);
  return value;
}
#define PL_LOAD_FLOAT(T, p) pl_flipped(p, flip)
#define PL_ARG_MAX(name, T, F, LOAD, BETTER)                                                                   \
  static void name(size_t n, size_t cols, ptrdiff_t stride, const T *x, F flip, int32_t *at) {                 \
    T best[16];                                                                                                \
    int32_t row[16];                                                                                           \
    size_t lanes = cols == 1 && stride == 1 && n >= 16 ? 16 : cols, steps = cols == lanes ? n : n / 16;        \
    ptrdiff_t step = cols == lanes ? stride : 16;                                                              \
    for (size_t j = 0; j < lanes; j++) {                                                                       \
      best[j] = LOAD(T, x + j);                                                                                \
      row[j] = 0;                                                                                              \
    }                                                                                                          \
    if (lanes == 16)                                                                                           \
      for (size_t i = 1; i < steps; i++) {                                                                     \
        const T *p = x + (ptrdiff_t)i * step;                                                                  \
        for (size_t j = 0; j < 16; j++) {                                                                      \
          T v = LOAD(T, p + j);                                                                                \
          int better = BETTER(v, best[j]);                                                                     \
          best[j] = better ? v : best[j];                                                                      \
          row[j] = better ? (int32_t)i : row[j];                                                               \
        }                                                                                                      \
      }                                                                                                        \
    else                                                                                                       \
      for (size_t i = 1; i < steps; i++) {                                                                     \
        const T *p = x + (ptrdiff_t)i * step;                                                                  \
        for (size_t j = 0; j < lanes; j++) {                                                                   \
          T v = LOAD(T, p + j);                                                                                \
          if (BETTER(v, best[j])) best[j] = v, row[j] = (int32_t)i;                                            \
        }                                                                                                      \
      }                                                                                                        \
    if (lanes == cols) {                                                                                       \
      memcpy(at, row, cols * sizeof *at);                                                                      \
      return;                                                                                                  \
    }                                                                                                          \
    T top = best[0];                                                                                           \
    int32_t first = row[0] * 16;                                                                               \
    for (int j = 1; j < 16; j++) {                                                                             \
      int32_t i = row[j] * 16 + j;                                                                             \
      if (BETTER(best[j], top) || (i < first && !BETTER(top, best[j]))) top = best[j], first = i;              \
    }                                                                                                          \
    for (size_t i = steps * 16; i < n; i++) {                                                                  \
      T v = LOAD(T, x + i);                                                                                    \
      if (BETTER(v, top)) top = v, first = (int32_t)i;                                                         \
    }                                                                                                          \
    *at = first;                                                                                               \
  }
PL_ARG_MAX(arg_max_f32, float, uint32_t, PL_LOAD_FLOAT, PL_BETTER_FLOAT)
PL_ARG_MAX(arg_max_s32, int32_t, int32_t, PL_LOAD_INT, PL_BETTER_INT)
PL_ARG_MAX(arg_max_s8, int8_t, uint8_t, PL_LOAD_INT, PL_BETTER_INT)
