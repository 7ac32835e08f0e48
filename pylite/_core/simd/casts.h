/* For each type: a function that loads elements as int64 or double, and one that stores them from either
 * (docs/numerics.md, section 9).  Included by wide.c alone. */
#include "functions.h"
#include <stddef.h>

enum { PL_CAST_BLOCK = 256 }; /* elements of a call */

typedef void (*pl_load_fn)(size_t n, const void *x, void *wide);
typedef void (*pl_store_fn)(size_t n, const void *wide, void *y);
typedef struct {
  const char *name;
  int size, is_float;            /* is_float: loads give double, else int64 */
  pl_load_fn load;
  pl_store_fn from_int, from_float;
} pl_cast_type;

/* A real number within the limits; NaN becomes the largest value.  The conversion then truncates. */
#define SATURATE(v, LOW, HIGH) ((v) >= (HIGH) || (v) != (v) ? (HIGH) : (v) <= (LOW) ? (LOW) : (v))

#define LOAD(name, TYPE, WIDE, expression) \
  static void load_##name(size_t n, const void *vx, void *vy) { \
    const TYPE *x = vx; \
    WIDE *y = vy; \
    for (size_t i = 0; i < n; i++) y[i] = (WIDE)(expression); \
  }
#define STORE(name, kind, WIDE, TYPE, expression) \
  static void kind##_##name(size_t n, const void *vx, void *vy) { \
    const WIDE *x = vx; \
    TYPE *y = vy; \
    for (size_t i = 0; i < n; i++) y[i] = (TYPE)(expression); \
  }
#define INTEGER(name, TYPE, LOW, HIGH) \
  LOAD(name, TYPE, int64_t, x[i]) \
  STORE(name, from_int, int64_t, TYPE, x[i]) \
  STORE(name, from_float, double, TYPE, SATURATE(x[i], (double)(LOW), (double)(HIGH)))
#define FLOAT(name, TYPE, load_expression, store_expression) \
  LOAD(name, TYPE, double, load_expression) \
  STORE(name, from_int, int64_t, TYPE, store_expression) \
  STORE(name, from_float, double, TYPE, store_expression)

INTEGER(int8, int8_t, INT8_MIN, INT8_MAX)
INTEGER(uint8, uint8_t, 0, UINT8_MAX)
INTEGER(int16, int16_t, INT16_MIN, INT16_MAX)
INTEGER(uint16, uint16_t, 0, UINT16_MAX)
INTEGER(int32, int32_t, INT32_MIN, INT32_MAX)
INTEGER(uint32, uint32_t, 0, UINT32_MAX)
INTEGER(int4, int8_t, -8, 7) /* int4, uint4, int2: one element in each byte */
INTEGER(uint4, uint8_t, 0, 15)
INTEGER(int2, int8_t, -2, 1)
LOAD(uint64, uint64_t, int64_t, x[i]) /* as the int64 of its bits */
STORE(uint64, from_int, int64_t, uint64_t, x[i])
/* not by SATURATE: 2^63 and 2^64 are no integers of these types */
STORE(uint64, from_float, double, uint64_t,
      x[i] >= 0x1p64 || x[i] != x[i] ? UINT64_MAX : x[i] <= 0 ? 0 : (uint64_t)x[i])
LOAD(int64, int64_t, int64_t, x[i])
STORE(int64, from_int, int64_t, int64_t, x[i])
STORE(int64, from_float, double, int64_t,
      x[i] >= 0x1p63 || x[i] != x[i] ? INT64_MAX : x[i] < -0x1p63 ? INT64_MIN : (int64_t)x[i])
LOAD(bool, uint8_t, int64_t, x[i] != 0)
STORE(bool, from_int, int64_t, uint8_t, x[i] != 0)
STORE(bool, from_float, double, uint8_t, x[i] != 0)

static uint16_t to_bfloat(float f) {
  uint32_t bits = pl_bits_of(f);
  return f != f ? 0x7FC0 : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
FLOAT(float64, double, x[i], x[i])
FLOAT(float32, float, x[i], x[i])
FLOAT(float16, uint16_t, pl_from_half(x[i]), pl_to_half((float)x[i]))
FLOAT(bfloat16, uint16_t, pl_float_of((uint32_t)x[i] << 16), to_bfloat((float)x[i]))

/* The imaginary part of other types is 0, and is dropped on the way back. */
typedef struct { float re, im; } complex64;
LOAD(complex64, complex64, double, x[i].re)
static void from_int_complex64(size_t n, const void *vx, void *vy) {
  const int64_t *x = vx;
  complex64 *y = vy;
  for (size_t i = 0; i < n; i++) y[i] = (complex64){(float)x[i], 0};
}
static void from_float_complex64(size_t n, const void *vx, void *vy) {
  const double *x = vx;
  complex64 *y = vy;
  for (size_t i = 0; i < n; i++) y[i] = (complex64){(float)x[i], 0};
}

/* X(name, bytes of an element, whether it is loaded as double) */
#define PL_CAST_TYPES(X) \
  X(int8, 1, 0) X(uint8, 1, 0) X(int16, 2, 0) X(uint16, 2, 0) X(int32, 4, 0) X(uint32, 4, 0) X(int64, 8, 0) \
  X(uint64, 8, 0) X(int4, 1, 0) X(uint4, 1, 0) X(int2, 1, 0) X(bool, 1, 0) X(float16, 2, 1) X(bfloat16, 2, 1) \
  X(float32, 4, 1) X(float64, 8, 1) X(complex64, 8, 1)

#define X(name, size, is_float) PL_CAST_##name,
enum { PL_CAST_TYPES(X) PL_CAST_TYPES_COUNT };
#undef X
#define X(name, size, is_float) {#name, size, is_float, load_##name, from_int_##name, from_float_##name},
static const pl_cast_type pl_cast_types[] = {PL_CAST_TYPES(X)};
#undef X
