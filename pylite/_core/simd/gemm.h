/* The micro-kernels of convolutions and matrix products: their data layouts and slots.
 *
 * A product is y[r][j] = sum over k of a[r][k] * w[k][j].  Rows of a are packed into A panels, in the form that the ISA
 * level multiplies best; w is packed once, into B panels of columns ("panel" alone means one of these).  Tile sizes are
 * data (pl_tile), so that all ISA levels share one packing routine and one driver. */
#ifndef PYLITE_GEMM_H
#define PYLITE_GEMM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct pl_tile {
  int mr;      /* most rows of an A panel; depthwise: most output lines in one call */
  int nr;      /* columns of a panel */
  int nv;      /* columns of the last panel of a matrix: as few as needed, rounded up to a multiple of nv */
  int kr;      /* a panel is packed[k / kr][column][k % kr] */
  int ka;      /* the depth of a panel and of an A panel is padded with zeros to a multiple of ka */
  int bytes;   /* of an element of an A panel (GEMM) or of a packed weight (depthwise) */
  int offset;  /* A panels hold x + offset: 128 where the ISA level multiplies unsigned by signed bytes */
  const uint8_t *order; /* depthwise: the channel in each place of a block of nr; NULL: in order */
  int wrap;    /* depthwise: most blocks until they repeat, see pl_wraps; 0: blocks never go on into the next pixel */
  int nibbles; /* gemm_blocks takes 4-bit weights, two steps of kr in one: the first in each byte's lower half */
  int real;    /* gemm_q8 knows the float64 rule, see pl_columns */
  int any_n;   /* for one row, gemm_q8, gemm_s32 and gemm_hybrid take any number of columns */
  int rows;    /* rows that gemm_q8 and gemm_hybrid multiply together, reading none beyond the last; 0: they may */
} pl_tile;

/* Where the rows of the left operand lie, in elements: row r is `lines` runs of `depth`, run i at r * step + i * pitch.
 * A row of a packed A panel is one run.  Lines of an image serve all pixels of an output line, whose rows overlap. */
typedef struct pl_a_layout {
  int lines;
  ptrdiff_t depth, step, pitch;
} pl_a_layout;
static inline pl_a_layout pl_packed_layout(ptrdiff_t depth) { return (pl_a_layout){1, depth, depth, 0}; }

/* How accumulators become 8-bit results, column by column: bias, MBQM32 (rounding.h), then clamping to [low, high].
 * Arrays reach to the end of the last panel.
 * left: NULL, or some accumulator is shifted left, is not shifted right, or may reach 2^30.
 * odd, half, sign: mult and right restated for vector code: odd[j] = mult[j | 1], half = 2^(right - 1) or 0, sign = 31,
 * or 32 where right is 0.
 * fit: float32 gives the same result for every accumulator, as fit_q8 has shown: acc scale + (acc rest +- start),
 * truncated.  Both sums are fused; the sign is that of acc, and may be left out where low is the zero point.  The outer
 * sum is rounded towards 0 on AVX-512, to the nearest on AVX2, where rest is 0.
 * On NEON `start` is 0 in the panels that have no weight of -128, where `fit`.
 * real: NULL, or the scales of the float64 rule, all below 1, which is used instead of MBQM32 (`real` tiles). */
typedef struct pl_columns {
  const int32_t *bias, *mult, *odd, *left, *right, *half, *sign;
  const float *scale, *rest, *start;
  const double *real;
  int fit;
  int32_t zero_point, low, high; /* of int8 */
  int32_t flip;                  /* 0x80: the output is uint8 */
} pl_columns;

/* How the sums of hybrid operators become float32, column by column: see finish_hybrid. */
typedef struct pl_hybrid {
  const int32_t *sums;
  const float *scale, *bias; /* bias may be NULL */
  int column_first;
  int fit; /* on NEON: 1 if no weight of the panels is -128 */
  float low, high;
} pl_hybrid;

