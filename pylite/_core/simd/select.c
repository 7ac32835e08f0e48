/* The ladder of rungs and the CPU probe.  Compiled without ISA flags. */
#include "simd.h"
#include <string.h>

static int always(void) { return 1; }
void pl_rows_base(pl_slots *s);

#if defined(__x86_64__)
void pl_rows_avx2(pl_slots *s);
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

const pl_isa pl_ladder[] = {
  {"base", always, pl_rows_base},
#if defined(__x86_64__)
  {"avx2", has_avx2, pl_rows_avx2},
#endif
  {NULL, NULL, NULL}};

#define X(slot, args) if (!strcmp(name, #slot)) return s->slot;
pl_unary_fn pl_unary_row(const pl_slots *s, const char *name) {
  PL_UNARY_SLOTS(X)
  return NULL;
}
pl_binary_fn pl_binary_row(const pl_slots *s, const char *name) {
  PL_BINARY_SLOTS(X)
  return NULL;
}
#undef X
