/* The functions of sequential and rare ops: each computes rows begin .. end - 1; included by scanning.pyx alone.
 *
 * Helpers come first, then the row functions, ROWS(name), and their list.  The file is longer than others because that
 * list names all of them. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "rounding.h"
#include "simd.h"

/* The arguments of a row function.  p: arrays; n: integers; f: reals; the comment above each function lists its own,
 * and pl_row_functions their numbers.  status: 0, or an error of scanning.RowFunction.ERRORS. */
enum { PL_MAX_ARRAYS = 6, PL_MAX_NUMBERS = 6, PL_MAX_REALS = 3 };
typedef struct {
  const pl_slots *slots;
  void *p[PL_MAX_ARRAYS];
  int64_t n[PL_MAX_NUMBERS];
  double f[PL_MAX_REALS];
  int status;
} pl_row_arguments;
#define ROWS(name) static void name(pl_row_arguments *t, ptrdiff_t begin, ptrdiff_t end)
#define P(T, i) ((T *)t->p[i])
#if defined(__GNUC__) && !defined(__clang__)
#define PL_FAST __attribute__((optimize("O2", "tree-vectorize"))) /* the module is compiled for size */
#define PL_UNROLL _Pragma("GCC unroll 16")
#else
#define PL_FAST
#define PL_UNROLL
#endif

/* The types that row functions distinguish; scanning.pyx looks up their numbers by name. */
#define PL_TYPES(X) \
  X(float32, float) X(int8, int8_t) X(uint8, uint8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t)
#define X(name, T) PL_##name,
enum { PL_TYPES(X) };
#undef X
#define X(name, T) #name,
static const char *const pl_type_names[] = {PL_TYPES(X) 0};
#undef X

/* ---- CUMSUM ---- */
/* y[i] = x[0] + ... + x[i] for n elements, `step` numbers apart, negative to sum in reverse, in rows that are `apart`
 * numbers apart.  Each sum waits for the one before, so several rows are summed at once: many, side by side, as
 * vectors; else four, because rows of 2^k bytes share few lines of the cache. */
enum { PL_MIN_VECTOR_ROWS = 16, PL_FEW_ROWS = 4 };
#define CUMSUM(name, T) \
  PL_INLINE void name##_rows(size_t rows, ptrdiff_t apart, size_t n, ptrdiff_t step, const T *restrict x, \
                             T *restrict y) { \
    T sums[PL_FEW_ROWS] = {0}; \
    for (size_t i = 0; i < n; i++, x += step, y += step) { \
      PL_UNROLL \
      for (size_t r = 0; r < rows; r++) y[(ptrdiff_t)r * apart] = sums[r] += x[(ptrdiff_t)r * apart]; \
    } \
  } \
  PL_FAST static void name##_near(size_t rows, const T *restrict before, const T *restrict x, T *restrict y) { \
    for (size_t r = 0; r < rows; r++) y[r] = before[r] + x[r]; \
  } \
  PL_FAST static void name(size_t rows, ptrdiff_t apart, size_t n, ptrdiff_t step, const T *x, T *y) { \
    if (apart == 1 && rows >= PL_MIN_VECTOR_ROWS) { \
      if (n) memcpy(y, x, rows * sizeof(T)); \
      for (; n > 1; n--, y += step) name##_near(rows, y, x += step, y + step); \
      return; \
    } \
    for (; rows >= PL_FEW_ROWS; rows -= PL_FEW_ROWS, x += PL_FEW_ROWS * apart, y += PL_FEW_ROWS * apart) \
      name##_rows(PL_FEW_ROWS, apart, n, step, x, y); \
    for (; rows; rows--, x += apart, y += apart) name##_rows(1, apart, n, step, x, y); \
  }
CUMSUM(pl_cumsum_f32, float)
CUMSUM(pl_cumsum_u32, uint32_t)
CUMSUM(pl_cumsum_u64, uint64_t)
#undef CUMSUM
static void pl_cumsum(int type, size_t rows, ptrdiff_t apart, size_t n, ptrdiff_t step, const void *x, void *y) {
  if (type == PL_float32) pl_cumsum_f32(rows, apart, n, step, x, y);
  else if (type == PL_int32) pl_cumsum_u32(rows, apart, n, step, x, y);
  else pl_cumsum_u64(rows, apart, n, step, x, y);
}