/* Lines of output pixels of a depthwise convolution.  Channels are contiguous. */
typedef struct pl_dw_window {
  const uint8_t *const *row; /* [fh]: first pixel of each input line; NULL outside of the image */
  const uint8_t *zero;       /* the pixel that is read outside of the image */
  int fh, fw, stride, dilation, pad;
  ptrdiff_t width, pixels, c; /* input pixels, output pixels, channels */
  int lines;                  /* output lines.  depthwise_q8: up to its tile's mr, depthwise_f32: see dw_f32_lines; `row`
                               * has the (lines - 1) * stride + fh input lines of all, `dilation` apart.
                               * depthwise_s64: one */
  ptrdiff_t y_line;           /* from one output line to the next, in elements */
  ptrdiff_t next;             /* depthwise_f32 if dw_f32_lines is 0: bytes from the input of one output line to the
                               * input of the next */
} pl_dw_window;

#define PL_MAX_TAPS 1024 /* of a depthwise filter */
#define PL_SLACK 64      /* elements behind an A panel that may be read or written */
#define PL_SCALED 16     /* scaled_sums reads multiples of so many columns, */
#define PL_DEPTH 1024    /* and takes so many products in one call */
#define PL_BLOCK_ROWS 16 /* rows of gemm_blocks */

/* Do so many taps, the height or the width of a filter, fill a group of four weights (kr)?  A group is then a line of
 * the filter if its width fits and several output lines are computed at once, or else a column if its height fits.
 * Otherwise groups are consecutive taps in reading order. */
static inline int pl_taps_fit_group(const pl_tile *t, int taps) { return t->kr == 4 && (taps == 3 || taps == 4); }

/* The taps in the order of packing, padded to full groups with -1; returns their number. */
static inline int pl_tap_order(const pl_tile *t, int fh, int fw, int16_t *order) {
  int n = 0;
  if (t->mr > 1 && pl_taps_fit_group(t, fw)) {
    for (int y = 0; y < fh; y++)
      for (int x = 0; x < 4; x++) order[n++] = (int16_t)(x < fw ? y * fw + x : -1);
    return n;
  }
  if (pl_taps_fit_group(t, fh)) {
    for (int x = 0; x < fw; x++)
      for (int y = 0; y < 4; y++) order[n++] = (int16_t)(y < fh ? y * fw + x : -1);
    return n;
  }
  for (int i = 0; i < fh * fw; i++) order[n++] = (int16_t)i;
  while (n % t->kr) order[n++] = -1;
  return n;
}

/* The first channel of block b.  The last block is nr wide, too: it overlaps the block before. */
static inline ptrdiff_t pl_block_start(ptrdiff_t b, ptrdiff_t nr, ptrdiff_t c) {
  return c < nr ? 0 : b * nr + nr > c ? c - nr : b * nr;
}

/* A depthwise line may be treated as one long row of channels and cut into blocks of nr that span pixels.  Returns the
 * number of blocks after which their channels repeat; 0 if that is too large, or if lines or taps would not fit. */
#define PL_MOST_WRAPPED 256 /* taps */
#define PL_DW_BYTES 49152   /* of line buffers */
static inline ptrdiff_t pl_wraps(const pl_tile *t, ptrdiff_t c, ptrdiff_t fh, ptrdiff_t fw, ptrdiff_t stride,
                                 ptrdiff_t dilation) {
  ptrdiff_t a = c, b = t->nr;
  while (b) { /* a becomes the greatest common divisor */
    ptrdiff_t rest = a % b;
    a = b, b = rest;
  }
  const ptrdiff_t least = c % t->nr ? c : t->nr; /* channels of the smallest chunk */
  if (stride > 64 || dilation > 64 || fh * fw > PL_MOST_WRAPPED ||
      fh * (fw * dilation + 2 * stride) > PL_DW_BYTES / least)
    return 0;
  return c % t->nr && c / a > t->wrap ? 0 : c / a;
}

