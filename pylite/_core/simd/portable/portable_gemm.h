/* Packing, matrix products and depthwise convolutions; included by portable.c alone.
 *
 * A panels are int16, row after row; panels are packed[k][column], of int8, with 8 columns.  Compilers turn the loops
 * over these columns into vectors. */
#include "rounding.h"
#include <string.h>

enum { GEMM_MR = 4, GEMM_NR = 8, F32_MR = 4, F32_NR = 8, DW_NR = 8 };

static uint8_t requantize(int32_t acc, const pl_columns *q, ptrdiff_t j) {
  int32_t v = pl_mul_high(pl_shl32(acc, q->left ? q->left[j] : 0), q->mult[j]);
  v = pl_clamp32(pl_rdbpot(v, q->right[j]), q->low - q->zero_point, q->high - q->zero_point);
  return (uint8_t)((v + q->zero_point) ^ q->flip);
}

static void requantize_q8(int n, const int32_t *acc, const pl_columns *q, ptrdiff_t j, uint8_t *y) {
  for (int i = 0; i < n; i++) y[i] = requantize((int32_t)((uint32_t)acc[i] + (uint32_t)q->bias[j + i]), q, j + i);
}

/* ---- packing of panels, for all tiles ---- */
/* The sum of n bytes ^ flip, as int8. */
PL_INLINE int32_t sum_of_bytes(ptrdiff_t n, const uint8_t *x, int flip) {
  int32_t sum = 0;
  ptrdiff_t k = 0;
#if defined(__AVX2__) /* sums of bytes, each 128 larger; the compiler's loop takes short rows one by one */
  const __m128i larger = _mm_set1_epi8((char)(flip ^ 0x80)), zero = _mm_setzero_si128();
  __m128i total = zero;
  for (; k + 16 <= n; k += 16)
    total = _mm_add_epi64(total, _mm_sad_epu8(_mm_xor_si128(_mm_loadu_si128((const __m128i *)(x + k)), larger), zero));
  sum = _mm_cvtsi128_si32(_mm_add_epi32(total, _mm_unpackhi_epi64(total, total))) - 128 * (int32_t)k;
#endif
  for (; k < n; k++) sum += (int8_t)(x[k] ^ flip);
  return sum;
}
static void pack_b_q8(const pl_tile *t, ptrdiff_t columns, ptrdiff_t depth, const uint8_t *w, int flip, uint8_t *panels,
                      int32_t *sums) {
  const ptrdiff_t kr = t->kr, padded = (depth + t->ka - 1) / t->ka * t->ka, whole = depth / kr;
  for (ptrdiff_t j0 = 0; j0 < columns; j0 += t->nr, panels += t->nr * padded, w += t->nr * depth) {
    const ptrdiff_t n = columns - j0 < t->nr ? columns - j0 : t->nr, row = (n + t->nv - 1) / t->nv * t->nv * kr;
    if (whole) copy_transposed((size_t)kr, (size_t)whole, (size_t)n, w, depth, panels, row);
    if (flip)
      for (ptrdiff_t k = 0; k < whole; k++)
        for (ptrdiff_t i = 0; i < n * kr; i++) panels[k * row + i] ^= (uint8_t)flip;
    for (ptrdiff_t j = 0; j < n; j++) {
      const uint8_t *from = w + j * depth;
      for (ptrdiff_t k = whole * kr; k < depth; k++) panels[whole * row + j * kr + k % kr] = from[k] ^ (uint8_t)flip;
      sums[j0 + j] = sum_of_bytes(depth, from, flip);
    }
  }
}

/* ---- 8 bits: A panels are int16, panels int8 ---- */
static void pack_a_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                      ptrdiff_t depth) {
  for (int r = 0; r < rows; r++) {
    int16_t *to = (int16_t *)a_panel + r * depth;
    ptrdiff_t k = 0;
    for (int s = 0; s < segments; s++, k += length) {
      const uint8_t *from = src[r * segments + s];
      for (ptrdiff_t i = 0; i < length; i++) to[k + i] = (int8_t)(from[i] ^ flip);
    }
    for (; k < depth; k++) to[k] = 0;
  }
}

/* to[i] = x[i] ^ mask for n >= m bytes, m at a time; the last step may overlap the one before. */
PL_INLINE void flip_steps(const ptrdiff_t m, ptrdiff_t n, const uint8_t *x, uint8_t mask, uint8_t *to) {
  for (ptrdiff_t i = 0; i < n; i += m) {
    const ptrdiff_t start = i + m <= n ? i : n - m;
    for (ptrdiff_t k = 0; k < m; k++) to[start + k] = x[start + k] ^ mask;
  }
}
static void pack_lines_q8(ptrdiff_t lines, ptrdiff_t before, ptrdiff_t inside, ptrdiff_t after, const uint8_t *x,
                          ptrdiff_t x_line, int mask, int border, uint8_t *to, ptrdiff_t pitch) {
  for (; lines > 0; lines--, x += x_line, to += pitch) {
    pl_fill(to, border, before);
    if (inside >= 64) flip_steps(64, inside, x, (uint8_t)mask, to + before);
    else if (inside >= 8) flip_steps(8, inside, x, (uint8_t)mask, to + before);
    else flip_steps(1, inside, x, (uint8_t)mask, to + before);
    pl_fill(to + before + inside, border, after);
  }
}

