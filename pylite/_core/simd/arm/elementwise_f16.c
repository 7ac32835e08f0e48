/* Element-wise operations and max pooling of float16, with Armv8.2's float16 arithmetic. */
#include "neon.h"
#include <arm_fp16.h>
#include <math.h>

enum { LANES = 8 };
typedef float16_t element;
typedef float16x8_t vector;

/* The last n < LANES elements, or, if step is 0, the single element of an operand in all lanes. */
PL_INLINE vector rest(size_t n, const element *x, int step) {
  element copy[LANES] = {0};
  if (!step) return vld1q_dup_f16(x);
  memcpy(copy, x, n * sizeof *x);
  return vld1q_f16(copy);
}
PL_INLINE void store_rest(size_t n, element *y, vector v) {
  element copy[LANES];
  vst1q_f16(copy, v);
  memcpy(y, copy, n * sizeof *y);
}

/* Slots of one operand x, or of two, a and b (elementwise.h).  expression: the result; parameters: declarations
 * of the values at p that it uses. */
#define UNARY(name, parameters, expression) \
  static void name(size_t n, const void *vx, void *vy, const void *p) { \
    const element *from = vx; \
    element *y = vy; \
    parameters; \
    for (; n >= LANES; n -= LANES, from += LANES, y += LANES) { \
      const vector x = vld1q_f16(from); \
      vst1q_f16(y, expression); \
    } \
    if (n) { \
      const vector x = rest(n, from, 1); \
      store_rest(n, y, expression); \
    } \
  }
#define BINARY(name, parameters, expression) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *p) { \
    const element *left = va, *right = vb; \
    element *y = vy; \
    parameters; \
    for (; n >= LANES; n -= LANES, left += LANES * a_step, right += LANES * b_step, y += LANES) { \
      const vector a = a_step ? vld1q_f16(left) : vld1q_dup_f16(left); \
      const vector b = b_step ? vld1q_f16(right) : vld1q_dup_f16(right); \
      vst1q_f16(y, expression); \
    } \
    if (n) { \
      const vector a = rest(n, left, a_step), b = rest(n, right, b_step); \
      store_rest(n, y, expression); \
    } \
  }
/* The float at `at`, a byte address, in all lanes. */
PL_INLINE vector parameter(const char *at) {
  float number;
  memcpy(&number, at, sizeof number);
  return vdupq_n_f16((element)number);
}
#define LIMITS const vector low = parameter(p), high = parameter((const char *)p + sizeof(float))
#define CLAMPED(v) vminq_f16(high, vmaxq_f16(low, v))
#define NONE (void)p
BINARY(add_f16, LIMITS, CLAMPED(vaddq_f16(a, b)))
BINARY(mul_f16, LIMITS, CLAMPED(vmulq_f16(a, b)))
BINARY(prelu_f16, NONE, vbslq_f16(vcgezq_f16(a), a, vmulq_f16(a, b)))
UNARY(leaky_relu_f16, const vector alpha = parameter(p), vbslq_f16(vcgtzq_f16(x), x, vmulq_f16(x, alpha)))

PL_INLINE vector hard_swish(vector x) {
  const vector gate = vminq_f16(vdupq_n_f16(6), vmaxq_f16(vdupq_n_f16(0), vaddq_f16(x, vdupq_n_f16(3))));
  return vmulq_f16(x, vmulq_f16(gate, vdupq_n_f16((element)(1.0 / 6))));
}
UNARY(hard_swish_f16, NONE, hard_swish(x))

/* ---- maxima of windows; none is NaN ---- */
/* The maximum of a window in V vectors of channels, clamped; w->rows and w->cols are inside the image. */
PL_INLINE void maxima(int V, const pl_window *w, const element *x, element *y) {
  vector most[4];
  for (int v = 0; v < V; v++) most[v] = vdupq_n_f16((element)-INFINITY);
  for (ptrdiff_t r = 0; r < w->rows; r++)
    for (ptrdiff_t k = 0; k < w->cols; k++) {
      const element *at = x + r * w->row_stride + k * w->x_pixel;
      for (int v = 0; v < V; v++) most[v] = vmaxnmq_f16(most[v], vld1q_f16(at + v * LANES));
    }
  const vector low = vdupq_n_f16((element)w->low_f), high = vdupq_n_f16((element)w->high_f);
  for (int v = 0; v < V; v++) vst1q_f16(y + v * LANES, vminq_f16(high, vmaxq_f16(low, most[v])));
}
static void maximum_of_channel(const pl_window *w, const element *x, element *y) {
  element most = (element)-INFINITY;
  for (ptrdiff_t r = 0; r < w->rows; r++)
    for (ptrdiff_t k = 0; k < w->cols; k++) most = vmaxnmh_f16(most, x[r * w->row_stride + k * w->x_pixel]);
  *y = vminh_f16((element)w->high_f, vmaxh_f16((element)w->low_f, most));
}
/* Output pixel j reads columns of the image from j * stride - left on. */
static void pool_max_f16(const pl_window *w0, const void *vx, ptrdiff_t left, ptrdiff_t n, void *vy) {
  pl_window w = *w0;
  const ptrdiff_t channels = w.channels;
  for (ptrdiff_t j = 0; j < n; j++) {
    const ptrdiff_t position = j * w.stride - left, begin = position < 0 ? 0 : position;
    const ptrdiff_t end = position + w0->cols < w.width ? position + w0->cols : w.width;
    const element *x = (const element *)vx + begin * w.x_pixel;
    element *y = (element *)vy + j * w.y_pixel;
    ptrdiff_t c = 0;
    w.cols = end - begin;
    for (; c + 4 * LANES <= channels; c += 4 * LANES) maxima(4, &w, x + c, y + c);
    for (; c + LANES <= channels; c += LANES) maxima(1, &w, x + c, y + c);
    if (c < channels && channels >= LANES) maxima(1, &w, x + channels - LANES, y + channels - LANES);
    else
      for (; c < channels; c++) maximum_of_channel(&w, x + c, y + c);
  }
}

PL_FILL(elementwise_f16, s) {
  s->add_f16 = add_f16;
  s->mul_f16 = mul_f16;
  s->prelu_f16 = prelu_f16;
  s->leaky_relu_f16 = leaky_relu_f16;
  s->hard_swish_f16 = hard_swish_f16;
  s->pool_max_f16 = pool_max_f16;
}