/* Pointers to the taps of an output pixel, in reading order; bytes: of one element. */
static inline void pl_taps(const pl_dw_window *g, ptrdiff_t pixel, ptrdiff_t bytes, const uint8_t **p) {
  ptrdiff_t x0 = pixel * g->stride - g->pad;
  for (int y = 0; y < g->fh; y++)
    for (int x = 0; x < g->fw; x++) {
      ptrdiff_t ix = x0 + (ptrdiff_t)x * g->dilation;
      *p++ = g->row[y] && ix >= 0 && ix < g->width ? g->row[y] + ix * g->c * bytes : g->zero;
    }
}

/* A product whose weights have a scale for each block of the depth.  Panels, sums and scales are stored panel by panel,
 * and within a panel block by block: block i of the panel from column j on, `width` wide, is at pl_block_offset(b,
 * width, i, j).
 */
typedef struct pl_blocks {
  const uint8_t *panels; /* of pack_b_q8, block by block; nibbles: see pl_tile */
  const int32_t *sums;
  const float *scale, *bias; /* bias may be NULL */
  ptrdiff_t depth, blocks, deep; /* deep: depth of a block, padded for the tile */
  ptrdiff_t columns, wide;       /* wide: padded for the tile */
  int nibbles;
  float low, high;
} pl_blocks;
static inline ptrdiff_t pl_block_offset(const pl_blocks *b, ptrdiff_t width, ptrdiff_t i, ptrdiff_t j) {
  return j * b->blocks + i * width;
}

/* A 3 x 3 convolution with stride 1 by Winograd's F(4x4, 3x3), exact: 8-bit images of c channels, a multiple of 16 from
 * 32 on.  Sums stay below 2^25.  The buffers of a task of a few tiles lie on the stack. */
typedef struct pl_winograd {
  const uint8_t *x, *zero;       /* zero: c bytes, the pixel outside of the image */
  uint8_t *y;
  const int16_t *panels;
  ptrdiff_t x_image, x_line, x_pixel, y_image, y_line, y_pixel; /* steps in bytes */
  ptrdiff_t h, w, oh, ow, c;
  int pad_h, pad_w, flip;
} pl_winograd;
#define PL_WINOGRAD_SCRATCH 92160  /* bytes of the buffers */
#define PL_WINOGRAD_DEEPEST 128 /* c */
#define PL_WINOGRAD_WIDE 32     /* columns of a panel */
/* The most tiles of a task: more would not stay in the first-level cache. */
static inline int pl_winograd_tiles(ptrdiff_t c) { return c <= 32 ? 12 : 6; }

/* Writes n bytes of `value`, and up to 15 more. */
static inline void pl_fill(void *to, int value, ptrdiff_t n) {
  const uint64_t eight = (uint8_t)value * UINT64_C(0x0101010101010101);
  for (ptrdiff_t i = 0; i < n; i += 16) {
    memcpy((char *)to + i, &eight, 8);
    memcpy((char *)to + i + 8, &eight, 8);
  }
}

