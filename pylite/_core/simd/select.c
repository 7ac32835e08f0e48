/* The ISA levels of this build, which of them the CPU has, and micro-kernels by name.  Compiled without ISA flags. */
#include "isa_levels.h"
#include "threads/platform.h"
#include "simd.h"
#include <string.h>

/* ---- the CPU ---- */
#define PROBE __attribute__((unused)) static int /* a compiler without the flags leaves out the level */
PROBE has_base(void) { return 1; }

#if defined(__x86_64__)
#include <cpuid.h>

/* CPUID leaves 1 (ecx), 7 (ebx, ecx) and 7.1 (eax); all 0 where the system does not save the registers.  They are read
 * once, and no other leaf is: on a virtual machine each read takes ten microseconds, and gcc's own probe makes many. */
static struct {
  unsigned c1, b7, c7, a71;
} cpu;

static void read_cpuid(void) {
  unsigned a, b, c, d, leaves, saved, high;
  __cpuid(0, leaves, b, c, d);
  if (leaves < 7) return;
  __cpuid(1, a, b, c, d);
  if (~c & (1u << 27 | 1u << 28)) return; /* OSXSAVE, AVX */
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (~saved & 0x06) return;
  cpu.c1 = c;
  __cpuid_count(7, 0, leaves, b, c, d);
  cpu.b7 = b, cpu.c7 = c;
  if (~saved & 0xe0) cpu.b7 &= ~(1u << 16); /* AVX512F, without which the others are not used */
  if (leaves) __cpuid_count(7, 1, cpu.a71, b, c, d);
}

PROBE has_avx2(void) {
  if (!cpu.c1) read_cpuid();
  return cpu.c1 >> 12 & cpu.c1 >> 29 & cpu.b7 >> 5 & 1; /* FMA, F16C */
}
PROBE has_avxvnni(void) { return has_avx2() && (cpu.a71 >> 4 & 1); }
PROBE has_avx512vnni(void) {
  const unsigned all = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
  return has_avx2() && (cpu.b7 & all) == all && (cpu.c7 >> 11 & 1);
}
PROBE has_avx512vbmi(void) { return has_avx512vnni() && (cpu.c7 >> 1 & 1); }

#elif defined(__aarch64__)
PROBE has_neon(void) { return 1; }
PROBE has_dotprod(void) { return (pl_arm_features() & PL_DOTPROD) != 0; }
PROBE has_i8mm(void) { return has_dotprod() && (pl_arm_features() & PL_I8MM); }

#elif defined(__arm__)
PROBE has_neon(void) { return (pl_arm_features() & PL_NEON_VFP4) != 0; }
#endif

/* ---- the levels ---- */
#define FILL(file, level) void pl_fill_##file##_##level(pl_slots *s);
#define LEVEL(level, portable, fills) void pl_fill_portable_##portable(pl_slots *s); fills
PL_ISA_LEVELS(LEVEL, FILL)
#undef FILL
#undef LEVEL

#define FILL(file, level) pl_fill_##file##_##level(s);
#define LEVEL(level, portable, fills) \
  static void hand_written_##level(pl_slots *s) { \
    (void)s; \
    fills \
  }
PL_ISA_LEVELS(LEVEL, FILL)
#undef LEVEL

#define LEVEL(level, portable, fills) {#level, has_##level, pl_fill_portable_##portable, hand_written_##level},
const pl_isa_level pl_isa_levels[] = {PL_ISA_LEVELS(LEVEL, FILL){NULL, NULL, NULL, NULL}};
_Static_assert(sizeof pl_isa_levels / sizeof *pl_isa_levels <= PL_MAX_ISA_LEVELS + 1, "too many ISA levels");

/* ---- micro-kernels by name ---- */
#define X(slot, args) if (!strcmp(name, #slot)) return s->slot;
#define BY_NAME(kind, SLOTS) \
  pl_##kind##_fn pl_##kind##_kernel(const pl_slots *s, const char *name) { \
    SLOTS(X) \
    return NULL; \
  }
BY_NAME(unary, PL_UNARY_SLOTS)
BY_NAME(binary, PL_BINARY_SLOTS)
BY_NAME(pooling, PL_POOLING_SLOTS)
BY_NAME(reduction, PL_REDUCTION_SLOTS)
BY_NAME(join, PL_JOIN_SLOTS)
BY_NAME(bilinear, PL_BILINEAR_SLOTS)
