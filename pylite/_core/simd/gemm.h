/* The slots of convolutions and matrix products, and the layouts of their data.
 *
 * A product is y[r][j] = sum over k of a[r][k] * w[k][j].  Rows of a are packed into A panels, in the form that suits
 * the ISA level; w is packed once, into B panels of columns ("panel" alone means a B panel).  Tile sizes are data
 * (pl_tile), so that all ISA levels share the packing and the loops around micro-kernels.
 *
 * A depthwise convolution computes a block of nr channels at a time.  kr taps of the filter, in the order of
 * pl_tap_order(), are a group; weights of bytes are packed[block][group][channel][tap of the group]. */
#ifndef PYLITE_GEMM_H
#define PYLITE_GEMM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PL_HALF_SUM 256 /* most products that are added up in float16 */

typedef struct pl_tile {
  int mr;      /* most rows of an A panel; depthwise: most output lines in one call */
  int nr;      /* columns of a panel */
  int nv;      /* the last panel of a matrix has only the columns in use, rounded up to a multiple of nv */
  int kr;      /* a panel is packed[k / kr][column][k % kr] */
  int ka;      /* the depth of a panel and of an A panel is padded with zeros to a multiple of ka */
  int bytes;   /* of an element of an A panel (GEMM) or of a packed weight (depthwise) */
  int offset;  /* A panels hold x + offset: 128 if the ISA level multiplies unsigned by signed bytes */
  const uint8_t *order; /* depthwise: the channel at each position of a block of nr; NULL: in order */
  int wrap;    /* depthwise: the largest period of pl_wraps; 0: blocks never continue into the next pixel */
  int strided; /* depthwise: with strides above 1, do blocks stay within a pixel if that leaves few lanes unused? */
  int nibbles; /* kr of panels of 4-bit weights, a byte of which holds two steps, the first in its lower half; all have
                * nr columns.  Only for gemm_blocks, which takes none where this is 0 */
  int row_offset; /* rows of gemm_blocks hold x + row_offset */
  int real;    /* gemm_q8 implements the float64 rule, see pl_columns */
  int any_n;   /* for one row, gemm_q8, gemm_s32 and gemm_hybrid take any number of columns */
  int small;   /* gemm_q8 and gemm_hybrid are faster if no weight is -128, see find_small */
  int rows;    /* rows that gemm_q8 and gemm_hybrid multiply at once, never reading beyond the last; 0: they may read */
} pl_tile;

/* Where the rows of the left operand lie, in elements: row r is `lines` runs of `depth`, run i at r * step + i * pitch.
 * A row of a packed A panel is one run.  In lines of an image, the rows of neighbouring pixels overlap. */
typedef struct pl_a_layout {
  int lines;
  ptrdiff_t depth, step, pitch;
} pl_a_layout;
static inline pl_a_layout pl_packed_layout(ptrdiff_t depth) { return (pl_a_layout){1, depth, depth, 0}; }

/* How accumulators become 8-bit results, column by column: bias, MBQM32 (rounding.h), then clamping to [low, high].
 * Arrays are as long as all panels, padding included.  Micro-kernels call it q.
 * left: NULL unless some column shifts left, does not shift right, or has accumulators of 2^30 or more.
 * odd, half, sign: mult and right in the form that vector code needs: odd[j] = mult[j | 1], half = 2^(right - 1) or 0,
 * sign = 31, or 32 where right is 0.
 * fit: fit_q8 has proved that float32 gives the same results: acc scale + (acc rest +- start), by two fused
 * multiply-adds, then truncated.  The sign of start is that of acc; it may be + for all if low is the zero point.  The
 * outer sum is rounded towards 0 on AVX-512, to nearest on AVX2, where rest is 0.
 * small: by panel, of tile.nr columns: the results of find_small, or 0; read only if tile.small.
 * real: NULL, or the scales of the float64 rule, all below 1, to use it instead of MBQM32 (only if pl_tile.real). */
typedef struct pl_columns {
  const int32_t *bias, *mult, *odd, *left, *right, *half, *sign, *small;
  const float *scale, *rest, *start;
  const double *real;
  int fit;
  int32_t zero_point, low, high; /* of int8 */
  int32_t flip;                  /* 0x80: the output is uint8 */
} pl_columns;

/* How the sums of hybrid operators become float32, column by column; finish_hybrid has the formula.  Micro-kernels call
 * it h. */
typedef struct pl_hybrid {
  const int32_t *sums; /* of the weights of each column */
  const float *scale, *bias; /* bias may be NULL */
  int column_first;
  int32_t small; /* of all panels together: the result of find_small, or 0; read only if tile.small */
  float low, high;
} pl_hybrid;

