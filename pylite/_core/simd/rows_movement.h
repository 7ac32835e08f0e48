/* Micro-kernels that move elements, in plain C; included by rows.c alone.
 * All strides are in bytes; nothing is assumed of alignment, so every access is a memcpy of a fixed size. */
#include <string.h>

typedef struct { uint64_t half[2]; } pl_u128;

/* rows of `bytes` consecutive bytes.  Short rows are copied as two words that overlap. */
#define PL_COPY_SHORT(T)                                                                                       \
  for (size_t r = 0; r < rows; r++, x += xrow, y += yrow) {                                                    \
    T head, tail;                                                                                              \
    memcpy(&head, x, sizeof(T));                                                                               \
    memcpy(&tail, x + bytes - sizeof(T), sizeof(T));                                                           \
    memcpy(y, &head, sizeof(T));                                                                               \
    memcpy(y + bytes - sizeof(T), &tail, sizeof(T));                                                           \
  }
static void copy_runs(size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow, uint8_t *y, ptrdiff_t yrow) {
  if (bytes >= 2 && bytes <= 4) {
    PL_COPY_SHORT(uint16_t)
  } else if (bytes > 4 && bytes <= 8) {
    PL_COPY_SHORT(uint32_t)
  } else if (bytes > 8 && bytes <= 16) {
    PL_COPY_SHORT(uint64_t)
  } else if (bytes > 16 && bytes <= 32) {
    PL_COPY_SHORT(pl_u128)
  } else {
    for (size_t r = 0; r < rows; r++) memcpy(y + (ptrdiff_t)r * yrow, x + (ptrdiff_t)r * xrow, bytes);
  }
}

/* rows x cols elements of type T, any strides.  A column stride of 0 in x repeats one element. */
#define PL_COPY_STRIDED(T)                                                                                     \
  for (size_t r = 0; r < rows; r++, x += xrow, y += yrow) {                                                    \
    if (ycol == (ptrdiff_t)sizeof(T) && xcol == 0) {                                                           \
      T value;                                                                                                 \
      memcpy(&value, x, sizeof(T));                                                                            \
      for (size_t c = 0; c < cols; c++) memcpy(y + c * sizeof(T), &value, sizeof(T));                          \
    } else {                                                                                                   \
      const uint8_t *from = x;                                                                                 \
      uint8_t *to = y;                                                                                         \
      for (size_t c = 0; c < cols; c++, from += xcol, to += ycol) memcpy(to, from, sizeof(T));                 \
    }                                                                                                          \
  }
static void copy_strided(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xrow, ptrdiff_t xcol,
                         uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol) {
  switch (item) {
    case 1: PL_COPY_STRIDED(uint8_t) break;
    case 2: PL_COPY_STRIDED(uint16_t) break;
    case 4: PL_COPY_STRIDED(uint32_t) break;
    case 8: PL_COPY_STRIDED(uint64_t) break;
    default: PL_COPY_STRIDED(pl_u128)
  }
}

/* A square tile of 16-byte rows: log2(n) rounds of interleaving rows i and i + n/2 transpose it.
 * Only the first `cols` columns of x are read, and only the first `rows` rows of y written, each with all 16 bytes. */
typedef uint8_t pl_v8 __attribute__((vector_size(16)));
typedef uint16_t pl_v16 __attribute__((vector_size(16)));
typedef uint32_t pl_v32 __attribute__((vector_size(16)));
#ifdef __clang__
#define PL_SHUFFLE(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PL_SHUFFLE(V, a, b, ...) __builtin_shuffle(a, b, (V){__VA_ARGS__})
#endif
#define PL_ZIP8(a, b, k) PL_SHUFFLE(pl_v8, a, b, k, 16 + k, k + 1, 17 + k, k + 2, 18 + k, k + 3, 19 + k, \
                                    k + 4, 20 + k, k + 5, 21 + k, k + 6, 22 + k, k + 7, 23 + k)
