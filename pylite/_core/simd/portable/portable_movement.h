/* Copies and transposes; included by portable.c alone.
 *
 * All strides are in bytes.  Elements may be unaligned, so every access is a memcpy of a fixed size. */
#include <string.h>

typedef struct { uint64_t half[2]; } pl_u128;
typedef struct { pl_u128 half[2]; } pl_u256;

/* Copies rows of `bytes` bytes as two words that overlap.  If the rows of y adjoin, each row but the last is copied as
 * two whole words instead: the next row overwrites the excess. */
#define PL_COPY_SHORT(T, TWO)                                                                                  \
  for (; yrow == (ptrdiff_t)bytes && xrow >= (ptrdiff_t)sizeof(T) && rows > 1; rows--, x += xrow, y += yrow) { \
    TWO both;                                                                                                  \
    memcpy(&both, x, sizeof both);                                                                             \
    memcpy(y, &both, sizeof both);                                                                             \
  }                                                                                                            \
  for (; rows; rows--, x += xrow, y += yrow) {                                                                 \
    T head, tail;                                                                                              \
    memcpy(&head, x, sizeof(T));                                                                               \
    memcpy(&tail, x + bytes - sizeof(T), sizeof(T));                                                           \
    memcpy(y, &head, sizeof(T));                                                                               \
    memcpy(y + bytes - sizeof(T), &tail, sizeof(T));                                                           \
  }
static __attribute__((noinline)) void copy_runs(size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow, uint8_t *y,
                                                ptrdiff_t yrow) {
  if (bytes >= 2 && bytes <= 4) {
    PL_COPY_SHORT(uint16_t, uint32_t)
  } else if (bytes > 4 && bytes <= 8) {
    PL_COPY_SHORT(uint32_t, uint64_t)
  } else if (bytes > 8 && bytes <= 16) {
    PL_COPY_SHORT(uint64_t, pl_u128)
  } else if (bytes > 16 && bytes <= 32) {
    PL_COPY_SHORT(pl_u128, pl_u256)
  } else {
    for (size_t r = 0; r < rows; r++) memcpy(y + (ptrdiff_t)r * yrow, x + (ptrdiff_t)r * xrow, bytes);
  }
}

/* Copies rows x cols elements of type T with any strides, also 0 in x, which repeats one element. */
#define PL_COPY_STRIDED(T)                                                                                     \
  for (size_t r = 0; r < rows; r++, x += xrow, y += yrow) {                                                    \
    if (ycol == (ptrdiff_t)sizeof(T) && xcol == 0) {                                                           \
      T value;                                                                                                 \
      memcpy(&value, x, sizeof(T));                                                                            \
      for (size_t c = 0; c < cols; c++) memcpy(y + c * sizeof(T), &value, sizeof(T));                          \
    } else if (ycol == (ptrdiff_t)sizeof(T) && xcol == -ycol) { /* backwards */                                \
      const uint8_t *first = x - (cols - 1) * sizeof(T);                                                       \
      for (size_t c = 0; c < cols; c++) memcpy(y + c * sizeof(T), first + (cols - 1 - c) * sizeof(T), sizeof(T)); \
    } else {                                                                                                   \
      const uint8_t *from = x;                                                                                 \
      uint8_t *to = y;                                                                                         \
      for (size_t c = 0; c < cols; c++, from += xcol, to += ycol) memcpy(to, from, sizeof(T));                 \
    }                                                                                                          \
  }
