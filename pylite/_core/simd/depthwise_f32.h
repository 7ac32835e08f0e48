/* The float depthwise convolution, written once over a rung's vectors: see gemm_f32.h for what must be defined. */

/* What output pixels see: tap i of the first of them at[i], each further one `step` behind it, and where its weights
 * are.  Taps outside of the image are left out. */
typedef struct {
  int taps;
  const float *at[PL_MAX_TAPS], *w[PL_MAX_TAPS];
} sight;

static void see(const pl_dw_window *g, ptrdiff_t pixel, const float *w, sight *s) {
  s->taps = 0;
  for (int y = 0; y < g->fh; y++)
    for (int x = 0; x < g->fw; x++) {
      const ptrdiff_t ix = pixel * g->stride - g->pad + (ptrdiff_t)x * g->dilation;
      if (!g->row[y] || ix < 0 || ix >= g->width) continue;
      s->at[s->taps] = (const float *)g->row[y] + ix * g->c;
      s->w[s->taps++] = w + (y * g->fw + x) * g->c;
    }
}

/* Channels j .. j + LANES of n output pixels; KEPT taps, or any number where that is 0. */
static inline __attribute__((always_inline)) void pixels_f32(int kept, const sight *s, ptrdiff_t j, ptrdiff_t n,
                                                             ptrdiff_t step, VECTOR bias, VECTOR low, VECTOR high,
                                                             float *y, ptrdiff_t c) {
  const int taps = kept ? kept : s->taps;
  const float *at[16];
  VECTOR w[16];
#pragma GCC unroll 16
  for (int t = 0; t < kept; t++) at[t] = s->at[t] + j, w[t] = LOAD(s->w[t] + j);
  for (ptrdiff_t i = 0; i < n; i++, y += c) {
    VECTOR acc = bias;
#pragma GCC unroll 16
    for (int t = 0; t < taps; t++)
      acc = MULTIPLY_ADD(acc, LOAD((kept ? at[t] : s->at[t] + j) + i * step), kept ? w[t] : LOAD(s->w[t] + j));
    STORE(y, MIN(high, MAX(low, acc)));
  }
}

static void depthwise_f32(const pl_dw_window *g, const float *w, const float *bias, float low, float high, float *y) {
  const ptrdiff_t c = g->c, step = g->stride * c, last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation;
  /* From the first output pixel that sees no pixels beside the image to the first behind it that does. */
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  sight s;
  for (ptrdiff_t at = 0, n; at < g->pixels; at += n) {
    n = at == begin && end > begin ? (end < g->pixels ? end : g->pixels) - begin : 1;
    see(g, at, w, &s);
    for (ptrdiff_t b = 0; b * LANES < c; b++) {
      const ptrdiff_t j = pl_block_start(b, LANES, c);
      float *to = y + at * c + j;
      if (c < LANES) { /* one channel after the other */
        for (ptrdiff_t i = 0; i < n * c; i++) {
          float sum = bias ? bias[i % c] : 0;
          for (int t = 0; t < s.taps; t++) sum += s.at[t][i / c * step + i % c] * s.w[t][i % c];
          sum = sum < low ? low : sum;
          to[i] = sum > high ? high : sum;
        }
        break;
      }
      const VECTOR start = bias ? LOAD(bias + j) : SPLAT(0.0f);
      if (s.taps == 9) pixels_f32(9, &s, j, n, step, start, SPLAT(low), SPLAT(high), to, c);
      else pixels_f32(0, &s, j, n, step, start, SPLAT(low), SPLAT(high), to, c);
    }
  }
}
