/* winograd_q8 and winograd_pack for AVX-512 with VNNI: 8-bit 3 x 3 convolutions by Winograd's F(4x4, 3x3), exact.
 *
 * A tile d of 6 x 6 pixels (tiles overlap by two) is transformed to 36 points for each channel, 16-bit numbers, B^T d
 * B, and so is a filter w, G w G^T.  The sums m of their products over the channels give 4 x 4 output pixels, A^T m A,
 * where
 *
 *   B^T =  4  0 -5  0  1  0     G =  6  0  0     A^T =  1  4  4  1  1  0    which is 24 y[0]
 *          0 -4 -4  1  1  0         -1 -1 -1            0  2 -2  1 -1  0             12 y[1]
 *          0  4 -4 -1  1  0         -1  1 -1            0  1  1  1  1  0              6 y[2]
 *          0 -2 -1  2  1  0          1  2  4            0  1 -1  2 -2  1              6 y[3]
 *          0  2 -1 -2  1  0          1 -2  4
 *          0  4  0 -5  0  1          0  0  6
 *
 * Sums wrap at 2^32, yet results are exact: modulo 2^32, a result is y times 9 times a power of two up to 64.  9 has an
 * inverse, and a shift removes the power, provided that |y| < 2^25. */
#include "avx512vnni.h"

enum { COLUMNS = PL_WINOGRAD_COLUMNS, POINTS = 36 };
/* Elements between the points of all tiles: a cache line.  tile_in() writes 36 points in turn, which would otherwise be
 * a power of two apart for most numbers of channels, and so compete for few sets of the first-level cache.  The points
 * of products are LANES elements apart for the same reason. */
enum { GAP = 32 };

#define ADD(a, b) _mm512_add_epi16(a, b)
#define SUBTRACT(a, b) _mm512_sub_epi16(a, b)
#define TIMES_4(a) _mm512_slli_epi16(a, 2)

/* v = B^T d for a column of pixels. */
PL_INLINE void to_points(const __m512i d[6], __m512i v[6]) {
  const __m512i even = SUBTRACT(d[4], d[2]), odd = SUBTRACT(d[3], d[1]), twice = ADD(odd, odd);
  const __m512i p = SUBTRACT(d[4], TIMES_4(d[2])), q = SUBTRACT(d[3], TIMES_4(d[1]));
  v[0] = ADD(even, TIMES_4(SUBTRACT(d[0], d[2])));
  v[1] = ADD(p, q);
  v[2] = SUBTRACT(p, q);
  v[3] = ADD(even, twice);
  v[4] = SUBTRACT(even, twice);
  v[5] = SUBTRACT(SUBTRACT(d[5], d[3]), ADD(twice, twice));
}
#undef ADD
#undef SUBTRACT
#undef TIMES_4

/* r = A^T m for a column of points. */
PL_INLINE void from_points(const __m512i m[6], __m512i r[4]) {
  const __m512i s1 = _mm512_add_epi32(m[1], m[2]), d1 = _mm512_sub_epi32(m[1], m[2]);
  const __m512i s2 = _mm512_add_epi32(m[3], m[4]), d2 = _mm512_sub_epi32(m[3], m[4]);
  r[0] = _mm512_add_epi32(_mm512_add_epi32(m[0], s2), _mm512_slli_epi32(s1, 2));
  r[1] = _mm512_add_epi32(_mm512_add_epi32(d1, d1), d2);
  r[2] = _mm512_add_epi32(s1, s2);
  r[3] = _mm512_add_epi32(_mm512_add_epi32(d1, m[5]), _mm512_add_epi32(d2, d2));
}

/* Transforms a tile of c >= 32 channels to points, `next` apart.  x: the addresses of its pixels, column by column.
 * Bytes are read as int8.  The parameters of pl_columns expect x + 128, as in other A panels; adding 36 * 128 to point
 * (1, 1) has this effect. */
static __attribute__((noinline)) void tile_in(const uint8_t *const x[POINTS], ptrdiff_t c, int flip, int16_t *v,
                                              ptrdiff_t next) {
  const __m256i mask = _mm256_set1_epi8((char)flip);
  const __m512i offset = _mm512_set1_epi16(36 * 128);
  for (ptrdiff_t b = 0; b * 32 < c; b++) {
    const ptrdiff_t k = pl_block_start(b, 32, c);
    __m512i d[6], t[6][6];
#pragma GCC unroll 1
    for (int i = 0; i < 6; i++) {
      __m512i column[6];
#pragma GCC unroll 6
      for (int y = 0; y < 6; y++)
        d[y] = _mm512_cvtepi8_epi16(_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(x[6 * i + y] + k)), mask));
      to_points(d, column);
#pragma GCC unroll 6
      for (int y = 0; y < 6; y++) t[y][i] = column[y];
    }
    int16_t *to = v + k;
