/* The dispatch table.  PL_SLOTS lists each micro-kernel that all levels have, once; winograd_q8 and winograd_pack,
 * which some levels lack, are separate members. */
#ifndef PYLITE_SIMD_H
#define PYLITE_SIMD_H
#include <stddef.h>
#include <stdint.h>
#include "elementwise.h"
#include "gemm.h"
#include "moving.h"
#include "recurring.h"
#include "reducing.h"

/* X(name, (arguments)): a void function.  portable.c defines all of them in plain C and is compiled for several ISA
 * levels; hand-written files of a level replace some.  Functions in shared headers are `static inline`: else the
 * linker would keep one copy, compiled for any of the levels. */
#define PL_SLOTS(X) \
  PL_SLOTS_MOVING(X) \
  PL_SLOTS_ELEMENTWISE(X) \
  PL_SLOTS_RECURRING(X) \
  PL_SLOTS_REDUCING(X) \
  PL_SLOTS_GEMM(X)

typedef struct pl_slots {
#define X(name, args) void (*name) args;
  PL_SLOTS(X)
#undef X
  pl_tile q8, f32, f16, dw8; /* the tiles of pack_a_q8 and gemm_q8, of gemm_f32, of gemm_f16, of depthwise_q8 */
  int has_f16;               /* does the CPU compute in float16?  If not, gemm_f16 is slow */
  /* The most output lines in one call of depthwise_f32; their input may lie partly outside the image.  0: any number,
   * if the inputs of successive output lines are `next` bytes apart, and lie inside the image wherever the input of the
   * first line does. */
  int dw_f32_lines;
  /* Computes columns begin .. end - 1 of tiles first .. first + tiles - 1, counted over all images.  NULL: the ISA
   * level has none. */
  void (*winograd_q8)(const pl_winograd *g, ptrdiff_t first, int tiles, ptrdiff_t begin, ptrdiff_t end,
                      const pl_columns *columns);
  /* Packs weights (columns, 3, 3, c), bytes ^ flip less w_zero, into the panels of winograd_q8; sums: see pack_b_q8. */
  void (*winograd_pack)(ptrdiff_t columns, ptrdiff_t c, const uint8_t *w, int flip, int w_zero, int16_t *panels,
                        int32_t *sums);
} pl_slots;

/* The micro-kernel of that name in the table `s`, or NULL. */
typedef void (*pl_unary_fn) PL_UNARY;
typedef void (*pl_binary_fn) PL_BINARY;
typedef void (*pl_pooling_fn) PL_POOLING;
typedef void (*pl_reduction_fn) PL_REDUCTION;
typedef void (*pl_join_fn) PL_JOIN;
typedef void (*pl_bilinear_fn) PL_BILINEAR;
pl_unary_fn pl_unary_kernel(const pl_slots *s, const char *name);
pl_binary_fn pl_binary_kernel(const pl_slots *s, const char *name);
pl_pooling_fn pl_pooling_kernel(const pl_slots *s, const char *name);
pl_reduction_fn pl_reduction_kernel(const pl_slots *s, const char *name);
pl_join_fn pl_join_kernel(const pl_slots *s, const char *name);
pl_bilinear_fn pl_bilinear_kernel(const pl_slots *s, const char *name);
/* p = the 3 parameters of wide_unary (1 operand) or wide_binary (2) from the words "op x_type y_type".  Returns 0 if
 * there is no such op or type. */
int pl_wide_parameters(int operands, const char *words, int32_t *p);

/* PL_FILL(file, s) {...} defines the function by which a source file writes its micro-kernels into a dispatch table.
 * It is named after the file and PL_ISA_LEVEL, the level that the file is compiled for.  select.c calls it. */
#define PL_FILL(file, s) PL_FILL_OF(file, PL_ISA_LEVEL, s)
#define PL_FILL_OF(file, level, s) PL_FILL_NAMED(pl_fill_##file, level, s)
#define PL_FILL_NAMED(name, level, s) \
  void name##_##level(pl_slots *s); \
  void name##_##level(pl_slots *s)

typedef struct pl_isa_level {
  const char *name;                  /* in PYLITE_ISA */
  int (*usable)(void);               /* does this CPU have the level? */
  void (*portable)(pl_slots *s);     /* fills every slot with plain C, compiled with the level's flags */
  void (*hand_written)(pl_slots *s); /* replaces the slots with hand-written micro-kernels */
} pl_isa_level;

#define PL_MAX_ISA_LEVELS 8
extern const pl_isa_level pl_isa_levels[]; /* weakest first; ends with name == NULL */

/* A pool of n threads has n - 1 workers; the calling thread is the last one.
 * pl_for calls fn(ctx, begin, end, thread) for disjoint ranges that cover [0, n), multiples of `grain` but for the
 * last, one at a time for each thread index.  With a NULL pool the caller runs everything. */
typedef struct pl_pool pl_pool;
typedef void (*pl_range_fn)(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread);
pl_pool *pl_pool_create(int threads);
void pl_pool_destroy(pl_pool *pool);
int pl_pool_threads(const pl_pool *pool);
/* From now on, records each range of a shared loop as a row of 5 numbers: the nanoseconds of CLOCK_MONOTONIC at its
 * start and end, its first item and the one after its last, the thread (0: the caller).  rows NULL: ends recording.
 * Call it while no loop runs.  pl_pool_recorded: the number of ranges since then; those beyond `capacity` have no
 * row. */
void pl_pool_record(pl_pool *pool, int64_t *rows, ptrdiff_t capacity);
ptrdiff_t pl_pool_recorded(const pl_pool *pool);
void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx);

/* Packing that may be deferred; the first member of a struct with the arguments of `run`. */
typedef struct pl_packing_job pl_packing_job;
struct pl_packing_job {
  pl_packing_job *next;
  void (*run)(pl_packing_job *job);   /* may run twice, after a fork */
  void *owner;                        /* the owner of the job's memory */
  ptrdiff_t bytes;                    /* the amount of work */
  ptrdiff_t copied;                   /* bytes that only this job holds: a copy of the weights in another order */
  const pl_slots *slots;              /* of the ISA level that it packs for */
};
void pl_packing_begin(void);                   /* from now on, jobs of the calling thread may be deferred; nests */
/* Returns 0 if the job has run, 1 if it was deferred, and -1 if it was deferred but the waiting jobs hold so many
 * copies that the caller should drain them before it defers more. */
int pl_packing_defer(pl_packing_job *job);
pl_packing_job *pl_packing_drain(void);       /* waits for all jobs of all threads; returns the finished ones */
pl_packing_job *pl_packing_finish(void);      /* drains, and undoes one call of pl_packing_begin */
#endif
