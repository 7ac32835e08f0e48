/* Vectors of 8 bytes, added to vectors of 8 words of 16 bits. */
#ifndef PYLITE_WIDENING_H
#define PYLITE_WIDENING_H
#include <stdint.h>
typedef uint8_t pl_bytes_8 __attribute__((vector_size(8)));
typedef int8_t pl_signed_8 __attribute__((vector_size(8)));
typedef int16_t pl_words_8 __attribute__((vector_size(16)));

/* sum + v, as signed bytes */
#if defined(__ARM_NEON) /* where gcc 12 would convert lane by lane */
#include <arm_neon.h>
#define PL_ADD_WIDENED(sum, v) ((pl_words_8)vaddw_s8((int16x8_t)(sum), (int8x8_t)(v)))
#else
#define PL_ADD_WIDENED(sum, v) ((sum) + __builtin_convertvector((pl_signed_8)(v), pl_words_8))
#endif
#endif