struct pl_slots;
#define PL_SLOTS_GEMM(X) \
  /* ---- packing ---- */ \
  /* w (columns, depth), bytes ^ flip, to the panels of tile t, whose padding is zero already; sums: of each column's \
   * bytes ^ flip, as int8 */ \
  X(pack_b_q8, (const pl_tile *t, ptrdiff_t columns, ptrdiff_t depth, const uint8_t *w, int flip, uint8_t *panels, \
                int32_t *sums)) \
  /* row r of an A panel = the `segments` pieces of `length` bytes at src[r * segments ...], ^ flip, then zeros up to \
   * depth; up to PL_SLACK elements behind the panel may be written, too */ \
  X(pack_a_q8, (int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel, \
                ptrdiff_t depth)) \
  /* `lines` lines of an image, x_line apart, to line buffers of bytes, `pitch` apart: `before` bytes of the border, \
   * `inside` bytes ^ mask, `after` bytes of the border.  Up to PL_SLACK bytes behind a line are written before it */ \
  X(pack_lines_q8, (ptrdiff_t lines, ptrdiff_t before, ptrdiff_t inside, ptrdiff_t after, const uint8_t *x, \
                    ptrdiff_t x_line, int mask, int border, uint8_t *to, ptrdiff_t pitch)) \
  /* sums[r] = sum of the first `length` elements of each run of row r of an A panel */ \
  X(sums_q8, (int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums)) \
  /* scale, rest and start of pl_columns for n columns whose results count between low and high (less the zero point): \
   * of MBQM32, or of the float64 rule where `real` is not NULL.  Accumulators differ from bias by `reach` at most. \
   * *unfit = 1 where some column has none.  NEON sets start to 1 in panels with a weight of -128, to 0 in others, \
   * where n > 0, else *unfit if there is such a weight.  The bytes of the panels may be NULL: all are unfit */ \
  X(fit_q8, (ptrdiff_t n, const int32_t *bias, const int32_t *mult, const int32_t *left, const int32_t *right, \
             const double *real, double reach, int low, int high, const uint8_t *panels, ptrdiff_t bytes, \
             float *scale, float *rest, float *start, int *unfit)) \
  \
  /* ---- products ---- */ \
  /* one A panel times one panel (tile q8), to 8 bits: columns j..j+n of y, whose lines are ldy apart.  Accumulators \
   * start at bias + row (row may be NULL) */ \
  X(gemm_q8, (int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *row, \
              const pl_columns *columns, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy)) \
  /* the same, added to acc as it is */ \
  X(gemm_s32, (int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc, \
               ptrdiff_t lda)) \
  /* one line of accumulators (bias not yet added) to 8 bits, as gemm_q8 does it */ \
  X(requantize_q8, (int n, const int32_t *acc, const pl_columns *columns, ptrdiff_t j, uint8_t *y)) \
  /* rows of floats times one panel (tile f32); first: 1 where y holds nothing yet, and 2 more where the product has a \
   * single row; last: add bias (may be NULL) and clamp */ \
  X(gemm_f32, (int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first, int last, \
               const float *bias, float low, float high, float *y, ptrdiff_t ldy)) \
  /* y[j] = the product of a and line j of w, lines `pitch` elements apart */ \
  X(dots_f32, (ptrdiff_t n, ptrdiff_t depth, const float *a, const float *w, ptrdiff_t pitch, float *y)) \
  /* tiles of 4 x 4 pixels with c channels, at least 16, to the left operands of Winograd's 16 products (tiles, c), \
   * which are `next` apart.  line[y]: of the first tile; its pixels are step[y] apart, tiles two pixels */ \
  X(winograd_in, (ptrdiff_t tiles, ptrdiff_t c, const float *const *line, const ptrdiff_t *step, float *v, \
                  ptrdiff_t next)) \
  /* n columns of those products m (tiles, width) to pixels of y and of the line `down` behind it, `step` apart, with \
   * bias (may be NULL), clamped; down or step is 0 where there is only one line or pixel */ \
  X(winograd_out, (ptrdiff_t tiles, ptrdiff_t n, const float *m, ptrdiff_t width, ptrdiff_t next, const float *bias, \
                   float low, float high, float *y, ptrdiff_t down, ptrdiff_t step)) \
  /* acc[r][j] += sum of a[r][k] * w[j][k], exact; |w| <= 2^15 / chunk, so that 32 bits hold `chunk` products */ \
  X(gemm_s64, (int rows, int n, ptrdiff_t depth, const int16_t *a, const int16_t *w, ptrdiff_t ldw, ptrdiff_t chunk, \
               int64_t *acc, ptrdiff_t lda)) \
  \
  /* ---- sums to int16: MBQM64, or MBQM32 of the sum wrapped to 32 bits, or the float64 rule (wrap: of the sum \
   * wrapped to 32 bits); bias may be NULL ---- */ \
  X(finish_mbqm64, (int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift, \
                    int low, int high, int16_t *y)) \
  X(finish_mbqm32, (int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift, \
                    int low, int high, int16_t *y)) \
  X(finish_f64, (int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale, int zero_point, \
                 int low, int high, int16_t *y)) \
  /* the float64 rule to 8 bits: of acc + start + term, wrapped */ \
  X(finish_f64_q8, (int n, const int32_t *acc, const int32_t *start, int32_t term, const double *scale, \
                    int zero_point, int low, int high, int flip, uint8_t *y)) \
  \
  /* ---- hybrid operators: float activations, quantized at run time, times integer weights ---- */ \
  /* smallest and largest of x and 0 */ \
  X(range_f32, (ptrdiff_t n, const float *x, float *low, float *high)) \
  /* y = clamp(zero + x * inverse, rounded as hybrid operators do) ^ flip; symmetric ones leave out -128 */ \
  X(quantize_s8, (ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric, int flip, uint8_t *y)) \
  /* the same for rows of n elements that start `step` apart, each with the scale and zero point that it needs */ \
  X(quantize_rows, (ptrdiff_t rows, ptrdiff_t n, const float *x, ptrdiff_t step, int asymmetric, int flip, \
                    uint8_t *y, float *scales, int32_t *zeros)) \
  /* one A panel times one panel as in gemm_q8, and the sums finished as by finish_hybrid: columns from j on of `h`, \
   * each row with its own term and scale; own: this table */ \
  X(gemm_hybrid, (const struct pl_slots *own, int rows, int n, const pl_a_layout *layout, const void *a_panel, \
                  const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h, ptrdiff_t j, \
                  float *y, ptrdiff_t ldy)) \
  /* v = acc - term sums[j]; y = clamp(v (row scale[j]) + bias[j]), or (v scale[j]) row + bias[j] with column_first; \
   * bias may be NULL */ \
  X(finish_hybrid, (int n, const int32_t *acc, int32_t term, const int32_t *sums, const float *scale, float row, \
                    int column_first, const float *bias, float low, float high, float *y)) \
  /* up to PL_BLOCK_ROWS rows of x, bytes as in A panels of 1 byte, or int8, times the panel at column j, of which n \
   * columns are in use: y = clamp(row_scales[r] (sum over blocks of (sum of products - terms[r] sums[j]) scale[j]) + \
   * bias[j]) */ \
  X(gemm_blocks, (const struct pl_slots *own, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x, \
                  const int32_t *terms, const float *row_scales, float *y)) \
  /* y[j] += (((x[k] - zero) w[k][j]) scale[j]) row for one k after the other, x as int8, at most PL_DEPTH of them; \
   * first: y holds nothing yet; last: it becomes clamp(y + bias).  Of w, scale and bias multiples of PL_SCALED \
   * columns are read */ \
  X(scaled_sums, (int n, int depth, const uint8_t *x, int zero, const float *w, ptrdiff_t wide, const float *scale, \
                  float row, int first, int last, const float *bias, float low, float high, float *y)) \
  \
  /* ---- depthwise convolutions ---- */ \
  /* output lines of bytes (tile dw8); input bytes ^ flip, weights less w_zero */ \
  X(depthwise_q8, (const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *columns, uint8_t *y)) \
  /* the same for float; w: [taps][c] */ \
  X(depthwise_f32, (const pl_dw_window *g, const float *w, const float *bias, float low, float high, float *y)) \
  /* exact sums of int16 for channels c..c+n of an output pixel */ \
  X(depthwise_s64, (const pl_dw_window *g, ptrdiff_t pixel, ptrdiff_t c, int n, const int16_t *w, int64_t *acc))
#endif
