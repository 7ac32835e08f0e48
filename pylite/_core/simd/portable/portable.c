/* The portable micro-kernels: plain C for all slots, compiled once for each ISA level, with its flags. */
#include "simd.h"
#include "common.h"

/* The iterations of the next loop are independent, even if it overwrites its input. */
#if defined(__clang__)
#define PL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PL_INDEPENDENT _Pragma("GCC ivdep")
#endif
/* The same for a loop of few instructions, whose jump may take longer than they do: several iterations for each jump. */
#if defined(__clang__)
#define PL_TIGHT PL_INDEPENDENT
#elif defined(__ARM_NEON)
#define PL_TIGHT PL_INDEPENDENT _Pragma("GCC unroll 4")
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define PL_TIGHT PL_INDEPENDENT _Pragma("GCC unroll 2")
#else
#define PL_TIGHT PL_INDEPENDENT
#endif

/* Compiled for its size: kernels of float16, which on x86 only emulates other CPUs. */
#if defined(__x86_64__)
#define PL_EMULATES __attribute__((cold))
#else
#define PL_EMULATES
#endif

/* Unrolls the next loop, so that the array it walks over stays in registers. */
#define PL_UNROLL _Pragma("GCC unroll 64")

/* On 32-bit Arm, vector instructions flush subnormal numbers to 0, so gcc vectorises float loops only with
 * -funsafe-math-optimizations.  These two macros enclose functions that it may compile so.  It may then also multiply
 * by reciprocals, so functions whose results must be exact stay outside. */
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
#include "portable_casts.h"
#include "portable_binary.h"
#include "portable_finish.h"
#include "portable_movement.h"
#include "portable_fit.h"
#include "portable_gemm.h"
#include "portable_half.h"
#include "portable_pooling.h"
#include "portable_recurring.h"
#include "portable_reduction.h"
#include "portable_argmax.h"
#include "portable_errors.h"
#include "portable_resize.h"
#include "portable_softmax.h"

PL_FILL(portable, s) {
#define X(name, args) s->name = name;
  PL_SLOTS(X)
#undef X
  s->q8 = tile_q8;
  s->f32 = tile_f32;
  s->f16 = tile_f16;
  s->has_f16 = 0;
  s->dw8 = tile_dw8;
  s->dw_f32_lines = 32;
  s->winograd_q8 = NULL;
  s->winograd_pack = NULL;
}
