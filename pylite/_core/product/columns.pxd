# How the sums of each column of an 8-bit product are requantized: an int32 array (PARAMETERS, size), one row for each
# Parameter.
#
# To make one, start from zeros, call set_column for each column in use, then finish_columns.  fit_columns then tries
# to prove that float32 gives the same results.
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.simd cimport memory_of, pl_columns, pl_fit, pl_slots

cdef extern from "rounding.h" nogil:
    int32_t pl_mbqm32(int32_t x, int32_t m, int e)

cdef enum Parameter:        # the arrays of pl_columns (gemm.h), which explains them
    BIAS
    MULT
    ODD
    LEFT
    RIGHT
    HALF
    SIGN
    SMALL                   # of panel i at index i
    SCALE                   # SCALE, REST and START hold the bits of floats
    REST
    START
    PARAMETERS              # their number

cdef enum:
    NO_FLOAT_FORM = -1      # as the first START: for some column, float32 gives other results
    MAX_PRODUCT = 255 * 128     # of two bytes, in magnitude; zero points add as much again to a sum


cdef inline void set_column(int32_t *rows, ptrdiff_t size, ptrdiff_t j, int64_t start, int32_t mult, int32_t shift,
                            bint zeros=False) noexcept nogil:
    """Set column j.  start: initial value of its accumulator, wrapped to int32; mult, shift: MBQM32's multiplier.

    zeros: are all its weights 0?  Converters give such columns a bias that is often too large for fit_q8.  They get
    other numbers with the same constant result: the scale sqrt(1/8) always passes fit_q8, because few of its multiples
    are close to a rounding boundary.
    """
    cdef int32_t result
    if zeros:
        result = max(-(1 << 20), min(pl_mbqm32(<int32_t>start, mult, shift), 1 << 20))
        # MBQM32 by sqrt(1/2), then a shift to the right by one, of result * sqrt(8)
        start, mult, shift = <int32_t>(result * 2.8284271247461903 + (.5 if result >= 0 else -.5)), 1518500250, -1
    rows[BIAS * size + j] = <int32_t>start
    rows[MULT * size + j] = mult
    if shift > 0:
        rows[LEFT * size + j] = shift
    elif shift < 0:
        rows[RIGHT * size + j] = -shift
        rows[HALF * size + j] = <int32_t>((<int64_t>1 << -shift) >> 1)


cdef inline void finish_columns(int32_t *rows, ptrdiff_t size) noexcept nogil:
    """Derive the rows ODD and SIGN from the others; the columns have no float form yet."""
    cdef ptrdiff_t j
    for j in range(size):
        rows[ODD * size + j] = rows[MULT * size + (j | 1)]
        rows[SIGN * size + j] = 31 if rows[RIGHT * size + j] else 32
    if size:
        rows[START * size] = NO_FLOAT_FORM