/* The 8 bytes of v, items of 1, 2, 4 or 8 bytes, in reverse order. */
PL_INLINE uint64_t reversed_word(size_t item, uint64_t v) {
  if (item == 8) return v;
  if (item == 4) return v << 32 | v >> 32;
  v = __builtin_bswap64(v);
  return item == 1 ? v : (v & 0x00FF00FF00FF00FF) << 8 | (v >> 8 & 0x00FF00FF00FF00FF);
}
/* Copies rows of 4 to 63 bytes, whose items it reverses; x: their last items.  Longer rows are faster as vectors. */
static void copy_reversed(size_t item, size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow, uint8_t *y,
                          ptrdiff_t yrow) {
  x -= bytes - item;
  if (bytes < 8) {
    for (; rows; rows--, x += xrow, y += yrow) {
      uint32_t ends[2];
      memcpy(ends, x, 4);
      memcpy(ends + 1, x + bytes - 4, 4);
      for (int i = 0; i < 2; i++) ends[i] = (uint32_t)(reversed_word(item, ends[i]) >> 32);
      memcpy(y, ends + 1, 4);
      memcpy(y + bytes - 4, ends, 4);
    }
    return;
  }
  for (; rows; rows--, x += xrow, y += yrow)
    for (size_t i = 0; i < bytes; i += 8) { /* the last word overlaps the one before */
      const size_t at = i + 8 <= bytes ? i : bytes - 8;
      uint64_t v;
      memcpy(&v, x + at, 8);
      v = reversed_word(item, v);
      memcpy(y + bytes - 8 - at, &v, 8);
    }
}
static void copy_strided(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xrow, ptrdiff_t xcol,
                         uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol) {
  if (ycol == (ptrdiff_t)item && xcol == -ycol && item <= 8 && item * cols >= 4 && item * cols < 64) {
    copy_reversed(item, rows, item * cols, x, xrow, y, yrow);
    return;
  }
  switch (item) {
    case 1: PL_COPY_STRIDED(uint8_t) break;
    case 2: PL_COPY_STRIDED(uint16_t) break;
    case 4: PL_COPY_STRIDED(uint32_t) break;
    case 8: PL_COPY_STRIDED(uint64_t) break;
    default: PL_COPY_STRIDED(pl_u128)
  }
}

/* Repeats each element m times, by whole vectors; the next element overwrites the excess. */
#if defined(__AVX2__)
enum { REPEATED = 32 };
#else
enum { REPEATED = 16 };
#endif
#define PL_REPEAT(T) \
  for (; n; n--, x += sizeof(T), y += m * sizeof(T)) { \
    typedef T many __attribute__((vector_size(REPEATED))); \
    T v; \
    memcpy(&v, x, sizeof v); \
    const many repeated = v - (many){0}; \
    for (size_t i = 0; i < m * sizeof(T); i += REPEATED) memcpy(y + i, &repeated, REPEATED); \
  }
/* Aligned, because its loops are slower at some addresses. */
static __attribute__((aligned(64))) void repeat_items(size_t item, size_t n, size_t m, const uint8_t *x, uint8_t *y) {
  if (item == 1) PL_REPEAT(uint8_t)
  else if (item == 2) PL_REPEAT(uint16_t)
  else if (item == 4) PL_REPEAT(uint32_t)
  else PL_REPEAT(uint64_t)
}

/* A single element is first expanded to a block. */
enum { CHOSEN = 64 };
#define PL_CHOOSE(T) { \
    typedef T anywhere __attribute__((aligned(1), may_alias)); /* armv7 reads 8 bytes at a multiple of 4 only */ \
    const anywhere *px = (const anywhere *)x, *py = (const anywhere *)y; \
    anywhere *restrict to = (anywhere *)out, x_expanded[CHOSEN], y_expanded[CHOSEN]; \
    size_t m = x_step && y_step ? n : n < CHOSEN ? n : CHOSEN; \
    for (size_t i = 0; !x_step && i < m; i++) x_expanded[i] = *px; \
    for (size_t i = 0; !y_step && i < m; i++) y_expanded[i] = *py; \
    for (size_t done = 0; done < n; done += m) { \
      const anywhere *restrict from_x = x_step ? px + done : x_expanded; \
      const anywhere *restrict from_y = y_step ? py + done : y_expanded; \
      const uint8_t *restrict condition = c + done; \
      m = m < n - done ? m : n - done; \
      for (size_t i = 0; i < m; i++) /* without branches, which random conditions mislead */ \
        to[done + i] = (T)(from_y[i] ^ ((from_x[i] ^ from_y[i]) & (T)-(T)(condition[i] != 0))); \
    } \
    return; \
  }
