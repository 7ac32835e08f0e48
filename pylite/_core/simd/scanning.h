/* Loops of scanning.pyx that are the same for several types. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* y[i] = x[0] + ... + x[i] over n elements, each a run of `inner`; step: the run after, which may lie before;
 * exclusive: without x[i].  type: 0 float, 1 int32, 2 int64; steps in elements. */
#define PL_CUMSUM(T) { \
    const T *x = vx, *term; \
    T *y = vy, sum = 0; \
    if (inner == 1) { \
      for (size_t i = 0; i < n; i++, x += step, y += step) { \
        T next = (T)(sum + *x); \
        *y = exclusive ? sum : next; \
        sum = next; \
      } \
      return; \
    } \
    for (size_t j = 0; j < inner; j++) y[j] = exclusive ? 0 : x[j]; \
    for (size_t i = 1; i < n; i++) { \
      term = exclusive ? x : x + step; \
      for (size_t j = 0; j < inner; j++) y[step + (ptrdiff_t)j] = y[j] + term[j]; \
      x += step; \
      y += step; \
    } \
  }
static void pl_cumsum(int type, size_t n, size_t inner, ptrdiff_t step, int exclusive, const void *vx, void *vy) {
  if (type == 0) PL_CUMSUM(float)
  else if (type == 1) PL_CUMSUM(uint32_t)
  else PL_CUMSUM(uint64_t)
}

/* ---- TOPK_V2 ---- */
typedef struct { int64_t key, index; } pl_ranked;
enum { PL_KEY_F32, PL_KEY_I8, PL_KEY_U8, PL_KEY_I16, PL_KEY_I32, PL_KEY_I64 };
static int64_t pl_key(int type, const void *x, size_t i) {
  switch (type) {
    case PL_KEY_F32: {
      float f = ((const float *)x)[i] + 0.0f; /* -0 becomes 0 */
      int32_t bits;
      memcpy(&bits, &f, 4);
      return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
    }
    case PL_KEY_I8: return ((const int8_t *)x)[i];
    case PL_KEY_U8: return ((const uint8_t *)x)[i];
    case PL_KEY_I16: return ((const int16_t *)x)[i];
    case PL_KEY_I32: return ((const int32_t *)x)[i];
    default: return ((const int64_t *)x)[i];
  }
}
/* does a come after b: is it smaller, or as large and later? */
static int pl_after(pl_ranked a, pl_ranked b) { return a.key < b.key || (a.key == b.key && a.index > b.index); }
/* a heap whose first entry comes after all others: make room there for v */
static void pl_sift(pl_ranked *heap, size_t n, pl_ranked v) {
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && pl_after(heap[child + 1], heap[child])) child++;
    if (!pl_after(heap[child], v)) break;
    heap[at] = heap[child];
  }
  heap[at] = v;
}
/* the first index from i on whose element is above that at `least`; n: there is none */
#define PL_NEXT(T) { \
    const T *v = x; \
    const T bound = v[least]; \
    while (i < n && !(v[i] > bound)) i++; \
    return i; \
  }
static size_t pl_next_above(int type, size_t n, size_t i, size_t least, const void *x) {
  switch (type) {
    case PL_KEY_F32: PL_NEXT(float)
    case PL_KEY_I8: PL_NEXT(int8_t)
    case PL_KEY_U8: PL_NEXT(uint8_t)
    case PL_KEY_I16: PL_NEXT(int16_t)
    case PL_KEY_I32: PL_NEXT(int32_t)
    default: PL_NEXT(int64_t)
  }
}
/* heap[0 .. k) = the k largest of n elements, in order */
static void pl_top_k(int type, size_t n, size_t k, const void *x, pl_ranked *heap) {
  size_t count = 0;
  for (size_t i = 0; i < n && k; i++) {
    if (count == k && (i = pl_next_above(type, n, i, (size_t)heap[0].index, x)) == n) break;
    pl_ranked v = {pl_key(type, x, i), (int64_t)i};
    if (count < k) {
      size_t at = count++;
      for (; at && pl_after(v, heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
      heap[at] = v;
    } else if (pl_after(heap[0], v)) {
      pl_sift(heap, k, v);
    }
  }
  while (count > 1) {
    pl_ranked last = heap[--count], first = heap[0];
    pl_sift(heap, count, last);
    heap[count] = first;
  }
}

/* y = x (bias + alpha s)^-beta, s the sum of squares of the channels from c - radius to c + radius */
static void pl_local_response(size_t n, ptrdiff_t radius, float bias, float alpha, float beta, const float *x,
                              float *y) {
  for (ptrdiff_t c = 0; c < (ptrdiff_t)n; c++) {
    ptrdiff_t end = c + radius + 1 < (ptrdiff_t)n ? c + radius + 1 : (ptrdiff_t)n;
    float sum = 0;
    for (ptrdiff_t i = c > radius ? c - radius : 0; i < end; i++) sum += x[i] * x[i];
    y[c] = x[c] * powf(bias + alpha * sum, -beta);
  }
}

/* ---- random bits: Philox 4x32 with 10 rounds, Threefry 2x32 with 20 (Salmon et al., 2011) ---- */
static void pl_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k0 = key[0], k1 = key[1], c[4];
  memcpy(c, counter, sizeof c);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
  }
  memcpy(out, c, sizeof c);
}
static void pl_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]) {
  static const uint8_t turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  uint32_t a = counter[0] + keys[0], b = counter[1] + keys[1];
  for (int round = 0; round < 20; round++) {
    int turn = turns[round % 8];
    a += b;
    b = (b << turn | b >> (32 - turn)) ^ a;
    if (round % 4 == 3) {
      int group = round / 4 + 1;
      a += keys[group % 3];
      b += keys[(group + 1) % 3] + (uint32_t)group;
    }
  }
  out[0] = a;
  out[1] = b;
}
/* counter += count, in 128 bits */
static void pl_skip(uint32_t counter[4], uint64_t count) {
  for (int i = 0; i < 4; i++) {
    uint64_t sum = counter[i] + (count & 0xFFFFFFFFu);
    counter[i] = (uint32_t)sum;
    count = (count >> 32) + (sum >> 32);
  }
}
/* in [0, 1): 23 and 52 random bits of a mantissa */
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
/* Two numbers of the standard normal distribution, by Box and Muller. */
static void pl_normal(uint32_t a, uint32_t b, float out[2]) {
  float u = pl_unit_f32(a), v = (float)(2.0 * 3.14159265358979323846 * pl_unit_f32(b));
  float r = sqrtf(-2.0f * logf(u < 1e-7f ? 1e-7f : u));
  out[0] = sinf(v) * r;
  out[1] = cosf(v) * r;
}
