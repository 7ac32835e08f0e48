/* The inner loop of SELECT in indexing.pyx, for elements of any size. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint64_t half[2]; } pl_wide;
#define PL_CHOOSE(T) \
  for (size_t i = 0; i < n; i++) memcpy(out + i * sizeof(T), c[i * cs] ? x + i * xs : y + i * ys, sizeof(T)); \
  break
#define PL_CHOOSE_ROWS(T) \
  if (cs == 1 && xs == sizeof(T) && ys == sizeof(T)) { \
    const T *restrict px = (const T *)x, *restrict py = (const T *)y; \
    T *restrict to = (T *)out; \
    for (size_t i = 0; i < n; i++) to[i] = (T)(py[i] ^ ((px[i] ^ py[i]) & (T)-(T)(c[i] != 0))); \
    break; \
  } \
  PL_CHOOSE(T)
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O2", "tree-vectorize"))) /* the rest of the module is compiled for size */
#endif
/* out[i] = c[i] ? x[i] : y[i].  cs, xs, ys: steps in bytes, 0 where the operand repeats */
static void pl_choose(size_t item, size_t n, const uint8_t *restrict c, size_t cs, const uint8_t *x, size_t xs,
                      const uint8_t *y, size_t ys, uint8_t *out) {
  switch (item) {
    case 1: PL_CHOOSE_ROWS(uint8_t);
    case 2: PL_CHOOSE_ROWS(uint16_t);
    case 4: PL_CHOOSE_ROWS(uint32_t);
    case 8: PL_CHOOSE_ROWS(uint64_t);
    default: PL_CHOOSE(pl_wide);
  }
}