static void sums_q8(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums) {
  for (int r = 0; r < rows; r++) {
    const int16_t *a = (const int16_t *)a_panel + r * layout->step;
    int32_t sum = 0;
    for (int line = 0; line < layout->lines; line++, a += layout->pitch)
      for (ptrdiff_t k = 0; k < length; k++) sum += a[k];
    sums[r] = sum;
  }
}

PL_INLINE void product_row(const pl_a_layout *layout, const int16_t *a, const int8_t *w, int32_t acc[GEMM_NR]) {
  for (int line = 0; line < layout->lines; line++, a += layout->pitch)
    for (ptrdiff_t k = 0; k < layout->depth; k++, w += GEMM_NR)
      PL_UNROLL for (int j = 0; j < GEMM_NR; j++) acc[j] += a[k] * w[j];
}

static void gemm_s32(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  for (int r = 0; r < rows; r++) {
    int32_t sum[GEMM_NR] = {0};
    product_row(layout, (const int16_t *)a_panel + r * layout->step, panel, sum);
    for (int j = 0; j < n; j++) acc[r * lda + j] = (int32_t)((uint32_t)acc[r * lda + j] + (uint32_t)sum[j]);
  }
}

static void gemm_q8(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel,
                    const int32_t *terms, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  for (int r = 0; r < rows; r++) {
    int32_t sum[GEMM_NR];
    for (int i = 0; i < GEMM_NR; i++) sum[i] = terms ? terms[r] : 0;
    product_row(layout, (const int16_t *)a_panel + r * layout->step, panel, sum);
    requantize_q8(n, sum, q, j, y + r * ldy);
  }
}

/* ---- float ---- */
static void gemm_panel_f32(int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first,
                           int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  for (int r = 0; r < rows; r++, a += layout->step, y += ldy) {
    const float *row = a, *w = panel;
    float acc[F32_NR] = {0};
    if (!(first & 1)) memcpy(acc, y, n * sizeof *y);
    for (int line = 0; line < layout->lines; line++, row += layout->pitch)
      for (ptrdiff_t k = 0; k < layout->depth; k++, w += F32_NR)
        PL_UNROLL for (int j = 0; j < F32_NR; j++) acc[j] += row[k] * w[j];
    if (last)
      for (int j = 0; j < n; j++) acc[j] = pl_clampf(acc[j] + (bias ? bias[j] : 0), low, high);
    memcpy(y, acc, n * sizeof *y);
  }
}
static void gemm_f32(int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first,
                     int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  const ptrdiff_t size = layout->lines * layout->depth * F32_NR;
  for (; n > F32_NR; n -= F32_NR, panel += size, y += F32_NR, bias = bias ? bias + F32_NR : NULL)
    gemm_panel_f32(rows, F32_NR, layout, a, panel, first, last, bias, low, high, y, ldy);
  gemm_panel_f32(rows, n, layout, a, panel, first, last, bias, low, high, y, ldy);
}

/* ---- Winograd's convolution ---- */
#define VECTOR float
#define LANES 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define LOAD_FIRST(p, n) (*(p))
#define STORE_FIRST(p, v, n) (*(p) = (v))
#define SPLAT(v) (v)
#define ADD(a, b) ((a) + (b))
#define SUBTRACT(a, b) ((a) - (b))
#define MULTIPLY(a, b) ((a) * (b))
#define MIN(bound, v) ((v) > (bound) ? (bound) : (v))
#define MAX(bound, v) ((v) < (bound) ? (bound) : (v))
#include "winograd_f32.h"
#undef VECTOR
#undef LANES
#undef LOAD
#undef STORE
#undef LOAD_FIRST
#undef STORE_FIRST
#undef SPLAT
#undef ADD
#undef SUBTRACT
#undef MULTIPLY
#undef MIN
#undef MAX

/* ---- depthwise ---- */
static void depthwise_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS];
  const int taps = g->fh * g->fw, nr = g->c < DW_NR ? (int)g->c : DW_NR;
  const ptrdiff_t blocks = (g->c + DW_NR - 1) / DW_NR;
  (void)w_zero; /* subtracted already while packing, to weights of 16 bits */
  for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel++, y += g->c) {
    pl_taps(g, pixel, 1, p);
    for (ptrdiff_t b = 0; b < blocks; b++) {
      const int16_t *wb = (const int16_t *)w + b * taps * DW_NR;
      const ptrdiff_t c = pl_block_start(b, DW_NR, g->c);
      int32_t acc[DW_NR] = {0};
      if (nr == DW_NR)
        for (int t = 0; t < taps; t++)
          PL_UNROLL for (int j = 0; j < DW_NR; j++) acc[j] += (int8_t)(p[t][c + j] ^ flip) * wb[t * DW_NR + j];
      else
        for (int t = 0; t < taps; t++)
          for (int j = 0; j < nr; j++) acc[j] += (int8_t)(p[t][c + j] ^ flip) * wb[t * DW_NR + j];
      requantize_q8(nr, acc, q, b * DW_NR, y + c);
    }
  }
}