static void choose(size_t item, size_t n, const uint8_t *c, const uint8_t *x, size_t x_step, const uint8_t *y,
                   size_t y_step, uint8_t *out) {
  if (item == 1) PL_CHOOSE(uint8_t)
  if (item == 2) PL_CHOOSE(uint16_t)
  if (item == 4) PL_CHOOSE(uint32_t)
  if (item == 8) PL_CHOOSE(uint64_t)
  for (size_t i = 0; i < n; i++) memcpy(out + i * item, c[i] ? x + i * x_step * item : y + i * y_step * item, item);
}

/* Transposes a square tile of n 16-byte rows by log2(n) rounds of interleaving rows i and i + n/2.  It reads the first
 * `cols` columns of x, and writes the first `rows` rows of y with 16 bytes each. */
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
    PL_UNROLL for (size_t i = 0; i < n && i < rows; i++) memcpy(y + (ptrdiff_t)i * yrow, &a[i], 16);          \
  }
PL_TILE(transpose_tile_8, pl_v8, PL_ZIP8, 16, 4)
PL_TILE(transpose_tile_16, pl_v16, PL_ZIP16, 8, 3)
/* Parts of tiles, for less code: narrow lines take longer than the call. */
#define PL_PART(name, tile)                                                                                    \
  static __attribute__((noinline)) void name(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, \
                                             size_t rows, size_t cols) {                                       \
    tile(x, xcol, y, yrow, rows, cols);                                                                        \
  }
PL_PART(transpose_part_8, transpose_tile_8)
PL_PART(transpose_part_16, transpose_tile_16)

/* 4-byte elements, without arrays: gcc would keep these in memory on ISA levels with longer vectors. */
static inline void transpose_tile_32(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, size_t rows,
                                     size_t cols) {
  pl_v32 a, b, c, d, even, odd;
  memcpy(&a, x, 16);
  memcpy(&b, x + (cols > 1 ? xcol : 0), 16);
  memcpy(&c, x + (cols > 2 ? 2 * xcol : 0), 16);
  memcpy(&d, x + (cols > 3 ? 3 * xcol : 0), 16);
  even = PL_ZIP32(a, c, 0), odd = PL_ZIP32(b, d, 0);
  c = PL_ZIP32(a, c, 2), d = PL_ZIP32(b, d, 2);
  a = PL_ZIP32(even, odd, 0), b = PL_ZIP32(even, odd, 2);
  memcpy(y, &a, 16);
  if (rows > 1) memcpy(y + yrow, &b, 16);
  a = PL_ZIP32(c, d, 0), b = PL_ZIP32(c, d, 2);
  if (rows > 2) memcpy(y + 2 * yrow, &a, 16);
  if (rows > 3) memcpy(y + 3 * yrow, &b, 16);
}
#ifdef __AVX__
typedef uint32_t pl_w32 __attribute__((vector_size(32)));
#define PL_WIDE(name, ...) \
  static inline pl_w32 name(pl_w32 a, pl_w32 b) { return PL_SHUFFLE(pl_w32, a, b, __VA_ARGS__); }
PL_WIDE(wide_low_32, 0, 8, 1, 9, 4, 12, 5, 13)
PL_WIDE(wide_high_32, 2, 10, 3, 11, 6, 14, 7, 15)
PL_WIDE(wide_low_64, 0, 1, 8, 9, 4, 5, 12, 13)
PL_WIDE(wide_high_64, 2, 3, 10, 11, 6, 7, 14, 15)
PL_WIDE(wide_low_half, 0, 1, 2, 3, 8, 9, 10, 11)
PL_WIDE(wide_high_half, 4, 5, 6, 7, 12, 13, 14, 15)
static inline pl_w32 wide_at(const uint8_t *x) {
  pl_w32 v;
  memcpy(&v, x, 32);
  return v;
}
static inline void wide_to(uint8_t *y, pl_w32 v) { memcpy(y, &v, 32); }
/* 8 x 8 elements of 4 bytes, of which it reads and writes at least 5 columns and rows.  Rows are written in order, so
 * that each overwrites what the one before has written beyond its end. */
