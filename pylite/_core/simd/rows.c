/* The plain C micro-kernels, compiled once per rung with that rung's flags (PL_RUNG names it). */
#include "simd.h"
#include "wide.h"

/* The iterations of the next loop are independent, even when it writes over its input. */
#if defined(__clang__)
#define PL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PL_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Unrolls the next loop, which is over an array that shall stay in registers. */
#define PL_UNROLL _Pragma("GCC unroll 64")

#include "rows_unary.h"
#include "rows_binary.h"
#include "rows_finish.h"
#include "rows_movement.h"
#include "rows_gemm.h"
#include "rows_argmax.h"
#include "rows_pooling.h"
#include "rows_recurring.h"
#include "rows_reduction.h"
#include "rows_resize.h"
#include "rows_softmax.h"

#define PL_JOIN_(a, b) a##b
#define PL_JOIN(a, b) PL_JOIN_(a, b)

void PL_JOIN(pl_rows_, PL_RUNG)(pl_slots *s);
void PL_JOIN(pl_rows_, PL_RUNG)(pl_slots *s) {
#define X(name, args) s->name = name;
  PL_SLOTS(X)
#undef X
  s->q8 = tile_q8;
  s->f32 = tile_f32;
  s->dw8 = tile_dw8;
#if defined(__AVX512BW__)
  if (__builtin_cpu_supports("avx512vbmi")) s->lut8 = lut8_vbmi;
#elif defined(__aarch64__)
  s->lut8 = lut8_neon;
#endif
}
