/* The ISA levels and the CPU probe.  Compiled without ISA flags. */
#include "simd.h"
#include <string.h>

static int always(void) { return 1; }
void pl_fill_portable_base(pl_slots *s);

#if defined(__x86_64__)
#include <cpuid.h>
void pl_fill_portable_avx2(pl_slots *s);
void pl_fill_gemm_avx2(pl_slots *s);
void pl_fill_f32_avx2(pl_slots *s);
void pl_fill_gemm_avxvnni(pl_slots *s);
void pl_fill_portable_avx512vnni(pl_slots *s);
void pl_fill_gemm_avx512vnni(pl_slots *s);
void pl_fill_depthwise_avx512vnni(pl_slots *s);
void pl_fill_sums_avx512vnni(pl_slots *s);
void pl_fill_winograd_avx512vnni(pl_slots *s);
void pl_fill_blocks_avx512vnni(pl_slots *s);
void pl_fill_f32_avx512vnni(pl_slots *s);

/* What CPUID tells of leaves 1 (ecx), 7 (ebx, ecx) and 7.1 (eax), where the system keeps the registers that it takes.
 * Asked once, and of no more: on a virtual machine each question takes ten microseconds, and gcc's own probe has many. */
static struct {
  unsigned c1, b7, c7, a71;
} cpu;

static void ask_cpu(void) {
  unsigned a, b, c, d, most, kept, high;
  __cpuid(0, most, b, c, d);
  if (most < 7) return;
  __cpuid(1, a, b, c, d);
  if (~c & (1u << 27 | 1u << 28)) return; /* OSXSAVE, AVX */
  __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
  if (~kept & 0x06) return;
  cpu.c1 = c;
  __cpuid_count(7, 0, most, b, c, d);
  cpu.b7 = b, cpu.c7 = c;
  if (~kept & 0xe0) cpu.b7 &= ~(1u << 16); /* AVX512F, which all others go with */
  if (most) __cpuid_count(7, 1, cpu.a71, b, c, d);
}

static int has_avx2(void) {
  if (!cpu.c1) ask_cpu();
  return cpu.c1 >> 12 & cpu.b7 >> 5 & 1; /* FMA */
}
int pl_has_avx512vbmi(void) { return cpu.b7 >> 16 & cpu.c7 >> 1 & 1; }
static void fill_avx2(pl_slots *s) {
  pl_fill_gemm_avx2(s);
  pl_fill_f32_avx2(s);
}
#if defined(PL_HAVE_AVXVNNI)
static int has_avxvnni(void) { return has_avx2() && (cpu.a71 >> 4 & 1); }
static void fill_avxvnni(pl_slots *s) {
  fill_avx2(s);
  pl_fill_gemm_avxvnni(s);
}
#endif
static int has_avx512vnni(void) {
  const unsigned all = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
  return has_avx2() && (cpu.b7 & all) == all && (cpu.c7 >> 11 & 1);
}
static void fill_avx512vnni(pl_slots *s) {
  pl_fill_gemm_avx512vnni(s);
  pl_fill_depthwise_avx512vnni(s);
  pl_fill_sums_avx512vnni(s);
  pl_fill_winograd_avx512vnni(s);
  pl_fill_blocks_avx512vnni(s);
  pl_fill_f32_avx512vnni(s);
}
#elif defined(__aarch64__) || defined(PL_HAVE_NEON)
#include <sys/auxv.h>
void pl_fill_gemm_neon(pl_slots *s);
void pl_fill_depthwise_neon(pl_slots *s);
void pl_fill_depthwise_dotprod(pl_slots *s);
void pl_fill_gemm_dotprod(pl_slots *s);
void pl_fill_gemm_i8mm(pl_slots *s);
void pl_fill_portable_neon(pl_slots *s);
static void fill_neon(pl_slots *s) {
  pl_fill_gemm_neon(s);
  pl_fill_depthwise_neon(s);
}
#if defined(__aarch64__)
#define has_neon always
/* HWCAP_ASIMDDP; HWCAP2_I8MM: headers may be older */
#if defined(PL_HAVE_DOTPROD)
static void fill_dotprod(pl_slots *s) {
  pl_fill_gemm_dotprod(s);
  pl_fill_depthwise_dotprod(s);
}
#endif
static int has_dotprod(void) { return (getauxval(AT_HWCAP) & (1UL << 20)) != 0; }
static int has_i8mm(void) { return has_dotprod() && (getauxval(AT_HWCAP2) & (1UL << 13)) != 0; }
#else
/* HWCAP_NEON and HWCAP_VFPv4, with which the ISA level is compiled: Cortex-A8 and A9 have the first alone */
static int has_neon(void) { return (~getauxval(AT_HWCAP) & (1UL << 12 | 1UL << 16)) == 0; }
#endif
#endif

const pl_isa_level pl_isa_levels[] = {
  {"base", always, pl_fill_portable_base, NULL},
#if defined(__x86_64__)
  {"avx2", has_avx2, pl_fill_portable_avx2, fill_avx2},
#if defined(PL_HAVE_AVXVNNI)
  {"avxvnni", has_avxvnni, pl_fill_portable_avx2, fill_avxvnni},
#endif
  {"avx512vnni", has_avx512vnni, pl_fill_portable_avx512vnni, fill_avx512vnni},
#elif defined(__aarch64__) || defined(PL_HAVE_NEON)
  {"neon", has_neon, pl_fill_portable_neon, fill_neon},
#if defined(PL_HAVE_DOTPROD)
  {"dotprod", has_dotprod, pl_fill_portable_neon, fill_dotprod},
#endif
#if defined(PL_HAVE_I8MM)
  {"i8mm", has_i8mm, pl_fill_portable_neon, pl_fill_gemm_i8mm},
#endif
#endif
  {NULL, NULL, NULL, NULL}};
_Static_assert(sizeof pl_isa_levels / sizeof *pl_isa_levels <= PL_MAX_ISA_LEVELS + 1, "too many ISA levels");

#define X(slot, args) if (!strcmp(name, #slot)) return s->slot;
pl_unary_fn pl_unary_kernel(const pl_slots *s, const char *name) {
  PL_UNARY_SLOTS(X)
  return NULL;
}
pl_binary_fn pl_binary_kernel(const pl_slots *s, const char *name) {
  PL_BINARY_SLOTS(X)
  return NULL;
}
#undef X