static void depthwise_f32(const pl_dw_lines *g, const float *w, const float *bias, float low, float high, float *y) {
  const float *scale = g->scale;
  const uint8_t *p[PL_MAX_TAPS];
  const int taps = g->fh * g->fw;
  enum { N = 16 };
  const ptrdiff_t pixel = g->channels, next_line = g->y_line - (g->pixels - 1) * pixel;
  for (ptrdiff_t i = 0; i < g->lines * g->pixels; i++, y += i % g->pixels ? pixel : next_line) {
    pl_dw_lines line = *g;
    line.row += i / g->pixels * g->stride;
    pl_taps(&line, i % g->pixels, sizeof(float), p);
    ptrdiff_t c = 0;
    for (; c + N <= g->c; c += N) {
      float acc[N] = {0};
      for (int t = 0; t < taps; t++) {
        const float *x = (const float *)p[t] + c, *v = w + t * pixel + c;
        PL_UNROLL for (int j = 0; j < N; j++) acc[j] += x[j] * v[j];
      }
      for (int j = 0; scale && j < N; j++) acc[j] *= scale[c + j];
      for (int j = 0; j < N; j++) y[c + j] = pl_clampf(acc[j] + (bias ? bias[c + j] : 0), low, high);
    }
    for (; c < g->c; c++) {
      float v = 0;
      for (int t = 0; t < taps; t++) v += ((const float *)p[t])[c] * w[t * pixel + c];
      if (scale) v *= scale[c];
      y[c] = pl_clampf(v + (bias ? bias[c] : 0), low, high);
    }
  }
}

static void depthwise_s64(const pl_dw_lines *g, ptrdiff_t pixel, ptrdiff_t c, int n, const int16_t *w, int64_t *acc) {
  const uint8_t *p[PL_MAX_TAPS];
  enum { N = 32, SUMS = 256 }; /* SUMS: most products of 16 by 8 bits whose sum has 32 bits */
  const int taps = g->fh * g->fw;
  pl_taps(g, pixel, sizeof(int16_t), p);
  for (int j = 0; j < n; j++) acc[j] = 0;
  for (int first = 0; first < taps; first += SUMS) {
    const int end = taps - first < SUMS ? taps : first + SUMS;
    for (ptrdiff_t j = 0, m; j < n; j += m) {
      int32_t sum[N] = {0};
      m = n - j < N ? n - j : N;
      for (int t = first; t < end; t++) {
        const int16_t *x = (const int16_t *)p[t] + c + j, *v = w + t * g->c + c + j;
        if (m == N)
          PL_UNROLL for (int i = 0; i < N; i++) sum[i] += x[i] * v[i];
        else
          for (int i = 0; i < m; i++) sum[i] += x[i] * v[i];
      }
      for (int i = 0; i < m; i++) acc[j + i] += sum[i];
    }
  }
}

static void find_small(ptrdiff_t n, ptrdiff_t bytes, const uint8_t *panels, int32_t *small) {
  for (ptrdiff_t i = 0; i < n; i++) small[i] = !memchr(panels + i * bytes, 0x80, (size_t)bytes);
}

static const pl_tile tile_q8 = {.mr = GEMM_MR, .nr = GEMM_NR, .nv = GEMM_NR, .kr = 1, .ka = 1, .bytes = 2};
static const pl_tile tile_f32 = {.mr = F32_MR, .nr = F32_NR, .nv = F32_NR, .kr = 1, .ka = 1, .bytes = 4};
static const pl_tile tile_dw8 = {.mr = 1, .nr = DW_NR, .nv = DW_NR, .kr = 1, .ka = 1, .bytes = 2};

PL_LOOSE_BEGIN
/* 64 partial sums: with a single one, the additions would take longer than reading the weights. */
static void dots_f32(ptrdiff_t n, ptrdiff_t depth, const float *a, const float *w, ptrdiff_t pitch, float *y) {
  for (ptrdiff_t j = 0; j < n; j++, w += pitch) {
    float part[64] = {0}, total = 0;
    ptrdiff_t i = 0;
    for (; i + 64 <= depth; i += 64)
      for (int k = 0; k < 64; k++) part[k] = PL_FMA(a[i + k], w[i + k], part[k]);
    for (; i + 16 <= depth; i += 16)
      for (int k = 0; k < 16; k++) part[k] = PL_FMA(a[i + k], w[i + k], part[k]);
    for (int half = 32; half >= 4; half /= 2)
      for (int k = 0; k < half; k++) part[k] += part[k + half];
    for (; i < depth; i++) total += a[i] * w[i];
    y[j] = total + (part[0] + part[1]) + (part[2] + part[3]);
  }
}
PL_LOOSE_END
