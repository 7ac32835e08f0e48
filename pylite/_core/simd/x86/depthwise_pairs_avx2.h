/* 8-bit depthwise convolutions with strides of 1 and 2, for AVX2; included by depthwise_avx2.c alone.
 *
 * The input under some output lines is copied, a block of 16 channels at a time, with its border.  Two input lines form
 * a pair: their pixels are interleaved as 16-bit numbers, [pair][pixel][half of the block].  Each number is widened
 * once, and one instruction multiplies it and the one below by their weights, and adds the products.  With a stride of
 * 1, two output lines read the same pairs; the upper one begins at the first number of a pair, the lower one at the
 * second.
 *
 * plan_pairs() decides whether and how g is computed in this way, by_pairs() computes it. */
enum {
  MAX_PAIRED_BYTES = 20480, /* bytes of a copy, which stays in the first-level cache with weights and results */
  PAIRED_TAPS = 64,    /* most pairs of weights, of all output lines that are computed together */
  AT_ONCE = 4          /* output pixels that are computed together */
};

/* A block of channels. */
typedef struct {
  __m256i weights[PAIRED_TAPS][2]; /* for up to two output lines: [line][pair][column][half] */
  __m256i zero_point, low, high, flip; /* of q, in all lanes */
  const pl_columns *q;
  ptrdiff_t j;        /* the block's first column in q */
  ptrdiff_t channels; /* that are stored: fewer than 16 at the end of a pixel */
} paired_block;

/* The weights of tap (y, x) for the channels of a half, as the first or the second number of pairs; 0 if the filter has
 * no line y. */
PL_INLINE __m256i weight_of(const int32_t *w, int half, int fw, int fh, int y, int x, int second) {
  if (y < 0 || y >= fh) return _mm256_setzero_si256();
  const int t = y * fw + x;
  const __m256i two = load(w + t / 2 * NR + half * LANES);
  if (second) return t % 2 ? _mm256_slli_epi32(_mm256_srli_epi32(two, 16), 16) : _mm256_slli_epi32(two, 16);
  return t % 2 ? _mm256_srli_epi32(two, 16) : _mm256_srli_epi32(_mm256_slli_epi32(two, 16), 16);
}
/* Sets the weights of b to w, for `lines` output lines that read `pairs` pairs. */
static void pair_weights(const pl_dw_lines *g, const int32_t *w, int lines, int pairs, paired_block *b) {
  int i = 0;
  for (int line = 0; line < lines; line++)
    for (int p = 0; p < pairs; p++)
      for (int x = 0; x < g->fw; x++, i++)
        for (int half = 0; half < 2; half++)
          b->weights[i][half] = _mm256_or_si256(weight_of(w, half, g->fw, g->fh, 2 * p - line, x, 0),
                                                weight_of(w, half, g->fw, g->fh, 2 * p + 1 - line, x, 1));
}

/* n channels of a pixel as 16-bit numbers.  If n < 16, these are the last channels of the pixel. */
PL_INLINE __m256i widened(const uint8_t *x, ptrdiff_t n, __m128i mask) {
  const __m128i lanes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m128i v = _mm_loadu_si128((const __m128i *)(x - (NR - n))); /* so that nothing past the pixel is read */
  if (n < NR) v = _mm_shuffle_epi8(v, _mm_add_epi8(lanes, _mm_set1_epi8((char)(NR - n))));
  return _mm256_cvtepi8_epi16(_mm_xor_si128(v, mask));
}
/* Interleaves a pixel of both lines of a pair; returns the address after it. */
PL_INLINE int16_t *store_pair(__m256i upper, __m256i lower, int16_t *to) {
  _mm256_storeu_si256((__m256i *)to, _mm256_unpacklo_epi16(upper, lower));
  _mm256_storeu_si256((__m256i *)(to + NR), _mm256_unpackhi_epi16(upper, lower));
  return to + 2 * NR;
}
/* Copies n channels from `from` on of pixels first .. first + columns - 1 of two lines, NULL outside the image. */
PL_INLINE void copy_pixels_of_pair(const pl_dw_lines *g, const uint8_t *upper, const uint8_t *lower, ptrdiff_t first,
                                   ptrdiff_t columns, ptrdiff_t from, ptrdiff_t n, __m128i mask, int16_t *to) {
  const ptrdiff_t c = g->c, end = first + columns, inside = end < g->width ? end : g->width;
  const __m256i zero = _mm256_cvtepi8_epi16(_mm_xor_si128(_mm_set1_epi8((char)g->zero[0]), mask));
  ptrdiff_t ix = first;
  for (; ix < 0 && ix < end; ix++) to = store_pair(zero, zero, to);
  const uint8_t *a = upper ? upper + ix * c + from : NULL, *b = lower ? lower + ix * c + from : NULL;
  if (a && b)
    for (; ix < inside; ix++, a += c, b += c) to = store_pair(widened(a, n, mask), widened(b, n, mask), to);
  else if (a)
    for (; ix < inside; ix++, a += c) to = store_pair(widened(a, n, mask), zero, to);
  else if (b)
    for (; ix < inside; ix++, b += c) to = store_pair(zero, widened(b, n, mask), to);
  for (; ix < end; ix++) to = store_pair(zero, zero, to);
}
static __attribute__((noinline)) void copy_pair(const pl_dw_lines *g, const uint8_t *upper, const uint8_t *lower,
                                                ptrdiff_t first, ptrdiff_t columns, ptrdiff_t from, ptrdiff_t n,
                                                __m128i mask, int16_t *to) {
  if (n == NR) copy_pixels_of_pair(g, upper, lower, first, columns, from, NR, mask, to);
  else copy_pixels_of_pair(g, upper, lower, first, columns, from, n, mask, to);
}

