"""Kernels that sum and count the differences between two tensors, for `pylite.validation`."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, pl_range, pl_slots, pl_unary_fn, slots, unary_kernel


cdef extern from "statistics.h" nogil:
    cdef enum:
        PL_COUNTS, PL_SUMS, PL_EXTREMES, PL_LIMBS, PL_BINS
    ctypedef struct pl_grid:
        float scale
        int32_t zero_point
    ctypedef struct pl_observed:
        const char *values
        const float *reference
        size_t elements, channels, size
        pl_unary_fn dequantize
        pl_grid grid
        pl_range range
        int64_t *counts
        int64_t *limbs
        float *extremes
    void pl_observe(const pl_slots *, const pl_observed *)
    ctypedef struct pl_histogram:
        int64_t *counts
        int32_t *exponent
        double inverse, offset
    void pl_count_all(const pl_observed *, const pl_histogram *)
    void pl_add_exactly(const double *, int64_t *, size_t, int64_t *, size_t)

COUNTS, SUMS, EXTREMES = PL_COUNTS, PL_SUMS, PL_EXTREMES    # rows, in the order of statistics.h
LIMBS = PL_LIMBS            # of an exact sum
BINS = PL_BINS              # of a histogram
_DEQUANTIZE = {"int8": "dequantize_i8", "uint8": "dequantize_u8", "int16": "dequantize_i16"}
_SIZES = {"int8": 1, "uint8": 1, "int16": 2, "float32": 4}


cdef class Observe(Kernel):
    """Adds the differences between a tensor and its float32 reference in one run to running sums.

    values: the bytes of all elements, of `dtype`, channels innermost; grid: (scale, zero point), real = scale * (value
    - zero point), not used for float32; limits: (low, high, lowest, highest): an element is saturated if its real value
    is at most `lowest` and the reference below `low`, or at least `highest` and the reference above `high`.
    counts: (COUNTS, channels); limbs: (LIMBS, SUMS * channels); extremes: (EXTREMES, channels).
    ValueError if their sizes do not fit together.
    """
    cdef pl_observed observed
    cdef const pl_slots *slots
    cdef tuple kept

    def __init__(self, str dtype, const uint8_t[::1] values, const float[::1] reference, tuple grid, tuple limits,
                 int64_t[:, ::1] counts, int64_t[:, ::1] limbs, float[:, ::1] extremes):
        cdef size_t channels = counts.shape[1], size = _SIZES[dtype], count = values.shape[0] // size
        cdef pl_range *limit = &self.observed.range
        if reference.shape[0] != <Py_ssize_t>count or counts.shape[0] != PL_COUNTS or limbs.shape[0] != PL_LIMBS or (
                extremes.shape[0] != PL_EXTREMES or extremes.shape[1] != counts.shape[1]
                or limbs.shape[1] != PL_SUMS * counts.shape[1] or (channels and count % channels)):
            raise ValueError("the sizes of values, reference and sums contradict each other")
        self.kept = values, reference, counts, limbs, extremes
        self.slots = slots
        self.observed.elements = count if channels else 0
        self.observed.channels, self.observed.size = channels, size
        self.observed.grid.scale, self.observed.grid.zero_point = grid
        limit.low, limit.high, limit.lowest, limit.highest = limits
        self.observed.dequantize = NULL if dtype == "float32" else unary_kernel(_DEQUANTIZE[dtype])
        if self.observed.elements:
            self.observed.values, self.observed.reference = <const char *>&values[0], &reference[0]
            self.observed.counts, self.observed.limbs = &counts[0, 0], &limbs[0, 0]
            self.observed.extremes = &extremes[0, 0]
        self.fn = <kernel_fn>run_observe


cdef int run_observe(Observe self, pl_pool *pool) noexcept nogil:
    if self.observed.elements:
        pl_observe(self.slots, &self.observed)
    return 0


cdef class Count(Kernel):
    """Counts a tensor's elements, its reference's elements and the errors of one run in three histograms.

    observed: the kernel with the tensor and the reference.  counts: (3, BINS); exponents: (3,), of the bins' widths.  A
    finite value v falls into bin floor((v * inverse + offset) * 2**-exponent) + BINS / 2; if a value lies beyond the
    bins, pairs of bins are joined first.  Errors have no offset.
    """
    cdef pl_observed observed
    cdef pl_histogram histograms[3]
    cdef tuple kept

    def __init__(self, Observe observed, double inverse, double offset, int64_t[:, ::1] counts, int32_t[::1] exponents):
        if exponents.shape[0] != 3 or counts.shape[0] != 3 or counts.shape[1] != PL_BINS:
            raise ValueError(f"three histograms of {PL_BINS} bins, and three exponents, are needed")
        self.kept = observed, counts, exponents
        self.observed = observed.observed
        for kind in range(3):
            self.histograms[kind] = pl_histogram(&counts[kind, 0], &exponents[kind], inverse,
                                                 offset if kind < 2 else 0)
        self.fn = <kernel_fn>run_count


cdef int run_count(Count self, pl_pool *pool) noexcept nogil:
    pl_count_all(&self.observed, self.histograms)
    return 0


def add_exactly(const double[::1] addends, int64_t[:, ::1] limbs, int64_t[::1] too_large):
    """Add each addend to the exact sum in its column of `limbs`; count it in too_large if not finite or at least
    2^80."""
    if limbs.shape[0] != PL_LIMBS or not limbs.shape[1] == too_large.shape[0] == addends.shape[0]:
        raise ValueError("limbs do not have a column for each addend")
    if addends.shape[0]:
        pl_add_exactly(&addends[0], &limbs[0, 0], addends.shape[0], &too_large[0], addends.shape[0])
