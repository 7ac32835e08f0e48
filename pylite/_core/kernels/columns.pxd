# The parameters that requantize the columns of 8-bit products.
#
# They are an array int32 (PARAMETERS, size): bias, mult, odd, left, right, half and sign of pl_columns, and the bits of
# its scale, rest and start.  It begins as zeros.  Call set_column for each column in use, then finish_columns, and
# fit_columns to try float32.
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.simd cimport pl_slots

cdef extern from "rounding.h" nogil:
    int32_t pl_mbqm32(int32_t x, int32_t m, int e)

cdef enum:
    PARAMETERS = 10
    UNFIT = -1              # the start of the first column where float32 does not fit


cdef inline void set_column(int32_t *rows, ptrdiff_t size, ptrdiff_t j, int64_t start, int32_t mult,
                            int32_t shift) noexcept nogil:
    """start: of the accumulator, wrapped to int32; mult, shift: of MBQM32."""
    rows[j] = <int32_t>start
    rows[size + j] = mult
    if shift > 0:
        rows[3 * size + j] = shift
    elif shift < 0:
        rows[4 * size + j] = -shift
        rows[5 * size + j] = <int32_t>((<int64_t>1 << -shift) >> 1)


cdef inline void set_constant(int32_t *rows, ptrdiff_t size, ptrdiff_t j, int64_t start, int32_t mult,
                              int32_t shift) noexcept nogil:
    """A column whose weights are all 0, restated with small numbers: its bias is often too large for float32.

    The root of an eighth is a scale that fits float32: few of its steps are close to a whole number.
    """
    cdef int32_t result = max(-(1 << 20), min(pl_mbqm32(<int32_t>start, mult, shift), 1 << 20))
    # twice the result before it is shifted
    set_column(rows, size, j, <int32_t>(result * 2.8284271247461903 + (.5 if result >= 0 else -.5)), 1518500250, -1)


cdef inline void finish_columns(int32_t *rows, ptrdiff_t size) noexcept nogil:
    cdef ptrdiff_t j
    for j in range(size):
        rows[2 * size + j] = rows[size + (j | 1)]
        rows[6 * size + j] = 31 if rows[4 * size + j] else 32
    if size:
        rows[9 * size] = UNFIT


cdef inline void fit_columns(const pl_slots *slots, int32_t *rows, ptrdiff_t size, const double *real, ptrdiff_t depth,
                             int low, int high, const uint8_t *panels, ptrdiff_t nbytes) noexcept nogil:
    """Try to finish these columns of sums of `depth` products in float32, with results between low and high.

    real: the scales of FULLY_CONNECTED, or NULL; panels: of the weights, or NULL.
    """
    cdef int unfit = 0
    if size:
        rows[9 * size] = 0
        slots.fit_q8(size, rows, rows + size, rows + 3 * size, rows + 4 * size, real, 2. * 255 * 128 * depth, low, high,
                     panels, nbytes, <float *>(rows + 7 * size), <float *>(rows + 8 * size), <float *>(rows + 9 * size),
                     &unfit)
        if unfit:
            rows[9 * size] = UNFIT