/* How fit_q8's columns are finished by the rule, and their accumulators: those of column j lie within `reach` of
 * bias[j]. */
typedef struct pl_fit {
  const int32_t *bias, *mult, *left, *right; /* as in pl_columns */
  const double *real;                        /* the scales of the float64 rule, or NULL for MBQM32 */
  double reach;
  int low, high; /* the limits of results, less their zero point */
} pl_fit;

/* Output lines of a depthwise convolution, and the input lines under them.  Channels are contiguous.  Micro-kernels
 * call it g, for its geometry. */
typedef struct pl_dw_lines {
  const uint8_t *const *row; /* first pixel of each input line; NULL for a line outside the image */
  const uint8_t *zero;       /* the pixel that is read outside the image */
  int fh, fw, stride, dilation, pad; /* height and width of the filter; pad: pixels left of the image */
  ptrdiff_t width, pixels, c; /* input pixels, output pixels, channels */
  ptrdiff_t channels;         /* from one output pixel to the next, and from the weights of one tap to the next: c, or
                               * more for depthwise_f32 */
  int lines;                  /* output lines, which read the (lines - 1) * stride + fh input lines of `row`, `dilation`
                               * apart.  depthwise_q8: at most its tile's mr; depthwise_f32: see dw_f32_lines;
                               * depthwise_s64: 1 */
  ptrdiff_t y_line;           /* from one output line to the next, in elements */
  ptrdiff_t next;             /* for depthwise_f32 if dw_f32_lines is 0: bytes from the input of one output line to
                               * the input of the next */
  const float *scale;         /* for depthwise_f32: NULL, or what multiplies the sum of each channel */
} pl_dw_lines;

#define PL_HALF_LINES 32 /* most output lines in one call of depthwise_f16 */
#define PL_MAX_TAPS 1024 /* most taps of a depthwise filter */
#define PL_SLACK 64      /* elements past the end of an A panel that may be read or written */
#define PL_SCALED 16     /* scaled_sums reads columns in multiples of this number */
#define PL_DEPTH 1024    /* most products in one call of scaled_sums */
#define PL_BLOCK_ROWS 16 /* most rows in one call of gemm_blocks */

/* n / s, rounded up.  Most strides are 1: no division then. */
static inline ptrdiff_t pl_ceil_div(ptrdiff_t n, ptrdiff_t s) { return s == 1 ? n : (n + s - 1) / s; }

/* Does a filter's height or width of `taps` fit a group of four weights (kr)?  If its width fits, and several output
 * lines are computed at once, a group is a line of the filter; else, if its height fits, a column.  Otherwise groups
 * are consecutive taps, line by line. */
static inline int pl_taps_fit_group(const pl_tile *t, int taps) { return t->kr == 4 && (taps == 3 || taps == 4); }

/* Sets `order` to the indices of taps in the order of packing, -1 for padding of groups; returns its length. */
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

/* The first channel of block b.  The last block also has nr channels, and overlaps the one before. */
static inline ptrdiff_t pl_block_start(ptrdiff_t b, ptrdiff_t nr, ptrdiff_t c) {
  return c < nr ? 0 : b * nr + nr > c ? c - nr : b * nr;
}

#define PL_MAX_WRAPPED_TAPS 256 /* of a filter that pl_wraps accepts */
#define PL_MAX_WRAPPED_STEP 64  /* of its stride and dilation; with larger ones, products in pl_wraps could overflow */
#define PL_DW_BYTES 49152       /* most bytes of line buffers */
/* A depthwise line may be treated as one long row of channels, and cut into blocks of nr that span pixels.  Returns the
 * period: the number of blocks after which channels repeat.  Returns 0 if blocks must stay within a pixel: if the
 * period is too large, if taps or lines would not fit, or if t->strided says so. */
static inline ptrdiff_t pl_wraps(const pl_tile *t, ptrdiff_t c, ptrdiff_t fh, ptrdiff_t fw, ptrdiff_t stride,
                                 ptrdiff_t dilation) {
  ptrdiff_t a = c, b = t->nr;
  while (b) { /* a becomes the greatest common divisor */
    ptrdiff_t rest = a % b;
    a = b, b = rest;
  }
  const ptrdiff_t least = c % t->nr ? c : t->nr; /* channels that line buffers must hold */
  if (stride > PL_MAX_WRAPPED_STEP || dilation > PL_MAX_WRAPPED_STEP || fh * fw > PL_MAX_WRAPPED_TAPS ||
      fh * (fw * dilation + 2 * stride) > PL_DW_BYTES / least)
    return 0;
  const ptrdiff_t unused = t->nr - 1 - (c - 1) % t->nr; /* lanes, if blocks stay within a pixel */
  if (t->strided && stride > 1 && c >= t->nr && 3 * unused <= c) return 0;
  return c % t->nr && c / a > t->wrap ? 0 : c / a;
}