cdef inline void fit_columns(const pl_slots *slots, int32_t *rows, ptrdiff_t size, const double *real, ptrdiff_t depth,
                             int low, int high, const uint8_t *panels, ptrdiff_t nbytes) noexcept nogil:
    """Find the float form of all columns, if there is one, and the panels without a weight of -128.

    depth: number of products in a sum; low, high: the limits of results, less their zero point; real: the scales of
    FULLY_CONNECTED's float64 rule, or NULL; panels: the packed weights of the tile q8, `nbytes` in all, or NULL.
    """
    cdef int unfit = 0
    cdef pl_fit fit
    if size:
        rows[START * size] = 0
        fit.bias, fit.mult, fit.real = rows + BIAS * size, rows + MULT * size, real
        fit.left, fit.right = rows + LEFT * size, rows + RIGHT * size
        fit.low, fit.high, fit.reach = low, high, 2. * MAX_PRODUCT * depth
        slots.fit_q8(size, &fit, <float *>(rows + SCALE * size), <float *>(rows + REST * size),
                     <float *>(rows + START * size), &unfit)
        if unfit:
            rows[START * size] = NO_FLOAT_FORM
        if slots.q8.small and panels != NULL:
            slots.find_small(size // slots.q8.nr, nbytes // size * slots.q8.nr, panels, rows + SMALL * size)


cdef struct Scaling:        # how packing makes the parameters of columns
    int32_t *parameters     # (PARAMETERS, size), or NULL
    ptrdiff_t size
    const int32_t *bias     # of each channel, or NULL
    const int32_t *multipliers
    const int32_t *shifts
    ptrdiff_t step          # of multipliers and shifts; 0 if all channels share one
    bint fit                # try float32, for results from low to high
    int low, high


cdef inline int set_scaling(Scaling *s, rows, bias, multipliers, shifts, ends, ptrdiff_t channels,
                            ptrdiff_t size) except -1:
    """Fill s for `size` columns of `channels` channels.  rows: memory for the parameters.

    bias: int32 (channels,) or None; multipliers, shifts: int32 (channels,), or (1,) for all; ends: the limits of
    results less their zero point, to finish in float32 if that gives the same results, or None.
    """
    cdef ptrdiff_t count = 1 if len(multipliers) == 1 else channels
    s.parameters, s.size, s.step = <int32_t *>memory_of(rows, PARAMETERS * size * 4), size, count > 1
    s.bias = NULL if bias is None else <const int32_t *>memory_of(bias, 4 * channels)
    s.multipliers = <const int32_t *>memory_of(multipliers, 4 * count)
    s.shifts = <const int32_t *>memory_of(shifts, 4 * count)
    s.fit, (s.low, s.high) = ends is not None, ends or (0, 0)
    return 0


cdef inline void scale_column(const Scaling *s, ptrdiff_t j, ptrdiff_t channel, int64_t start,
                              bint zeros) noexcept nogil:
    """Set column j, for a channel; start: without the bias; zeros: see set_column()."""
    if s.bias != NULL:
        start += s.bias[channel]
    set_column(s.parameters, s.size, j, start, s.multipliers[channel * s.step], s.shifts[channel * s.step], zeros)


cdef inline void finish_scaling(const Scaling *s, const pl_slots *slots, ptrdiff_t depth, const uint8_t *panels,
                                ptrdiff_t nbytes) noexcept nogil:
    """Complete the parameters after scale_column(); the last arguments: see fit_columns()."""
    finish_columns(s.parameters, s.size)
    if s.fit:
        fit_columns(slots, s.parameters, s.size, NULL, depth, s.low, s.high, panels, nbytes)


cdef inline void point_columns(pl_columns *q, const int32_t *rows, ptrdiff_t size) noexcept nogil:
    """Point q at the parameters (PARAMETERS, size).  q.left stays NULL if no column shifts left (sums below 2^30)."""
    cdef ptrdiff_t i
    q.bias, q.mult, q.odd, q.left = rows + BIAS * size, rows + MULT * size, rows + ODD * size, NULL
    q.right, q.half, q.sign, q.small = (rows + RIGHT * size, rows + HALF * size, rows + SIGN * size,
                                        rows + SMALL * size)
    q.scale, q.rest, q.start = (<const float *>(rows + SCALE * size), <const float *>(rows + REST * size),
                                <const float *>(rows + START * size))
    q.fit = rows[START * size] != NO_FLOAT_FORM
    for i in range(size):
        if rows[MULT * size + i] < 0 or (rows[MULT * size + i] and rows[RIGHT * size + i] == 0):
            q.left = rows + LEFT * size


cdef inline int set_columns(pl_columns *q, parameters, ptrdiff_t depth, finish) except -1:
    """Point q at the array `parameters`, and set its limits from `finish`, see conv.ConvQ8.

    depth: of the product; with it, columns whose sums may reach 2^30 are found, which need q.left.
    """
    cdef ptrdiff_t size = parameters.size // PARAMETERS, limit = (1 << 30) - 2 * depth * MAX_PRODUCT, i
    cdef const int32_t *rows = <const int32_t *>memory_of(parameters, 4 * parameters.size)
    point_columns(q, rows, size)
    for i in range(size):
        if not -limit < rows[BIAS * size + i] < limit:
            q.left = rows + LEFT * size
    q.zero_point, q.low, q.high, q.flip = finish
    return 0