/* A key for element i: keys compare as the elements do, and equal elements have equal keys.  NaN is lowest. */
PL_FAST PL_INLINE int64_t pl_key(int type, const void *x, size_t i) {
  switch (type) {
    case PL_float32: {
      float f = ((const float *)x)[i] + 0.0f; /* -0 becomes 0 */
      int32_t bits;
      if (f != f) return INT64_MIN;
      memcpy(&bits, &f, 4);
      return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
    }
    case PL_int8: return ((const int8_t *)x)[i];
    case PL_uint8: return ((const uint8_t *)x)[i];
    case PL_int16: return ((const int16_t *)x)[i];
    case PL_int32: return ((const int32_t *)x)[i];
    default: return ((const int64_t *)x)[i];
  }
}

/* ---- TOPK_V2 ---- */
/* Elements are ranked by their key and, if it is equal, by their index, the first one higher.  Keys of types of up to
 * 32 bits share an int64 with the index; NaN has the lowest int32, which no other float has. */
typedef struct { int64_t key, index; } pl_ranked;
PL_FAST static int64_t pl_rank(int type, const void *x, size_t i) {
  const int64_t key = pl_key(type, x, i);
  return (int64_t)((uint64_t)(key < INT32_MIN ? INT32_MIN : key) << 32 | (UINT32_MAX - (uint32_t)i));
}
PL_FAST static pl_ranked pl_rank_64(int type, const void *x, size_t i) {
  return (pl_ranked){pl_key(type, x, i), (int64_t)i};
}
#define RANK_INDEX(rank) (int64_t)(UINT32_MAX - (uint32_t)(rank))
#define RANK_INDEX_64(rank) (rank).index
/* Is rank a lower than b? */
#define RANK_LOWER(a, b) ((a) < (b))
#define RANK_LOWER_64(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index > (b).index))
/* The first index from i on whose element exceeds x[least], or is not comparable with it (NaN); n if there is none. */
#define PL_NEXT(T) { \
    const T *v = x; \
    const T bound = v[least]; \
    while (i < n && v[i] <= bound) i++; \
    return i; \
  }
PL_FAST static size_t pl_next_above(int type, size_t n, size_t i, size_t least, const void *x) {
  switch (type) {
#define X(name, T) case PL_##name: PL_NEXT(T)
    PL_TYPES(X)
#undef X
    default: return n;
  }
}
#define TOP_K(name, RANK, RANKED, LOWER, INDEX) \
  /* replaces the first entry of a heap, which is lower than all others, by v */ \
  PL_FAST static void name##_sift(RANK *heap, size_t n, RANK v) { \
    size_t node = 0; \
    for (size_t child; (child = 2 * node + 1) < n; node = child) { \
      const size_t other = child + (child + 1 < n); \
      child = LOWER(heap[other], heap[child]) ? other : child; /* without a branch, which would be mispredicted */ \
      if (!LOWER(heap[child], v)) break; \
      heap[node] = heap[child]; \
    } \
    heap[node] = v; \
  } \
  /* index[:k] = the indices of the k largest of n elements, in descending order; heap: k ranks, whose memory may be \
   * that of index */ \
  PL_FAST static void name(int type, size_t n, size_t k, const void *x, RANK *heap, int64_t *index) { \
    size_t count = 0; \
    for (size_t i = 0; i < n && k; i++) { \
      if (count == k && (i = pl_next_above(type, n, i, (size_t)INDEX(heap[0]), x)) == n) break; \
      const RANK v = RANKED(type, x, i); \
      if (count < k) { \
        size_t node = count++; \
        for (; node && LOWER(v, heap[(node - 1) / 2]); node = (node - 1) / 2) heap[node] = heap[(node - 1) / 2]; \
        heap[node] = v; \
      } else if (LOWER(heap[0], v)) { \
        name##_sift(heap, k, v); \
      } \
    } \
    while (count > 1) { \
      const RANK last = heap[--count], first = heap[0]; \
      name##_sift(heap, count, last); \
      heap[count] = first; \
    } \
    for (size_t i = 0; i < k; i++) index[i] = INDEX(heap[i]); \
  }
TOP_K(pl_top_k, int64_t, pl_rank, RANK_LOWER, RANK_INDEX)
TOP_K(pl_top_k_64, pl_ranked, pl_rank_64, RANK_LOWER_64, RANK_INDEX_64)
/* order = the indices of n elements in descending order, for short rows: an element's place is the number of elements
 * above it, which takes no branches.  Of equal elements the first is above the others.  Not for int64. */