/* Sets p to the addresses of the input pixels that an output pixel reads, line by line; bytes: of an element. */
static inline void pl_taps(const pl_dw_lines *g, ptrdiff_t pixel, ptrdiff_t bytes, const uint8_t **p) {
  ptrdiff_t x0 = pixel * g->stride - g->pad;
  for (int y = 0; y < g->fh; y++)
    for (int x = 0; x < g->fw; x++) {
      ptrdiff_t ix = x0 + (ptrdiff_t)x * g->dilation;
      *p++ = g->row[y] && ix >= 0 && ix < g->width ? g->row[y] + ix * g->c * bytes : g->zero;
    }
}

/* The right operand of a product with a scale for each block of the depth.  The sum of a block is multiplied by the
 * block's scale, and the total of all blocks by the row's scale.  If there is only one block, its sum is multiplied by
 * the product of both scales, as in other hybrid products.
 * Panels, sums and scales are stored panel by panel, and within a panel block by block: pl_block_offset() tells where
 * block i of the panel at column j begins; width: columns of this panel. */
typedef struct pl_blocks {
  const uint8_t *panels; /* of pack_b_q8, block by block; nibbles: see pl_tile */
  const int32_t *sums;
  const float *scale, *bias; /* bias may be NULL */
  ptrdiff_t depth, blocks, padded_depth; /* padded_depth: of one block, padded for the tile */
  ptrdiff_t columns, padded_columns;     /* padded for the tile */
  int nibbles;
  float low, high;
} pl_blocks;
static inline ptrdiff_t pl_block_offset(const pl_blocks *b, ptrdiff_t width, ptrdiff_t i, ptrdiff_t j) {
  return j * b->blocks + i * width;
}

/* A 3 x 3 convolution of 8-bit images with stride 1, by Winograd's F(4x4, 3x3), exact as long as sums are below 2^25.
 * c: channels, a multiple of 16, at least 32. */