#define PL_ZIP16(a, b, k) PL_SHUFFLE(pl_v16, a, b, k, 8 + k, k + 1, 9 + k, k + 2, 10 + k, k + 3, 11 + k)
#define PL_ZIP32(a, b, k) PL_SHUFFLE(pl_v32, a, b, k, 4 + k, k + 1, 5 + k)
#define PL_TILE(name, V, ZIP, n, rounds)                                                                       \
  static inline void name(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, size_t rows, \
                          size_t cols) {                                                                       \
    V a[n], b[n];                                                                                              \
    PL_UNROLL for (size_t i = 0; i < n; i++) memcpy(&a[i], x + (i < cols ? (ptrdiff_t)i * xcol : 0), 16);      \
    PL_UNROLL for (int round = 0; round < rounds; round++) {                                                   \
      PL_UNROLL for (int i = 0; i < n / 2; i++) {                                                              \
        b[2 * i] = ZIP(a[i], a[i + n / 2], 0);                                                                 \
        b[2 * i + 1] = ZIP(a[i], a[i + n / 2], n / 2);                                                         \
      }                                                                                                        \
      memcpy(a, b, sizeof a);                                                                                  \
    }                                                                                                          \
    PL_UNROLL for (size_t i = 0; i < n && i < rows; i++) memcpy(y + (ptrdiff_t)i * yrow, &a[i], 16);                    \
  }
PL_TILE(transpose_tile_8, pl_v8, PL_ZIP8, 16, 4)
PL_TILE(transpose_tile_16, pl_v16, PL_ZIP16, 8, 3)
PL_TILE(transpose_tile_32, pl_v32, PL_ZIP32, 4, 2)
static inline void transpose_tile_64(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, size_t rows,
                                     size_t cols) {
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) memcpy(y + (ptrdiff_t)r * yrow + c * 8, x + (ptrdiff_t)c * xcol + r * 8, 8);
}

/* Tiles of n x n in bands of rows that fill a cache line of x.  The last ones overlap those before.  Where there are
 * fewer rows (as in RGB pixels to planes) tiles read on into the next pixel, but not beyond x; where there are fewer
 * columns (planes to pixels) they write on into the next pixel, which is yet to be written, but not beyond y. */
#define PL_TRANSPOSE(tile, n)                                                                                  \
  if (rows >= n && cols >= n) {                                                                                \
    for (size_t top = 0; top < rows; top += 64 / item)                                                         \
      for (size_t left = 0; left < cols; left += n)                                                            \
        for (size_t r = top; r < top + 64 / item && r < rows; r += n) {                                        \
          size_t row = r + n <= rows ? r : rows - n, col = left + n <= cols ? left : cols - n;                 \
          tile(x + row * item + (ptrdiff_t)col * xcol, xcol, y + (ptrdiff_t)row * yrow + col * item, yrow, n,  \
               n);                                                                                             \
        }                                                                                                      \
    return;                                                                                                    \
  }                                                                                                            \
  if (rows < n && xcol > 0) {                                                                                  \
    size_t readable = (cols - 1) * xcol + rows * item, c = 0;                                                  \
    for (; c + n <= cols && (c + n - 1) * xcol + n * item <= readable; c += n)                                 \
      tile(x + c * xcol, xcol, y + c * item, yrow, rows, n);                                                   \
    x += c * xcol, y += c * item, cols -= c;                                                                   \
  } else if (cols < n && yrow == (ptrdiff_t)(cols * item)) {                                                   \
    size_t r = 0;                                                                                              \
    for (; r + n <= rows && (r + n - 1) * yrow + n * item <= rows * yrow; r += n)                              \
      tile(x + r * item, xcol, y + r * yrow, yrow, n, cols);                                                   \
    x += r * item, y += r * yrow, rows -= r;                                                                   \
  }
/* y's columns and x's rows are consecutive elements: a transpose, in tiles that fit the registers. */
static void copy_transposed(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xcol, uint8_t *y,
                            ptrdiff_t yrow) {
  switch (item) {
    case 1: PL_TRANSPOSE(transpose_tile_8, 16) break;
    case 2: PL_TRANSPOSE(transpose_tile_16, 8) break;
    case 4: PL_TRANSPOSE(transpose_tile_32, 4) break;
    case 8: PL_TRANSPOSE(transpose_tile_64, 8)
  }
  if (rows < cols)
    copy_strided(item, rows, cols, x, (ptrdiff_t)item, xcol, y, yrow, (ptrdiff_t)item);
  else
    copy_strided(item, cols, rows, x, xcol, (ptrdiff_t)item, y, (ptrdiff_t)item, yrow);
}