enum { PL_COUNTED = 64 };
typedef int32_t pl_keys __attribute__((vector_size(16)));
PL_FAST static void pl_order(int type, size_t n, const void *x, int64_t *order) {
  int32_t key[PL_COUNTED], above[PL_COUNTED];
  if (n == 1) {
    order[0] = 0;
    return;
  }
  switch (type) {
#define X(name, T) \
  case PL_##name: \
    for (size_t i = 0; i < n; i++) { \
      const int64_t wide = pl_key(PL_##name, x, i); \
      key[i] = (int32_t)(wide < INT32_MIN ? INT32_MIN : wide); \
    } \
    break;
    PL_TYPES(X)
#undef X
  }
  if (n < 4) { /* too few for vectors */
    for (size_t i = 0; i < n; i++) above[i] = 0;
    for (size_t i = 0; i < n; i++) {
      for (size_t j = i + 1; j < n; j++) {
        const int32_t rises = key[j] > key[i];
        above[i] += rises;
        above[j] += 1 - rises;
      }
      order[above[i]] = (int64_t)i;
    }
    return;
  }
  for (size_t i = n; i % 4; i++) key[i] = 0;
  for (size_t i = 0; i < n; i += 4) {
    const pl_keys own = {key[i], key[i + 1], key[i + 2], key[i + 3]}; /* loaded at once, these would wait for stores */
    pl_keys higher = {0}, behind = {0, 1, 2, 3}; /* how far after element j each one is */
    behind += (int32_t)i;
    for (size_t j = 0; j < n; j++) {
      const pl_keys other = (pl_keys){0} + key[j];
      higher -= (other > own) | ((other == own) & (behind > 0)); /* comparisons are -1 where they hold */
      behind -= 1;
    }
    memcpy(above + i, &higher, sizeof higher);
  }
  for (size_t i = 0; i < n; i++) order[above[i]] = (int64_t)i;
}

/* ---- random bits: Philox 4x32 with 10 rounds, Threefry 2x32 with 20 (Salmon et al., 2011) ---- */
PL_FAST PL_INLINE void pl_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k0 = key[0], k1 = key[1], c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  PL_UNROLL
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0, c1 = (uint32_t)b;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1, c3 = (uint32_t)a;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}
PL_FAST PL_INLINE void pl_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]) {
  static const uint8_t turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  uint32_t a = counter[0] + keys[0], b = counter[1] + keys[1];
  PL_UNROLL
  for (int group = 1; group < 6; group++) {
    PL_UNROLL
    for (int i = 0; i < 4; i++) {
      const int turn = turns[(group - 1) % 2 * 4 + i];
      a += b;
      b = (b << turn | b >> (32 - turn)) ^ a;
    }
    a += keys[group % 3];
    b += keys[(group + 1) % 3] + (uint32_t)group;
  }
  out[0] = a;
  out[1] = b;
}
/* counter += count, in 128 bits */
PL_FAST PL_INLINE void pl_skip(uint32_t counter[4], uint64_t count) {
  for (int i = 0; i < 4; i++) {
    uint64_t sum = counter[i] + (count & 0xFFFFFFFFu);
    counter[i] = (uint32_t)sum;
    count = (count >> 32) + (sum >> 32);
  }
}
/* Uniform numbers in [0, 1), from 23 and 52 random bits. */
static float pl_unit_f32(uint32_t bits) {
  float f;
  bits = (bits & 0x7FFFFF) | 127u << 23;
  memcpy(&f, &bits, 4);
  return f - 1.0f;
}
static double pl_unit_f64(uint32_t high, uint32_t low) {
  double d;
  uint64_t bits = (uint64_t)(high & 0xFFFFF) << 32 | low | (uint64_t)1023 << 52;
  memcpy(&d, &bits, 8);
  return d - 1.0;
}
/* Two standard normal numbers from two words of random bits, by Box and Muller. */
static void pl_normal(uint32_t a, uint32_t b, float out[2]) {
  float u = pl_unit_f32(a), v = (float)(2.0 * 3.14159265358979323846 * pl_unit_f32(b));
  float r = sqrtf(-2.0f * logf(u < 1e-7f ? 1e-7f : u));
  out[0] = sinf(v) * r;
  out[1] = cosf(v) * r;
}

