/* Multiply-accumulates per second that one core reaches without touching memory: bytes, then floats.
 * cc -O2 -march=native peak.c && ./a.out */
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Twelve independent chains of one instruction, which takes a vector to each operand; products: of an instruction. */
#define CHAINS(INSTRUCTION) \
  __asm__ volatile(INSTRUCTION(0) INSTRUCTION(1) INSTRUCTION(2) INSTRUCTION(3) INSTRUCTION(4) INSTRUCTION(5) \
                   INSTRUCTION(6) INSTRUCTION(7) INSTRUCTION(8) INSTRUCTION(9) INSTRUCTION(10) INSTRUCTION(11) \
                   ::: CLOBBERED)
#if defined(__AVX512VNNI__)
#define BYTES(i) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #i "\n"
#define FLOATS(i) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #i "\n"
enum { BYTE_PRODUCTS = 64, FLOAT_PRODUCTS = 16 };
#elif defined(__AVX2__)
#define BYTES(i) "vpmaddwd %%ymm12, %%ymm13, %%ymm14\nvpaddd %%ymm14, %%ymm" #i ", %%ymm" #i "\n"
#define FLOATS(i) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #i "\n"
enum { BYTE_PRODUCTS = 16, FLOAT_PRODUCTS = 8 };
#elif defined(__ARM_FEATURE_DOTPROD)
#define BYTES(i) "sdot v" #i ".4s, v12.16b, v13.16b\n"
#define FLOATS(i) "fmla v" #i ".4s, v12.4s, v13.4s\n"
enum { BYTE_PRODUCTS = 16, FLOAT_PRODUCTS = 4 };
#elif defined(__aarch64__)
#define BYTES(i) "smlal v" #i ".4s, v12.4h, v13.4h\n"
#define FLOATS(i) "fmla v" #i ".4s, v12.4s, v13.4s\n"
enum { BYTE_PRODUCTS = 4, FLOAT_PRODUCTS = 4 };
#else
#error no instructions known for this CPU
#endif
#if defined(__aarch64__)
#define CLOBBERED "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11"
#else
#define CLOBBERED "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                  "xmm14"
#endif

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define MEASURE(NAME, INSTRUCTION, PRODUCTS) \
  static double NAME(void) { \
    double best = 1e9; \
    for (int repeat = 0; repeat < 200; repeat++) { \
      double start = now(); \
      for (int i = 0; i < 20000; i++) CHAINS(INSTRUCTION); \
      double took = now() - start; \
      best = took < best ? took : best; \
    } \
    return 12.0 * 20000 * PRODUCTS / best; \
  }
MEASURE(bytes, BYTES, BYTE_PRODUCTS)
MEASURE(floats, FLOATS, FLOAT_PRODUCTS)

int main(void) {
  printf("%.4g %.4g\n", bytes(), floats());
  return 0;
}
