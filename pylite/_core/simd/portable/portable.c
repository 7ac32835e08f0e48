/* The portable micro-kernels: plain C for every slot, compiled for several ISA levels with the flags of each. */
#include "simd.h"
#include "common.h"

/* The iterations of the next loop are independent, even when it writes over its input. */
#if defined(__clang__)
#define PL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PL_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Unrolls the next loop, over an array that is to stay in registers. */
#define PL_UNROLL _Pragma("GCC unroll 64")

/* Vector instructions of 32-bit Arm flush denormal numbers to 0, so gcc vectorises floats only if it is told to.  These
 * two macros enclose such functions.  As gcc may then also reorder sums and multiply by reciprocals, functions whose
 * results must be exact stay outside. */
#if defined(__arm__) && defined(__ARM_NEON) && defined(__GNUC__) && !defined(__clang__)
#define PL_LOOSE_BEGIN \
  _Pragma("GCC push_options") \
  _Pragma("GCC optimize(\"unsafe-math-optimizations\", \"no-associative-math\", \"signed-zeros\")")
#define PL_LOOSE_END _Pragma("GCC pop_options")
#else
#define PL_LOOSE_BEGIN
#define PL_LOOSE_END
#endif

#include "portable_unary.h"
#include "portable_binary.h"
#include "portable_finish.h"
#include "portable_movement.h"
#include "portable_fit.h"
#include "portable_gemm.h"
#include "portable_argmax.h"
#include "portable_pooling.h"
#include "portable_recurring.h"
#include "portable_reduction.h"
#include "portable_errors.h"
#include "portable_resize.h"
#include "portable_softmax.h"

PL_FILL(portable, s) {
#define X(name, args) s->name = name;
  PL_SLOTS(X)
#undef X
  s->q8 = tile_q8;
  s->f32 = tile_f32;
  s->dw8 = tile_dw8;
  s->dw_f32_lines = 32;
  s->winograd_q8 = NULL;
  s->winograd_pack = NULL;
}
