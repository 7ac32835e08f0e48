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

/* Channels j .. j + LANES, or `part` if that is less, of n output pixels; `kept` taps, any number where that is 0. */
static inline __attribute__((always_inline)) void pixels_f32(int kept, ptrdiff_t part, const sight *s, ptrdiff_t j,
                                                             ptrdiff_t n, ptrdiff_t step, VECTOR bias,
                                                             VECTOR low, VECTOR high, float *y, ptrdiff_t c) {
  const int taps = kept ? kept : s->taps;
  const float *at[16];
  VECTOR w[16];
#pragma GCC unroll 16
  for (int t = 0; t < kept; t++) at[t] = s->at[t] + j, w[t] = load_upto(s->w[t] + j, part);
  ptrdiff_t i = 0;
  for (; !kept && i + 4 <= n; i += 4, y += 4 * c) { /* weights are loaded once for four pixels */
    VECTOR acc[4] = {bias, bias, bias, bias};
    for (int t = 0; t < taps; t++) {
      const VECTOR v = load_upto(s->w[t] + j, part);
      const float *x = s->at[t] + j + i * step;
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) acc[k] = MULTIPLY_ADD(acc[k], load_upto(x + k * step, part), v);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) store_upto(y + k * c, MIN(high, MAX(low, acc[k])), part);
  }
#ifdef FOUR_SUMS
  for (; kept && i + 4 <= n; i += 4, y += 4 * c) { /* sums grow side by side, for cores that wait where they stand */
    VECTOR acc[4] = {bias, bias, bias, bias}, x[4];
#pragma GCC unroll 16
    for (int t = 0; t < kept; t++) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) x[k] = load_upto(at[t] + (i + k) * step, part);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) acc[k] = MULTIPLY_ADD(acc[k], x[k], w[t]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) store_upto(y + k * c, MIN(high, MAX(low, acc[k])), part);
  }
#endif
  for (; i < n; i++, y += c) {
    VECTOR acc = bias;
#pragma GCC unroll 16
    for (int t = 0; t < taps; t++)
      acc = MULTIPLY_ADD(acc, load_upto((kept ? at[t] : s->at[t] + j) + i * step, part),
                         kept ? w[t] : load_upto(s->w[t] + j, part));
    store_upto(y, MIN(high, MAX(low, acc)), part);
  }
}

/* Fewer channels than lanes, stride 1: as many neighbours as fit are done with at once; returns how many pixels. */
static ptrdiff_t neighbours_f32(const sight *s, ptrdiff_t n, const float *bias, float low, float high, float *y,
                                ptrdiff_t c) {
  float lines[16][LANES], start[LANES] = {0};
  const ptrdiff_t together = LANES / c;
  sight wide;
  wide.taps = s->taps;
  if (LANES % c || s->taps > 16 || n < together) return 0;
  for (int t = 0; t < s->taps; t++) {
    wide.at[t] = s->at[t], wide.w[t] = lines[t];
    for (ptrdiff_t j = 0; j < LANES; j++) lines[t][j] = s->w[t][j % c];
  }
  for (ptrdiff_t j = 0; bias && j < LANES; j++) start[j] = bias[j % c];
  if (s->taps == 9)
    pixels_f32(9, LANES, &wide, 0, n / together, LANES, LOAD(start), SPLAT(low), SPLAT(high), y, LANES);
  else
    pixels_f32(0, LANES, &wide, 0, n / together, LANES, LOAD(start), SPLAT(low), SPLAT(high), y, LANES);
  return n / together * together;
}

static void depthwise_f32(const pl_dw_window *g, const float *w, const float *bias, float low, float high, float *y) {
  const ptrdiff_t c = g->c, step = g->stride * c, last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation;
  /* From the first output pixel that sees no pixels beside the image to the first behind it that does. */
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  sight s;
  for (ptrdiff_t at = 0, n; at < g->pixels; at += n) {
    n = at >= begin && at < end ? (end < g->pixels ? end : g->pixels) - at : 1;
    see(g, at, w, &s);
    if (c < LANES && g->stride == 1 && n > 1) {
      const ptrdiff_t done = neighbours_f32(&s, n, bias, low, high, y + at * c, c);
      if (done) {
        n = done;
        continue;
      }
    }
    for (ptrdiff_t b = 0; b * LANES < c; b++) {
      const ptrdiff_t j = pl_block_start(b, LANES, c);
      float *to = y + at * c + j;
      const VECTOR start = bias ? load_upto(bias + j, c) : SPLAT(0.0f);
      if (c < LANES) pixels_f32(0, c, &s, j, n, step, start, SPLAT(low), SPLAT(high), to, c);
      else if (s.taps == 9) pixels_f32(9, LANES, &s, j, n, step, start, SPLAT(low), SPLAT(high), to, c);
      else pixels_f32(0, LANES, &s, j, n, step, start, SPLAT(low), SPLAT(high), to, c);
    }
  }
}