/* ---- the row functions ---- */
/* p: x, y; n: type, length, inner, exclusive, reverse, bytes of an element */
ROWS(cumsum) {
  const int64_t length = t->n[1], inner = t->n[2], exclusive = t->n[3] != 0, reverse = t->n[4], item = t->n[5];
  const int64_t size = length * inner, step = reverse ? -inner : inner;
  const ptrdiff_t rows = inner == 1 ? end - begin : inner, apart = inner == 1 ? length : 1;
  for (; length && begin < end; begin += inner == 1 ? rows : 1) {
    const ptrdiff_t offset = (begin * size + (reverse ? size - inner : 0)) * item;
    char *const x = P(char, 0) + offset, *y = P(char, 1) + offset;
    if (exclusive) { /* without x[i]: 0, then the sums of all elements but the last */
      for (ptrdiff_t r = 0; r < (inner == 1 ? rows : 1); r++) memset(y + r * length * item, 0, (size_t)(inner * item));
      y += step * item;
    }
    pl_cumsum((int)t->n[0], (size_t)rows, apart, (size_t)(length - exclusive), step, x, y);
  }
}
/* p: x, values, indices, heap of k, or NULL if k is at most PL_FEW; n: type, length, k, bytes of an element, of an
 * index */
enum { PL_FEW = 16 };
ROWS(top_k) {
  const int type = (int)t->n[0];
  const int64_t n = t->n[1], k = t->n[2], item = t->n[3], index_item = t->n[4];
  pl_ranked few[PL_FEW], *heap = k <= PL_FEW ? few : P(pl_ranked, 3);
  const int counted = n <= PL_COUNTED && n <= 4 * k && type != PL_int64;
  int64_t order[PL_COUNTED], *index = counted ? order : (int64_t *)heap;
  for (ptrdiff_t row = begin; row < end; row++) {
    const char *x = P(char, 0) + row * n * item;
    char *y = P(char, 1) + row * k * item;
    if (counted) pl_order(type, (size_t)n, x, index);
    else if (type == PL_int64) pl_top_k_64(type, (size_t)n, (size_t)k, x, heap, index);
    else pl_top_k(type, (size_t)n, (size_t)k, x, index, index);
    for (ptrdiff_t i = 0; i < k; i++) {
      if (item == 4) memcpy(y + 4 * i, x + 4 * index[i], 4);
      else if (item == 1) y[i] = x[index[i]];
      else if (item == 2) memcpy(y + 2 * i, x + 2 * index[i], 2);
      else memcpy(y + i * item, x + index[i] * item, (size_t)item);
      if (index_item == 2) P(int16_t, 2)[row * k + i] = (int16_t)index[i];
      else P(int32_t, 2)[row * k + i] = (int32_t)index[i];
    }
  }
}
/* y[c] = the sum of the squares of channels c - radius to c + radius. */
PL_FAST static void pl_near_squares(ptrdiff_t n, ptrdiff_t radius, const float *restrict x, float *restrict y) {
  memset(y, 0, (size_t)n * sizeof *y);
  for (ptrdiff_t i = -radius; i <= radius; i++)
    for (ptrdiff_t c = i < 0 ? -i : 0; c < (i < 0 ? n : n - i); c++) y[c] += x[c + i] * x[c + i];
}
/* y = x y, or a y + b if x is NULL. */
PL_FAST static void pl_each(size_t n, const float *restrict x, float a, float b, float *restrict y) {
  if (x)
    for (size_t i = 0; i < n; i++) y[i] *= x[i];
  else
    for (size_t i = 0; i < n; i++) y[i] = a * y[i] + b;
}
/* y = x (bias + alpha s)^-beta, s being the sum of squares; computed as an exponential of logarithms.
 * p: x, y; n: channels, radius; f: bias, alpha, beta */
