# How hybrid operators quantize floats on the way: docs/numerics.md section 11.
from libc.stdint cimport int32_t

from pylite._core.simd cimport pl_slots


cdef extern from "rounding.h" nogil:
    int32_t pl_quantization(float low, float high, bint asymmetric, float *scale, float *inverse)


cdef inline int32_t quantization(const pl_slots *rung, const float *x, ptrdiff_t n, bint asymmetric, float *scale,
                                 float *inverse) noexcept nogil:
    """Zero point and scale with which x is quantized, and what it is multiplied by for that."""
    cdef float low, high
    rung.range_f32(n, x, &low, &high)
    return pl_quantization(low, high, asymmetric, scale, inverse)
