/* depthwise_floats.h for float16.  Before including it define VECTORS. */
#include "neon.h"
#include <arm_fp16.h>

enum { LANES = 8 };
typedef float16_t element;
#define VECTOR float16x8_t
#define LOAD vld1q_f16
#define STORE vst1q_f16
#define SPLAT(v) vdupq_n_f16((float16_t)(v))
#define FMA vfmaq_f16
#define MIN vminq_f16
#define MAX vmaxq_f16
PL_INLINE element add_product(element sum, element x, element w) { return vfmah_f16(sum, x, w); }
#include "depthwise_floats.h"

/* depthwise_f16 for 8 to 15 channels. */
void pl_depthwise_f16_few(const pl_dw_lines *g, const uint16_t *w, const uint16_t *bias, float low, float high,
                          uint16_t *y);