ROWS(local_response) {
  const ptrdiff_t n = t->n[0], radius = t->n[1] < n ? t->n[1] : n - 1;
  const float beta = -(float)t->f[2];
  const ptrdiff_t block = 1 + 1024 / n; /* rows at once */
  for (ptrdiff_t rows; begin < end; begin += rows) {
    rows = end - begin < block ? end - begin : block;
    const float *x = P(float, 0) + begin * n;
    float *y = P(float, 1) + begin * n;
    const size_t all = (size_t)(rows * n);
    for (size_t i = 0; i < all; i += (size_t)n) pl_near_squares(n, radius, x + i, y + i);
    pl_each(all, NULL, (float)t->f[1], (float)t->f[0], y);
    t->slots->log_f32(all, y, y, x);
    pl_each(all, NULL, beta, 0, y);
    t->slots->exp_f32(all, y, y, x);
    pl_each(all, x, 1, 0, y);
  }
}
/* copy_strided() for elements of any size, with the longer one of both loops inside. */
static void pl_sequence(const pl_slots *slots, int64_t item, int64_t rows, int64_t cols, const uint8_t *x,
                        ptrdiff_t xrow, ptrdiff_t xcol, uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol) {
  if (rows > cols) {
    pl_sequence(slots, item, cols, rows, x, xcol, xrow, y, ycol, yrow);
  } else if (item <= 16 && (item & (item - 1)) == 0) {
    slots->copy_strided((size_t)item, (size_t)rows, (size_t)cols, x, xrow, xcol, y, yrow, ycol);
  } else {
    for (; rows > 0; rows--, x += xrow, y += yrow) slots->copy_runs((size_t)cols, (size_t)item, x, xcol, y, ycol);
  }
}
/* y[o, p, m, q] = x with its first lengths[b] elements reversed along the axis p or q, b being the index along the
 * other;
 * p: x, lengths, y; n: sizes of p, m and q, bytes of an element, is p the reversed axis?, bytes of a length */
ROWS(reverse_sequence) {
  const int64_t ps = t->n[0], ms = t->n[1], qs = t->n[2], item = t->n[3], along_p = t->n[4], length_item = t->n[5];
  const int64_t line = qs * item, batches = along_p ? qs : ps, size = along_p ? ps : qs;
  const int64_t next = along_p ? item : ms * line, step = along_p ? ms * line : item; /* bytes along the two axes */
  for (ptrdiff_t o = begin; o < end; o++)
    for (int64_t b = 0; b < batches; b++) {
      const int64_t length = length_item == 4 ? P(int32_t, 1)[b] : P(int64_t, 1)[b], at = o * ps * ms * line + b * next;
      if (length < 0 || length > size) {
        t->status = 1;
        return;
      }
      const uint8_t *x = P(uint8_t, 0) + at;
      uint8_t *y = P(uint8_t, 2) + at;
      pl_sequence(t->slots, item, ms, length, x + (length - 1) * step, line, -step, y, line, step);
      x += length * step, y += length * step;
      if (along_p) pl_sequence(t->slots, item, ms, size - length, x, line, step, y, line, step);
      else t->slots->copy_runs((size_t)ms, (size_t)((size - length) * item), x, line, y, line);
    }
}
/* Broadcasts the shape y with the shape x, in place; p: x, y; n: bytes of a size */
ROWS(broadcast_sizes) {
  const int64_t item = t->n[0];
  for (ptrdiff_t i = begin; i < end; i++) {
    const int64_t a = item == 4 ? P(int32_t, 0)[i] : P(int64_t, 0)[i];
    const int64_t b = item == 4 ? P(int32_t, 1)[i] : P(int64_t, 1)[i];
    if (b == 1) memcpy(P(char, 1) + i * item, P(char, 0) + i * item, (size_t)item);
    else if (a != 1 && a != b) t->status = 2;
  }
}
/* Random float32, uniform in [0, 1) or standard normal; p: key and counter, y; n: elements of y, are they normal? */
PL_FAST ROWS(uniform) {
  uint32_t *state = P(uint32_t, 0), bits[4];
  float *y = P(float, 1), pair[2];
  const int64_t n = t->n[0], normal = t->n[1];
  for (ptrdiff_t i = 0; i < n; i += 4) {
    pl_philox(state, state + 2, bits);
    pl_skip(state + 2, 1);
    for (int j = 0; j < 4 && i + j < n; j++) {
      if (normal && j % 2 == 0) pl_normal(bits[j], bits[j + 1], pair);
      y[i + j] = normal ? pair[j % 2] : pl_unit_f32(bits[j]);
    }
  }
}
/* Draws classes with probabilities proportional to exp(logits);
 * p: key and counter, logits, y, scratch of one double per class; n: batches, classes, samples, is y int64? */