#pragma GCC unroll 1
    for (int y = 0; y < 6; y++) {
      to_points(t[y], d);
      if (y == 1) d[1] = _mm512_add_epi16(d[1], offset);
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++, to += next) _mm512_storeu_si512(to, d[i]);
    }
  }
}

/* Transforms n <= 16 columns of a tile's products m, whose points are `next` apart, to output pixels, requantized.
 * `rows` lines of `pixels` pixels lie in the image; lines are `down` apart, pixels `right`. */
static __attribute__((noinline)) void tile_out(const int32_t *m, ptrdiff_t next, int n, const pl_columns *q,
                                               ptrdiff_t j, const ends *e, uint8_t *y, ptrdiff_t down,
                                               ptrdiff_t right, ptrdiff_t rows, ptrdiff_t pixels) {
  static const int8_t powers[4] = {6, 5, 4, 4};
  const __m512i ninth = _mm512_set1_epi32(0x38E38E39), bias = _mm512_loadu_si512(q->bias + j);
  const scaling local = scaling_of(q, j);
  const __mmask16 used = (__mmask16)first_bytes(n);
  __m512i s[4][6];
#pragma GCC unroll 1
  for (int i = 0; i < 6; i++) {
    __m512i a[6], r[4];
#pragma GCC unroll 6
    for (int k = 0; k < 6; k++) a[k] = _mm512_loadu_si512(m + (6 * k + i) * next);
    from_points(a, r);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) s[k][i] = r[k];
  }
#pragma GCC unroll 1
  for (ptrdiff_t i = 0; i < rows; i++, y += down) {
    __m512i r[4];
    from_points(s[i], r);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      const __m128i power = _mm_cvtsi32_si128(powers[i] - (k < 2 ? k : 2));
      r[k] = _mm512_add_epi32(_mm512_sra_epi32(_mm512_mullo_epi32(r[k], ninth), power), bias);
    }
    if (!q->fit) {
      int32_t lines[4 * LANES];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) _mm512_storeu_si512(lines + LANES * k, r[k]);
      pl_requantize_lines((int)pixels, n, lines, LANES, 1, q, j, y, right);
      continue;
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) r[k] = requantize(0, r[k], &local);
    const __m512i bytes = in_order(narrow(0, r[0], r[1], r[2], r[3], e));
    _mm_mask_storeu_epi8(y, used, _mm512_castsi512_si128(bytes));
    if (pixels > 1) _mm_mask_storeu_epi8(y + right, used, _mm512_extracti32x4_epi32(bytes, 1));
    if (pixels > 2) _mm_mask_storeu_epi8(y + 2 * right, used, _mm512_extracti32x4_epi32(bytes, 2));
    if (pixels > 3) _mm_mask_storeu_epi8(y + 3 * right, used, _mm512_extracti32x4_epi32(bytes, 3));
  }
}

/* m = the products of R tiles of one point, of which `rows` are in use, and a panel. */
PL_INLINE void multiply(int R, int rows, ptrdiff_t c, const int16_t *a, const int16_t *w, int32_t *m) {
  __m512i acc[6][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_setzero_si512();
  const int16_t *b = a + 3 * c;
  for (ptrdiff_t k = 0; k < c; k += 2, w += 64) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 32);
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
      const __m512i x = broadcast32((const uint8_t *)((r < 3 ? a : b) + r % 3 * c + k));
      __asm__("vpdpwssd %2, %1, %0" : "+v"(acc[r][0]) : "v"(x), "v"(w0));
      __asm__("vpdpwssd %2, %1, %0" : "+v"(acc[r][1]) : "v"(x), "v"(w1));
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
    if (r < rows) {
      _mm512_storeu_si512(m + r * COLUMNS, acc[r][0]);
      _mm512_storeu_si512(m + r * COLUMNS + LANES, acc[r][1]);
    }
}