/* Distances: in 16-bit numbers, between the inputs of neighbouring outputs, between taps, and between pairs; in bytes,
 * between outputs, and between their lines. */
typedef struct { ptrdiff_t step, tap, pitch, y_step, y_line; } pair_distances;

/* Computes a block of N neighbouring output pixels in each of L output lines.  x: the first pair under them. */
PL_INLINE void paired(int rounding, int L, int N, int fw, int pairs, const int16_t *x, const pair_distances *d,
                      const paired_block *b, uint8_t *y) {
  __m256i half[2][2][AT_ONCE];
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    const __m256i bias = load(b->q->bias + b->j + h * LANES);
    __m256i acc[2][AT_ONCE];
#pragma GCC unroll 2
    for (int l = 0; l < L; l++)
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) acc[l][i] = bias;
    const __m256i(*w)[2] = b->weights;
    for (int p = 0; p < pairs; p++)
      for (int k = 0; k < fw; k++, w++) {
        const int16_t *from = x + p * d->pitch + k * d->tap + h * NR;
        __m256i v[2];
        __asm__("" : "+r"(w)); /* loaded here: registers hold sums */
#pragma GCC unroll 2
        for (int l = 0; l < L; l++) v[l] = w[l * pairs * fw][h];
#pragma GCC unroll 4
        for (int i = 0; i < N; i++) {
          const __m256i two = _mm256_loadu_si256((const __m256i *)(from + i * d->step));
#pragma GCC unroll 2
          for (int l = 0; l < L; l++) {
            acc[l][i] = _mm256_add_epi32(acc[l][i], _mm256_madd_epi16(two, v[l]));
            __asm__("" : "+x"(acc[l][i])); /* else gcc adds the products in pairs first, and lacks registers */
          }
        }
      }
#pragma GCC unroll 2
    for (int l = 0; l < L; l++)
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) half[h][l][i] = requantize(rounding, acc[l][i], b->q, b->j + h * LANES);
  }
#pragma GCC unroll 2
  for (int l = 0; l < L; l++)
#pragma GCC unroll 2
    for (int i = 0; i < N; i += 2) {
      const int last = i + 1 < N ? i + 1 : i;
      const __m256i one = _mm256_packs_epi32(half[0][l][i], half[1][l][i]);
      const __m256i two = _mm256_packs_epi32(half[0][l][last], half[1][l][last]);
      __m256i v = _mm256_packs_epi16(_mm256_adds_epi16(one, b->zero_point), _mm256_adds_epi16(two, b->zero_point));
      v = _mm256_xor_si256(_mm256_max_epi8(_mm256_min_epi8(v, b->high), b->low), b->flip);
      store_lines(last - i + 1, y + l * d->y_line + i * d->y_step, d->y_step, _mm256_permute4x64_epi64(v, 0xD8),
                  b->channels);
    }
}

/* paired() for all pixels of L output lines, AT_ONCE at a time; the last ones may be computed twice. */
PL_INLINE void paired_lines(int rounding, int L, int fw, int pairs, ptrdiff_t pixels, const int16_t *x,
                            const pair_distances *d, const paired_block *b, uint8_t *y) {
  for (ptrdiff_t i = 0; i < pixels;) {
    if (pixels >= AT_ONCE) {
      if (i > pixels - AT_ONCE) i = pixels - AT_ONCE;
      paired(rounding, L, AT_ONCE, fw, pairs, x + i * d->step, d, b, y + i * d->y_step);
      i += AT_ONCE;
    } else {
      paired(rounding, L, 1, fw, pairs, x + i * d->step, d, b, y + i * d->y_step);
      i++;
    }
  }
}
#define PAIRED(name, rounding, L, fw, pairs) \
  static __attribute__((noinline)) void name(const pl_dw_lines *g, ptrdiff_t pixels, const int16_t *x, \
                                             ptrdiff_t pitch, const paired_block *b, uint8_t *y) { \
    const pair_distances d = {g->stride * 2 * NR, g->dilation * 2 * NR, pitch, g->c, g->y_line}; \
    paired_lines(rounding, L, fw, pairs, pixels, x, &d, b, y); \
  }