ROWS(multinomial) {
  uint32_t *state = P(uint32_t, 0), counter[4], bits[4];
  const float *logits = P(float, 1);
  double *sums = P(double, 3);
  const int64_t batches = t->n[0], classes = t->n[1], samples = t->n[2], is_int64 = t->n[3];
  int used = 4;
  memcpy(counter, state + 2, sizeof counter);
  pl_skip(state + 2, (uint64_t)batches * (uint64_t)((samples + 3) / 4 * 4) * 2 * 256);
  for (int64_t b = 0; b < batches; b++, logits += classes) {
    double most = -3.4028234663852886e38, total = 0;
    for (int64_t i = 0; i < classes; i++)
      if (isfinite(logits[i]) && logits[i] > most) most = logits[i];
    for (int64_t i = 0; i < classes; i++) {
      if (isfinite(logits[i])) total += exp(logits[i] - most);
      sums[i] = total;
    }
    for (int64_t i = 0; i < samples; i++, used += 2) {
      if (used == 4) {
        pl_philox(state, counter, bits);
        pl_skip(counter, 1);
        used = 0;
      }
      const double wanted = pl_unit_f64(bits[used], bits[used + 1]) * total;
      int64_t low = 0, high = classes;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (wanted < sums[middle]) high = middle;
        else low = middle + 1;
      }
      if (is_int64) P(int64_t, 2)[b * samples + i] = low;
      else P(int32_t, 2)[b * samples + i] = (int32_t)low;
    }
  }
}
/* Random bits; p: state, next state, bits; n: uint32 of a state (4 or 6), uint32 of bits, 1 for Threefry or 0 for
 * Philox */
PL_FAST ROWS(random_bits) {
  uint32_t *state = P(uint32_t, 0), *later = P(uint32_t, 1), out[4];
  const int64_t words = t->n[0], n = t->n[1], threefry = t->n[2];
  const int upper = words == 6 ? 4 : 0, width = threefry ? 2 : 4;
  uint32_t key[2] = {state[0], state[1]}, counter[4] = {state[2], state[3], state[upper], state[upper + 1]};
  memcpy(later, state, (size_t)words * 4);
  for (int64_t i = 0; i < n; i += width) {
    if (threefry) pl_threefry(key, counter, out);
    else pl_philox(key, counter, out);
    for (int j = 0; j < width && i + j < n; j++) P(uint32_t, 2)[i + j] = out[j];
    if (++counter[0] == 0) counter[1]++;
  }
  later[2] = counter[0];
  later[3] = counter[1];
}
/* Finds the distinct elements of x, in the order of their first occurrence; no NaN equals another.
 * p: x; scratch for a hash table, int32 (n[1]); scratch for the indices of distinct elements, int32; for each element
 * of x the index of its distinct element, int32 or int64; their number, int64; the distinct elements.
 * n: elements of x, size of the hash table (a power of two above n[0]), type, bytes of an element, bytes of an index,
 * a random number, so that no input is known to make all searches long */
ROWS(unique) {
  const int64_t n = t->n[0], last = t->n[1] - 1, index_item = t->n[4], random = t->n[5];
  const int type = (int)t->n[2];
  const size_t item = (size_t)t->n[3];
  int32_t *slots = P(int32_t, 1), *places = P(int32_t, 2), count = 0;
  (void)begin, (void)end;
  memset(slots, 0xFF, (size_t)(last + 1) * 4);
  for (int64_t i = 0; i < n; i++) {
    const int64_t key = pl_key(type, t->p[0], (size_t)i);
    const int nan = type == PL_float32 && P(float, 0)[i] != P(float, 0)[i];
    uint64_t hash = ((uint64_t)key ^ (uint64_t)random) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    int64_t slot = (int64_t)(hash >> 32) & last;
    int32_t which = count;
    if (!nan) { /* a NaN is not entered in the table, where many equal keys would make each search take n steps */
      while (slots[slot] >= 0 && pl_key(type, t->p[0], (size_t)places[slots[slot]]) != key) slot = (slot + 1) & last;
      if (slots[slot] < 0) slots[slot] = count;
      which = slots[slot];
    }
    if (which == count) {
      memcpy(P(char, 5) + (size_t)count * item, P(char, 0) + (size_t)i * item, item);
      places[count++] = (int32_t)i;
    }
    if (index_item == 8) P(int64_t, 3)[i] = which;
    else P(int32_t, 3)[i] = which;
  }
  P(int64_t, 4)[0] = count;
}
/* y[r, j] = sum w[j, i] x[r, i], in float64; p: x, w (float64), y; n: columns of w, rows of w */
ROWS(project) {
  const int64_t n = t->n[0], m = t->n[1];
  for (ptrdiff_t r = begin; r < end; r++)
    for (int64_t j = 0; j < m; j++) {
      double total = 0;
      for (int64_t i = 0; i < n; i++) total += P(double, 1)[j * n + i] * P(float, 0)[r * n + i];
      P(float, 2)[r * m + j] = (float)total;
    }
}
/* Multiplies each row of y by the normalized Hadamard matrix, in place; p: y; n: length of a row, a power of two */
ROWS(hadamard) {
  const int64_t n = t->n[0];
  for (ptrdiff_t r = begin; r < end; r++) {
    float *row = P(float, 0) + r * n;
    for (int64_t half = 1; half < n; half *= 2)
      for (int64_t i = 0; i < n; i += 2 * half)
        for (int64_t j = i; j < i + half; j++) {
          const float a = row[j], b = row[j + half];
          row[j] = a + b;
          row[j + half] = a - b;
        }
    for (int64_t j = 0; j < n; j++) row[j] *= 1 / sqrtf((float)n);
  }
}
/* y[o][d][j] = on if indices[o][j] is d, else off.  Short lines are filled with `off` first.
 * p: indices, on, off, y; n: depth, inner, bytes of an element, of an index */