static void winograd_q8(const pl_winograd *g, ptrdiff_t first, int tiles, ptrdiff_t begin, ptrdiff_t end,
                        const pl_columns *q) {
  uint8_t scratch[PL_WINOGRAD_SCRATCH] __attribute__((aligned(64)));
  const ptrdiff_t c = g->c, across = (g->ow + 3) / 4, down = (g->oh + 3) / 4, next = tiles * c + GAP;
  int16_t *v = (int16_t *)scratch;
  int32_t *m = (int32_t *)(v + (POINTS * next + 6 * c + 31) / 32 * 32);
  const ends e = ends_of(q);
  for (int t = 0; t < tiles; t++) {
    const ptrdiff_t line = (first + t) / across, image = line / down;
    const ptrdiff_t iy = line % down * 4 - g->pad_h, ix = (first + t) % across * 4 - g->pad_w;
    const uint8_t *x = g->x + image * g->x_image + iy * g->x_line + ix * g->x_pixel;
    const uint8_t *pixels[POINTS];
#pragma GCC unroll 1
    for (int i = 0; i < 6; i++, x += g->x_pixel)
      for (int y = 0; y < 6; y++) {
        const int inside = (size_t)(iy + y) < (size_t)g->h && (size_t)(ix + i) < (size_t)g->w;
        pixels[6 * i + y] = inside ? x + y * g->x_line : g->zero;
      }
    tile_in(pixels, c, g->flip, v + t * c, next);
  }
  for (ptrdiff_t j = begin; j < end; j += COLUMNS) {
    const ptrdiff_t n = end - j < COLUMNS ? end - j : COLUMNS, step = tiles * COLUMNS + LANES;
    const int16_t *w = g->panels + j * POINTS * c;
    for (int p = 0; p < POINTS; p++, w += c * COLUMNS)
      for (int r = 0; r < tiles; r += 6) {
        const int16_t *a = v + p * next + r * c;
        int32_t *to = m + p * step + r * COLUMNS;
        if (tiles - r > 4) multiply(6, tiles - r, c, a, w, to);
        else multiply(4, tiles - r, c, a, w, to);
      }
    for (int t = 0; t < tiles; t++) {
      const ptrdiff_t line = (first + t) / across, image = line / down, oy = line % down * 4;
      const ptrdiff_t ox = (first + t) % across * 4;
      const ptrdiff_t rows = g->oh - oy < 4 ? g->oh - oy : 4, pixels = g->ow - ox < 4 ? g->ow - ox : 4;
      uint8_t *y = g->y + image * g->y_image + oy * g->y_line + ox * g->y_pixel + j;
      for (ptrdiff_t i = 0; i < n; i += LANES)
        tile_out(m + t * COLUMNS + i, step, n - i < LANES ? (int)(n - i) : LANES, q, j + i, &e, y + i, g->y_line,
                 g->y_pixel, rows, pixels);
    }
  }
}

/* Panels of COLUMNS columns are [point][c / 2][column][c % 2]. */
static void winograd_pack(ptrdiff_t columns, ptrdiff_t c, const uint8_t *w, int flip, int w_zero, int16_t *panels,
                          int32_t *sums) {
  static const int8_t g[6][3] = {{6, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
  for (ptrdiff_t j = 0; j < columns; j++, w += 9 * c) {
    const ptrdiff_t start = j / COLUMNS * COLUMNS;
    __m512i total = _mm512_setzero_si512();
    for (ptrdiff_t k = 0; k < c; k += 16) {
      __m256i d[3][3], t[6][3];
#pragma GCC unroll 1
      for (int i = 0; i < 9; i++) {
        const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(w + i * c + k)),
                                            _mm_set1_epi8((char)flip));
        total = _mm512_add_epi32(total, _mm512_cvtepi8_epi32(bytes));
        d[i / 3][i % 3] = _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), _mm256_set1_epi16((short)w_zero));
      }
      int16_t *to = panels + start * POINTS * c + k * COLUMNS + (j - start) * 2;
#pragma GCC unroll 1
      for (int y = 0; y < 6; y++)
        for (int x = 0; x < 3; x++) {
          t[y][x] = _mm256_setzero_si256();
          for (int i = 0; i < 3; i++)
            t[y][x] = _mm256_add_epi16(t[y][x], _mm256_mullo_epi16(d[i][x], _mm256_set1_epi16(g[y][i])));
        }
#pragma GCC unroll 1
      for (int p = 0; p < POINTS; p++, to += c * COLUMNS) {
        __m256i sum = _mm256_setzero_si256();
        int16_t line[16];
        for (int i = 0; i < 3; i++)
          sum = _mm256_add_epi16(sum, _mm256_mullo_epi16(t[p / 6][i], _mm256_set1_epi16(g[p % 6][i])));
        _mm256_storeu_si256((__m256i *)line, sum);
        for (int i = 0; i < 16; i += 2) memcpy(to + i * COLUMNS, line + i, 4);
      }
    }
    sums[j] = _mm512_reduce_add_epi32(total);
  }
}

PL_FILL(winograd_avx512vnni, s) {
  s->winograd_q8 = winograd_q8;
  s->winograd_pack = winograd_pack;
}
