# How hybrid operators quantize floats on the way: docs/numerics.md section 11.
from libc.stdint cimport int32_t

from pylite._core.simd cimport pl_slots


cdef extern from "<math.h>" nogil:
    double fabs(double x)


cdef extern from "rounding.h" nogil:
    int32_t pl_round_away64(double v)


cdef inline int32_t zero_point_of(float low, float high, float *scale) noexcept nogil:
    """Zero point and scale of int8 for numbers from low to high, 0 among them."""
    cdef double step = (<double>high - <double>low) / 255.0
    cdef double from_low = -128 - low / step
    cdef double from_high = 127 - high / step
    cdef double zero = from_low if 128 + fabs(low / step) < 127 + fabs(high / step) else from_high
    scale[0] = (high - low) / <float>255
    if zero <= -128:
        return -128
    if zero >= 127:
        return 127
    return pl_round_away64(zero)


cdef inline int32_t quantization(const pl_slots *rung, const float *x, ptrdiff_t n, bint asymmetric, float *scale,
                                 float *inverse) noexcept nogil:
    """Zero point and scale with which x is quantized, and what it is multiplied by for that."""
    cdef float low, high, span
    rung.range_f32(n, x, &low, &high)
    scale[0], inverse[0] = 1, 0
    if low == 0 and high == 0:
        return 0
    if not asymmetric:
        span = max(-low, high)
        inverse[0] = <float>127 / span
        scale[0] = span / <float>127
        return 0
    cdef int32_t zero = zero_point_of(low, high, scale)
    inverse[0] = <float>1 / scale[0]
    return zero