enum { PL_SHORT_LINE = 8, PL_HOT_BLOCK = 64 }; /* elements of a short line; indices at a time */
typedef struct { uint64_t half[2]; } pl_double_word;
/* at[j] = x[j], or -1 if that is not below depth */
PL_FAST static void pl_below(int64_t depth, int64_t m, int64_t bytes, const void *x, int32_t *restrict at) {
  const uint32_t most = depth > INT32_MAX ? INT32_MAX : (uint32_t)depth;
  if (bytes == 4)
    for (int64_t j = 0; j < m; j++) at[j] = ((const uint32_t *)x)[j] < most ? ((const int32_t *)x)[j] : -1;
  else
    for (int64_t j = 0; j < m; j++) {
      const int64_t index = bytes == 8 ? ((const int64_t *)x)[j] : ((const int16_t *)x)[j];
      at[j] = index >= 0 && index < most ? (int32_t)index : -1;
    }
}
#define ONE_HOT(name, T) \
  PL_FAST static void name(pl_row_arguments *t, ptrdiff_t begin, ptrdiff_t end) { \
    const int64_t depth = t->n[0], inner = t->n[1], bytes = t->n[3]; \
    const T on = *P(T, 1), off = *P(T, 2); \
    T *restrict y = P(T, 3) + begin * depth * inner; \
    int32_t at[PL_HOT_BLOCK]; \
    if (inner < PL_SHORT_LINE) \
      for (int64_t i = 0; i < (end - begin) * depth * inner; i++) y[i] = off; \
    for (; begin < end; begin++, y += depth * inner) \
      for (int64_t first = 0, m; first < inner; first += m) { \
        m = inner - first < PL_HOT_BLOCK ? inner - first : PL_HOT_BLOCK; \
        pl_below(depth, m, bytes, P(char, 0) + (begin * inner + first) * bytes, at); \
        for (int64_t j = 0; j < m && inner < PL_SHORT_LINE; j++) \
          if (at[j] >= 0) y[at[j] * inner + j] = on; \
        for (int64_t d = 0; d < depth && inner >= PL_SHORT_LINE; d++) \
          for (int64_t j = 0; j < m; j++) y[d * inner + first + j] = at[j] == (int32_t)d ? on : off; \
      } \
  }
