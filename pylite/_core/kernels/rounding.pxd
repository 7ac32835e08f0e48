# The rounding rules of docs/numerics.md that kernels apply themselves, not through micro-kernels.
from libc.stdint cimport int32_t, int64_t

cdef extern from "rounding.h" nogil:
    int32_t pl_clamp32(int32_t v, int32_t low, int32_t high)
    int32_t pl_sat16(int32_t v)
    int32_t pl_shl32(int32_t x, int left)
    int32_t pl_mul_high(int32_t x, int32_t m)
    int32_t pl_mbqm32(int32_t x, int32_t m, int e)
    int32_t pl_ruy(int32_t x, int32_t m, int e)
    int32_t pl_mbqm64(int64_t x, int32_t m16, int e)
    int32_t pl_multiplier16(int32_t m)
    int32_t pl_rdbpot(int32_t x, int k)
    int32_t pl_srdhm16(int32_t a, int32_t b)
    int32_t pl_fx_shl(int32_t x, int k, int bits)
    int32_t pl_exp_q(int32_t a, int m, int bits)
    int32_t pl_round_away32(float v)
    int32_t pl_logistic_q12(int32_t q)
    int32_t pl_tanh_scaled(int32_t q, float scale)
    bint pl_quantize_multiplier(double d, int32_t *m, int32_t *e)
    int32_t pl_quantization(float low, float high, bint asymmetric, float *scale, float *inverse)