static inline void transpose_wide_32(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, size_t rows,
                                     size_t cols) {
  pl_w32 a = wide_at(x), b = wide_at(x + xcol), c = wide_at(x + 2 * xcol), d = wide_at(x + 3 * xcol);
  pl_w32 e = wide_at(x + 4 * xcol), f = e, g = e, h = e, ab, cd, ef, gh, ab_top, cd_top, ef_top, gh_top;
  if (cols > 5) f = wide_at(x + 5 * xcol);
  if (cols > 6) g = wide_at(x + 6 * xcol);
  if (cols > 7) h = wide_at(x + 7 * xcol);
  ab = wide_low_32(a, b), cd = wide_low_32(c, d), ef = wide_low_32(e, f), gh = wide_low_32(g, h);
  ab_top = wide_high_32(a, b), cd_top = wide_high_32(c, d), ef_top = wide_high_32(e, f), gh_top = wide_high_32(g, h);
  a = wide_low_64(ab, cd), b = wide_low_64(ef, gh), c = wide_high_64(ab, cd), d = wide_high_64(ef, gh);
  e = wide_low_64(ab_top, cd_top), f = wide_low_64(ef_top, gh_top);
  g = wide_high_64(ab_top, cd_top), h = wide_high_64(ef_top, gh_top);
  wide_to(y, wide_low_half(a, b));
  wide_to(y + yrow, wide_low_half(c, d));
  wide_to(y + 2 * yrow, wide_low_half(e, f));
  wide_to(y + 3 * yrow, wide_low_half(g, h));
  wide_to(y += 4 * yrow, wide_high_half(a, b));
  if (rows > 5) wide_to(y + yrow, wide_high_half(c, d));
  if (rows > 6) wide_to(y + 2 * yrow, wide_high_half(e, f));
  if (rows > 7) wide_to(y + 3 * yrow, wide_high_half(g, h));
}
PL_PART(transpose_wide_part, transpose_wide_32)
#endif
static inline void transpose_tile_64(const uint8_t *x, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, size_t rows,
                                     size_t cols) {
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) memcpy(y + (ptrdiff_t)r * yrow + c * 8, x + (ptrdiff_t)c * xcol + r * 8, 8);
}

/* Transposes tiles of n x n elements, grouped in squares that fill cache lines of x and y; the outer loop runs along
 * the side whose lines are farther apart.  The last tiles overlap those before.  With fewer than n rows (RGB pixels to
 * planes) tiles read into the next pixel, but not beyond x; with fewer columns (planes to pixels) they write into the
 * next pixel, which is written later, but not beyond y. */
#define PL_TRANSPOSE_ALL(tile, n)                                                                              \
  if (rows >= n && cols >= n) {                                                                                \
    const size_t line = yrow >= 16384 ? n : 64 / item; /* lines that far apart evict each other from the cache */  \
    const int down = yrow >= xcol;                                                                             \
    for (size_t top = 0; top < rows; top += line)                                                              \
      for (size_t left = 0; left < cols; left += line) {                                                       \
        const size_t bottom = top + line < rows ? top + line : rows, right = left + line < cols ? left + line : cols; \
        for (size_t i = down ? top : left; i < (down ? bottom : right); i += n)                                \
          for (size_t j = down ? left : top; j < (down ? right : bottom); j += n) {                            \
            const size_t r = down ? i : j, c = down ? j : i;                                                   \
            const size_t row = r + n <= rows ? r : rows - n, col = c + n <= cols ? c : cols - n;               \
            tile(x + row * item + (ptrdiff_t)col * xcol, xcol, y + (ptrdiff_t)row * yrow + col * item, yrow, n, n); \
          }                                                                                                    \
      }                                                                                                        \
    return;                                                                                                    \
  }