ONE_HOT(pl_one_hot_8, uint8_t)
ONE_HOT(pl_one_hot_16, uint16_t)
ONE_HOT(pl_one_hot_32, uint32_t)
ONE_HOT(pl_one_hot_64, uint64_t)
ONE_HOT(pl_one_hot_128, pl_double_word)
#undef ONE_HOT
ROWS(one_hot) {
  switch (t->n[2]) {
    case 1: pl_one_hot_8(t, begin, end); break;
    case 2: pl_one_hot_16(t, begin, end); break;
    case 4: pl_one_hot_32(t, begin, end); break;
    case 8: pl_one_hot_64(t, begin, end); break;
    default: pl_one_hot_128(t, begin, end);
  }
}
/* The number of bytes of x that are not 0, counted in the bytes of `counts`, which have room for 255 words. */
PL_FAST static int64_t pl_count(int64_t n, const uint8_t *x) {
  const uint64_t low = 0x7F7F7F7F7F7F7F7F;
  int64_t count = 0;
  while (n >= 8) {
    const int64_t words = n < 255 * 8 ? n / 8 : 255;
    uint64_t counts = 0;
    for (int64_t i = 0; i < words; i++) {
      uint64_t v;
      memcpy(&v, x + 8 * i, 8);
      counts += (((v & low) + low) | v) >> 7 & 0x0101010101010101;
    }
    counts = (counts & 0x00FF00FF00FF00FF) + (counts >> 8 & 0x00FF00FF00FF00FF);
    count += (int64_t)(counts * 0x0001000100010001 >> 48);
    x += 8 * words, n -= 8 * words;
  }
  for (; n; n--) count += *x++ != 0;
  return count;
}
/* Writes the index of each byte of x that is not 0 to a row of y, which has a row more than there are such bytes: the
 * next index overwrites one that was written for a 0.  shape: `rank` > 0 sizes, none of them 0. */
enum { PL_MAX_RANK = 16 };
PL_FAST static void pl_write_indices(int64_t rank, const int64_t *shape, const uint8_t *x, int64_t *y) {
  int64_t outer[PL_MAX_RANK] = {0}, *row = y, n = 1, begin = 0, last = rank - 1; /* last: axis with several elements */
  for (int64_t i = 0; i < rank; i++) n *= shape[i];
  while (last > 0 && shape[last] == 1) last--;
  for (int64_t j = 0, m; j < n; j += m) { /* first as if there were one axis only */
    uint64_t eight = 1;
    m = n - j < 8 ? n - j : 8;
    if (m == 8) memcpy(&eight, x + j, 8);
    for (int64_t k = 0; k < m && eight; k++) { /* most masks are mostly 0 */
      row[last] = j + k;
      row += rank & -(int64_t)(x[j + k] != 0);
    }
  }
  for (const int64_t length = shape[last]; y != row; y += rank) {
    if (y[last] - begin >= 2 * length) {
      int64_t left = y[last] / length;
      begin = left * length;
      for (int64_t i = last - 1; i >= 0; left /= shape[i--]) outer[i] = left % shape[i];
    } else if (y[last] - begin >= length) { /* the next line, without division */
      begin += length;
      for (int64_t i = last - 1; ++outer[i] == shape[i]; i--) outer[i] = 0;
    }
    y[last] -= begin;
    for (int64_t i = 0; i < rank; i++)
      if (i != last) y[i] = outer[i];
  }
}
/* Fails if a number of x exceeds the largest magnitude allowed; p: x, float32; f: this magnitude */
ROWS(require_within) {
  for (ptrdiff_t i = begin; i < end; i++)
    if (fabs(P(float, 0)[i]) > t->f[0]) t->status = 3;
}

/* The functions, and how many arrays, integers and reals each takes. */
#define COUNTED(n, most) ((n) + 0 * sizeof(char[(n) <= (most) ? 1 : -1])) /* n, which the compiler checks */
#define NAMED(name, arrays, numbers, reals) \
  {#name, name, COUNTED(arrays, PL_MAX_ARRAYS), COUNTED(numbers, PL_MAX_NUMBERS), COUNTED(reals, PL_MAX_REALS)}
typedef void (*pl_row_fn)(pl_row_arguments *t, ptrdiff_t begin, ptrdiff_t end);
typedef struct { const char *name; pl_row_fn run; int8_t arrays, numbers, reals; } pl_row_function;
static const pl_row_function pl_row_functions[] = {
  NAMED(cumsum, 2, 6, 0), NAMED(top_k, 4, 5, 0), NAMED(local_response, 2, 2, 3), NAMED(reverse_sequence, 3, 6, 0),
  NAMED(broadcast_sizes, 2, 1, 0), NAMED(uniform, 2, 2, 0), NAMED(multinomial, 4, 4, 0), NAMED(random_bits, 3, 3, 0),
  NAMED(project, 3, 2, 0), NAMED(hadamard, 1, 1, 0), NAMED(one_hot, 4, 4, 0), NAMED(require_within, 1, 0, 1),
  NAMED(unique, 6, 6, 0), {NULL, NULL, 0, 0, 0}};