typedef struct pl_winograd {
  const uint8_t *x, *zero;       /* zero: c bytes, the pixel outside the image */
  uint8_t *y;
  const int16_t *panels;
  ptrdiff_t x_image, x_line, x_pixel, y_image, y_line, y_pixel; /* steps in bytes */
  ptrdiff_t h, w, oh, ow, c;     /* of the input: height and width; of the output: height and width */
  int pad_h, pad_w, flip;
} pl_winograd;
#define PL_WINOGRAD_SCRATCH 92160  /* bytes of stack that winograd_q8 uses */
#define PL_WINOGRAD_MAX_C 128      /* largest c */
#define PL_WINOGRAD_COLUMNS 32     /* of a panel */
/* Most tiles in one call of winograd_q8: more would not stay in the first-level cache. */
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
  /* packs w (columns, depth), each byte ^ flip, into panels of tile t, whose padding is zero already; sums: of each \
   * column's bytes ^ flip, as int8 */ \
  X(pack_b_q8, (const pl_tile *t, ptrdiff_t columns, ptrdiff_t depth, const uint8_t *w, int flip, uint8_t *panels, \
                int32_t *sums)) \
  /* packs an A panel: row r = the `segments` segments of `length` bytes at src[r * segments ...], each byte ^ flip, \
   * then zeros up to depth; may also write up to PL_SLACK elements past its end */ \
  X(pack_a_q8, (int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel, \
                ptrdiff_t depth)) \
  /* packs `lines` image lines, x_line apart, into line buffers of bytes, `pitch` apart: `before` bytes `border`, \
   * `inside` bytes ^ mask, `after` bytes `border`; may write up to PL_SLACK bytes past each line, in order */ \
  X(pack_lines_q8, (ptrdiff_t lines, ptrdiff_t before, ptrdiff_t inside, ptrdiff_t after, const uint8_t *x, \
                    ptrdiff_t x_line, int mask, int border, uint8_t *to, ptrdiff_t pitch)) \
  /* sums[r] = sum of the first `length` elements of each run of row r of an A panel */ \
  X(sums_q8, (int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums)) \
  /* finds scale, rest and start of pl_columns for n columns, or sets *unfit = 1 if some column has none.  Levels that \
   * do not use the float form find none */ \
  X(fit_q8, (ptrdiff_t n, const pl_fit *fit, float *scale, float *rest, float *start, int *unfit)) \
  /* small[i] = 1 if no weight in panel i is -128, else 0; for n panels of `bytes` bytes each */ \
  X(find_small, (ptrdiff_t n, ptrdiff_t bytes, const uint8_t *panels, int32_t *small)) \
  \
  /* ---- products ---- */ \
  /* one A panel times one panel (tile q8), requantized to n columns of y, whose rows are ldy apart; j: the first of \
   * these columns among all.  Accumulators start at bias[column] + terms[row]; terms may be NULL */ \
  X(gemm_q8, (int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, \
              const int32_t *terms, const pl_columns *columns, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy)) \
  /* one A panel times one panel (tile q8), added to n columns of acc, whose rows are lda apart */ \
  X(gemm_s32, (int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc, \
               ptrdiff_t lda)) \
  /* one row of accumulators (bias not yet added) to 8 bits, as in gemm_q8 */ \
  X(requantize_q8, (int n, const int32_t *acc, const pl_columns *columns, ptrdiff_t j, uint8_t *y)) \
  /* rows of floats times one panel (tile f32), added to y; first: 1 to overwrite y instead, plus 2 if the product has \
   * a single row, which may be multiplied by several panels at once; last: add bias (may be NULL) and clamp */ \
  X(gemm_f32, (int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first, int last, \
               const float *bias, float low, float high, float *y, ptrdiff_t ldy)) \
  /* gemm_f32 with rows and panels in float16 (tile f16); a single row is a single run (pl_a_layout).  Products are \
   * added in float16, up to PL_HALF_SUM at a time, and these sums in float32.  A single row has four sums for each \
   * column, which take the elements of k in turn.  bias, which is rounded to float16, is added in float16 if there is \
   * only one sum, else in float32; results are rounded to float16.  last: plus 2 if y is float16 as well, which \
   * requires 1 in `first`; 2 alone stores the sums themselves as float16 */ \
  X(gemm_f16, (int rows, int n, const pl_a_layout *layout, const uint16_t *a, const uint16_t *panel, int first, \
               int last, const float *bias, float low, float high, void *y, ptrdiff_t ldy)) \
  /* y[j] = the dot product of a and row j of w; rows are `pitch` elements apart */ \
  X(dots_f32, (ptrdiff_t n, ptrdiff_t depth, const float *a, const float *w, ptrdiff_t pitch, float *y)) \
  /* transforms tiles of 4 x 4 pixels with c >= 16 channels to the left operands (tiles, c) of Winograd's 16 products, \
   * `next` apart.  line[y]: line y of the first tile; its pixels are step[y] apart, neighbouring tiles two pixels */ \
  X(winograd_in, (ptrdiff_t tiles, ptrdiff_t c, const float *const *line, const ptrdiff_t *step, float *v, \
                  ptrdiff_t next)) \
  /* transforms the taps of `depth` channels, (depth, 3, 3, width), to the right operands (depth, width) of these \
   * products, `next` apart */ \
  X(winograd_filter, (ptrdiff_t depth, ptrdiff_t width, const float *taps, float *u, ptrdiff_t next)) \
  /* transforms n columns of these products m (tiles, width) to pixels of y, `step` apart, and of the next line, \
   * `down` further, with bias (may be NULL), clamped; down or step is 0 if tiles have only one line or pixel */ \
  X(winograd_out, (ptrdiff_t tiles, ptrdiff_t n, const float *m, ptrdiff_t width, ptrdiff_t next, const float *bias, \
                   float low, float high, float *y, ptrdiff_t down, ptrdiff_t step)) \
  /* winograd_in and winograd_out in float16, each number rounded; bias is rounded to float16 already */ \
  X(winograd_in_f16, (ptrdiff_t tiles, ptrdiff_t c, const uint16_t *const *line, const ptrdiff_t *step, uint16_t *v, \
                      ptrdiff_t next)) \
  X(winograd_out_f16, (ptrdiff_t tiles, ptrdiff_t n, const uint16_t *m, ptrdiff_t width, ptrdiff_t next, \
                       const float *bias, float low, float high, uint16_t *y, ptrdiff_t down, ptrdiff_t step)) \
  /* acc[r][j] += sum of a[r][k] * w[j][k], exact; |w| <= 2^15 / chunk, so that 32 bits can hold `chunk` products; \
   * chunk: 1 or, as depth is, a multiple of 16 */ \
  X(gemm_s64, (int rows, int n, ptrdiff_t depth, const int16_t *a, const int16_t *w, ptrdiff_t ldw, ptrdiff_t chunk, \
               int64_t *acc, ptrdiff_t lda)) \
  \
  /* ---- sums to int16, by MBQM64, by MBQM32 of the sum wrapped to 32 bits, or by the float64 rule (wrap: of the sum \
   * wrapped to 32 bits); bias may be NULL ---- */ \
  X(finish_mbqm64, (int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift, \
                    int low, int high, int16_t *y)) \
  X(finish_mbqm32, (int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift, \
                    int low, int high, int16_t *y)) \
  X(finish_f64, (int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale, int zero_point, \
                 int low, int high, int16_t *y)) \
  /* the float64 rule to 8 bits, of acc + start + term wrapped to 32 bits */ \
  X(finish_f64_q8, (int n, const int32_t *acc, const int32_t *start, int32_t term, const double *scale, \
                    int zero_point, int low, int high, int flip, uint8_t *y)) \
  \
  /* ---- hybrid operators: float activations, quantized at run time, times integer weights ---- */ \
  /* the smallest and the largest number of x and 0 */ \
  X(range_f32, (ptrdiff_t n, const float *x, float *low, float *high)) \
  /* y = clamp(zero + round(x * inverse)) ^ flip, rounded as in hybrid operators; symmetric: -128 is not used */ \
  X(quantize_s8, (ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric, int flip, uint8_t *y)) \
  /* y = clamp(zero + round(x * inverse)) - zero, as floats: the numbers of quantize_s8 less the zero point */ \
  X(quantize_whole, (ptrdiff_t n, const float *x, float inverse, int zero, float *y)) \
  /* quantize_s8 for rows of n elements, `step` apart, each with its own scale and zero point, which are results */ \
  X(quantize_rows, (ptrdiff_t rows, ptrdiff_t n, const float *x, ptrdiff_t step, int asymmetric, int flip, \
                    uint8_t *y, float *scales, int32_t *zeros)) \
  /* one A panel times one panel as in gemm_q8, finished as finish_hybrid does, with columns j .. j + n - 1 of `h` and \
   * a term and scale for each row; table: this dispatch table */ \
  X(gemm_hybrid, (const struct pl_slots *table, int rows, int n, const pl_a_layout *layout, const void *a_panel, \
                  const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h, ptrdiff_t j, \
                  float *y, ptrdiff_t ldy)) \
  /* v = acc - term sums[j]; y = clamp(v (row_scale scale[j]) + bias[j]), or (v scale[j]) row_scale + bias[j] with \
   * column_first; bias may be NULL */ \
  X(finish_hybrid, (int n, const int32_t *acc, int32_t term, const int32_t *sums, const float *scale, \
                    float row_scale, int column_first, const float *bias, float low, float high, float *y)) \
  /* up to PL_BLOCK_ROWS rows x[r] + row_offset times n columns of the panel at column j: \
   * y = clamp(row_scales[r] (sum over blocks of ((x - zero_points[r]) w) scale[j]) + bias[j]) */ \
  X(gemm_blocks, (const struct pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x, \
                  const int32_t *zero_points, const float *row_scales, float *y)) \
  /* y[j] += (((x[k] - zero) w[k][j]) scale[j]) row_scale for each k in order; x: int8, at most PL_DEPTH of them; \
   * ldw: elements from one row of w to the next; first: overwrite y instead; last: y = clamp(y + bias).  Columns of \
   * w, scale and bias are read in multiples of PL_SCALED */ \
  X(scaled_sums, (int n, int depth, const uint8_t *x, int zero, const float *w, ptrdiff_t ldw, const float *scale, \
                  float row_scale, int first, int last, const float *bias, float low, float high, float *y)) \
  \
  /* ---- depthwise convolutions ---- */ \
  /* output lines of bytes from input bytes ^ flip and weights less w_zero; w: packed for tile dw8 */ \
  X(depthwise_q8, (const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *columns, uint8_t *y)) \
  /* output lines of float32; w: [taps][c].  Sums begin with the bias (may be NULL).  If g has scales, they \
   * begin with 0, and the bias is added to the scaled sums */ \
  X(depthwise_f32, (const pl_dw_lines *g, const float *w, const float *bias, float low, float high, float *y)) \
  /* output lines of float16: each sum begins with the bias (may be NULL) and is rounded once with each product; up to \
   * PL_HALF_LINES lines in one call, whose input may lie partly outside of the image */ \
  X(depthwise_f16, (const pl_dw_lines *g, const uint16_t *w, const uint16_t *bias, float low, float high, \
                    uint16_t *y)) \
  /* exact sums of int16 for channels c..c+n of an output pixel */ \
  X(depthwise_s64, (const pl_dw_lines *g, ptrdiff_t pixel, ptrdiff_t c, int n, const int16_t *w, int64_t *acc))
#endif