#define PL_TRANSPOSE(tile, part, n)                                                                            \
  PL_TRANSPOSE_ALL(tile, n)                                                                                    \
  if (rows < n && xcol > 0) {                                                                                  \
    size_t readable = (cols - 1) * xcol + rows * item, c = 0;                                                  \
    for (; c + n <= cols && (c + n - 1) * xcol + n * item <= readable; c += n)                                 \
      part(x + c * xcol, xcol, y + c * item, yrow, rows, n);                                                   \
    x += c * xcol, y += c * item, cols -= c;                                                                   \
  } else if (cols < n && yrow == (ptrdiff_t)(cols * item)) {                                                   \
    size_t r = 0;                                                                                              \
    for (; r + n <= rows && (r + n - 1) * yrow + n * item <= rows * yrow; r += n)                              \
      part(x + r * item, xcol, y + r * yrow, yrow, n, cols);                                                   \
    x += r * item, y += r * yrow, rows -= r;                                                                   \
  }
/* Lines narrower than a tile go through blocks, so that the tile reads and writes nothing beyond them.  A few elements
 * take less time one by one. */
#define PL_TRANSPOSE_NARROW(tile, n)                                                                           \
  const size_t height = rows < n ? rows : n, width = cols < n ? cols : n;                                      \
  if (height > 1 && width > 1 && height * width >= 3 * n) {                                                    \
    uint8_t from[16 * n], to[16 * n];                                                                          \
    for (size_t i = 0; i < rows; i += height) {                                                                \
      if (i && rows - i < 3) {                                                                                 \
        copy_strided(item, rows - i, cols, x + i * item, (ptrdiff_t)item, xcol, y + (ptrdiff_t)i * yrow, yrow, \
                     (ptrdiff_t)item);                                                                         \
        break;                                                                                                 \
      }                                                                                                        \
      for (size_t j = 0; j < cols; j += width) {                                                               \
        const size_t row = i + height <= rows ? i : rows - height, col = j + width <= cols ? j : cols - width; \
        const uint8_t *x0 = x + row * item + (ptrdiff_t)col * xcol;                                            \
        uint8_t *y0 = y + (ptrdiff_t)row * yrow + col * item;                                                  \
        const int low = height < n, short_rows = width < n;                                                    \
        if (low) copy_runs(width, height * item, x0, xcol, from, 16);                                          \
        tile(low ? from : x0, low ? 16 : xcol, short_rows ? to : y0, short_rows ? 16 : yrow, height, width);   \
        if (short_rows) copy_runs(height, width * item, to, 16, y0, yrow);                                     \
      }                                                                                                        \
    }                                                                                                          \
    return;                                                                                                    \
  }
/* Transposes in tiles that fit the registers: y[r][c] = x[c][r]; rows of y and of x are contiguous. */
static void copy_transposed(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xcol, uint8_t *y,
                            ptrdiff_t yrow) {
  if (!rows) return; /* tiles write at least one */
  switch (item) {
    case 1: {
      PL_TRANSPOSE(transpose_tile_8, transpose_part_8, 16)
      PL_TRANSPOSE_NARROW(transpose_part_8, 16)
      break;
    }
    case 2: {
      PL_TRANSPOSE(transpose_tile_16, transpose_part_16, 8)
      PL_TRANSPOSE_NARROW(transpose_part_16, 8)
      break;
    }
    case 4:
#ifdef __AVX__
      if (rows > 4 && cols > 4) {
        PL_TRANSPOSE(transpose_wide_32, transpose_wide_part, 8)
      }
#endif
      PL_TRANSPOSE(transpose_tile_32, transpose_tile_32, 4) break;
    case 8: PL_TRANSPOSE(transpose_tile_64, transpose_tile_64, 8)
  }
  if (rows < cols)
    copy_strided(item, rows, cols, x, (ptrdiff_t)item, xcol, y, yrow, (ptrdiff_t)item);
  else
    copy_strided(item, cols, rows, x, xcol, (ptrdiff_t)item, y, (ptrdiff_t)item, yrow);
}