PAIRED(two_lines_3_relu, FIT_RELU, 2, 3, 2) /* the most frequent ones */
PAIRED(two_lines, FIT, 2, g->fw, (g->fh + 2) / 2)
PAIRED(two_lines_by_rule, BY_RULE, 2, g->fw, (g->fh + 2) / 2)
PAIRED(one_line, FIT, 1, g->fw, (g->fh + 1) / 2)
PAIRED(one_line_by_rule, BY_RULE, 1, g->fw, (g->fh + 1) / 2)
#undef PAIRED
typedef void lines_fn(const pl_dw_lines *, ptrdiff_t, const int16_t *, ptrdiff_t, const paired_block *, uint8_t *);

/* How output lines are computed in pairs: `pixels` of `lines` output lines from one copy; lines is 0 if it is not. */
typedef struct {
  int pairs; /* under an output line, or under two */
  ptrdiff_t pixels, lines;
} pair_plan;

/* Input pixels of a line under some output pixels. */
static ptrdiff_t paired_columns(const pl_dw_lines *g, ptrdiff_t pixels) {
  return (pixels - 1) * g->stride + (ptrdiff_t)(g->fw - 1) * g->dilation + 1;
}
static pair_plan plan_pairs(const pl_dw_lines *g) {
  const int both = g->stride == 1;
  pair_plan plan = {(g->fh + 1 + both) / 2, g->pixels, 0};
  const ptrdiff_t unused = -g->c & (NR - 1); /* channels of the last block */
  if (g->stride > 2 || g->c < NR || g->pixels < AT_ONCE || (1 + both) * plan.pairs * g->fw > PAIRED_TAPS) return plan;
  /* A stride of 2 reads few lines twice, so copying pays only for many taps; wrapped() leaves no channels unused. */
  if ((g->stride == 2 && g->fh * g->fw < 12) || 3 * unused > g->c) return plan;
  const ptrdiff_t bytes = 2 * NR * (ptrdiff_t)sizeof(int16_t); /* of a pair */
  ptrdiff_t held = MAX_PAIRED_BYTES / (paired_columns(g, plan.pixels) * bytes);
  while (held < plan.pairs + 2 && plan.pixels >= 2 * AT_ONCE) {
    plan.pixels = (plan.pixels + 1) / 2;
    held = MAX_PAIRED_BYTES / (paired_columns(g, plan.pixels) * bytes);
  }
  if (held >= plan.pairs) plan.lines = (held - plan.pairs + 1) * (1 + both);
  return plan;
}

/* Computes all output lines.  wraps: are weights packed for wrapped()?  Then the last block of a pixel has fewer
 * channels; else it overlaps the one before. */
static void by_pairs(const pl_dw_lines *g, const pair_plan *plan, int wraps, int flip, const int32_t *w,
                     const pl_columns *q, uint8_t *y) {
  int16_t copy[MAX_PAIRED_BYTES / sizeof(int16_t)];
  const int both = g->stride == 1;
  lines_fn *const one = q->fit ? one_line : one_line_by_rule;
  const int frequent = g->fw == 3 && g->fh == 3 && rounding_of(q) == FIT_RELU;
  lines_fn *const two = frequent ? two_lines_3_relu : q->fit ? two_lines : two_lines_by_rule;
  const ptrdiff_t c = g->c, rows = (g->lines - 1) * g->stride + g->fh, packed = (g->fh * g->fw + 1) / 2 * NR;
  paired_block block;
  block.zero_point = _mm256_set1_epi16((short)q->zero_point);
  block.low = _mm256_set1_epi8((char)q->low);
  block.high = _mm256_set1_epi8((char)q->high);
  block.flip = _mm256_set1_epi8((char)q->flip);
  block.q = q;
  for (ptrdiff_t b = 0; b * NR < c; b++) {
    const ptrdiff_t from = wraps ? b * NR : pl_block_start(b, NR, c), channels = c - from < NR ? c - from : NR;
    block.j = b * NR;
    block.channels = channels;
    pair_weights(g, w + b * packed, 1 + both, plan->pairs, &block);
    for (ptrdiff_t line = 0, lines; line < g->lines; line += lines) {
      lines = g->lines - line < plan->lines ? g->lines - line : plan->lines;
      for (ptrdiff_t pixel = 0, n; pixel < g->pixels; pixel += n) {
        n = g->pixels - pixel < plan->pixels ? g->pixels - pixel : plan->pixels;
        const ptrdiff_t columns = paired_columns(g, n), pitch = columns * 2 * NR, first = line * g->stride;
        const ptrdiff_t pairs = (both ? (lines + 1) / 2 : lines) - 1 + plan->pairs;
        for (ptrdiff_t p = 0; p < pairs; p++) {
          const ptrdiff_t r = first + 2 * p;
          copy_pair(g, r < rows ? g->row[r] : NULL, r + 1 < rows ? g->row[r + 1] : NULL, pixel * g->stride - g->pad,
                    columns, from, channels, _mm_set1_epi8((char)flip), copy + p * pitch);
        }
        uint8_t *to = y + line * g->y_line + pixel * c + from;
        const int16_t *x = copy;
        ptrdiff_t left = lines;
        for (; both && left >= 2; left -= 2, x += pitch, to += 2 * g->y_line) two(g, n, x, pitch, &block, to);
        for (; left; left--, x += pitch, to += g->y_line) one(g, n, x, pitch, &block, to);
      }
    }
  }
}
