"""Sums over the differences of two tensors, and exact sums of such sums: what `pylite.validation` measures with."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

cdef extern from "statistics.h" nogil:
    cdef enum:
        PL_SUMS, PL_EXTREMES, PL_LIMBS, PL_BINS
    ctypedef struct pl_range:
        float scale
        int32_t zero_point
        float low, high, lowest, highest
    void pl_observe_i8(const int8_t *, const float *, size_t, size_t, pl_range, double *, float *)
    void pl_observe_u8(const uint8_t *, const float *, size_t, size_t, pl_range, double *, float *)
    void pl_observe_i16(const int16_t *, const float *, size_t, size_t, pl_range, double *, float *)
    void pl_observe_f32(const float *, const float *, size_t, size_t, pl_range, double *, float *)
    void pl_round_trip_i8(float *, int8_t *, size_t, float, int32_t)
    void pl_round_trip_u8(float *, uint8_t *, size_t, float, int32_t)
    void pl_round_trip_i16(float *, int16_t *, size_t, float, int32_t)
    void pl_count(const float *, size_t, double, double, double, int64_t *)
    bint pl_add_exactly(const double *, int64_t *, size_t)

ctypedef fused Quantized:
    int8_t
    uint8_t
    int16_t

ctypedef fused Element:
    int8_t
    uint8_t
    int16_t
    float

SUMS = PL_SUMS              # rows of the sums of `observe`, in the order of statistics.h
EXTREMES = PL_EXTREMES      # rows of its extremes
LIMBS = PL_LIMBS            # rows of an exact sum
BINS = PL_BINS              # of a histogram


def observe(const Element[::1] values, const float[::1] reference, float scale, int32_t zero_point, float low,
            float high, float lowest, float highest, double[:, ::1] sums, float[:, ::1] extremes):
    """Add the differences of a tensor and its reference to `sums`, (SUMS, channels), and `extremes`, float32.

    values, reference: all elements, channels innermost; real = scale * (value - zero_point) unless values are float32.
    An element counts as saturated if its real value is at most `lowest` where the reference is below `low`, or at least
    `highest` where it is above `high`.
    """
    cdef size_t channels = sums.shape[1], count = values.shape[0]
    if reference.shape[0] != <Py_ssize_t>count or sums.shape[0] != PL_SUMS or extremes.shape[0] != PL_EXTREMES or (
            extremes.shape[1] != sums.shape[1] or (channels and count % channels)):
        raise ValueError("the sizes of values, reference, sums and extremes contradict each other")
    if count == 0 or channels == 0:
        return
    cdef pl_range limits = pl_range(scale=scale, zero_point=zero_point, low=low, high=high, lowest=lowest,
                                    highest=highest)
    with nogil:
        if Element is int8_t:
            pl_observe_i8(&values[0], &reference[0], count // channels, channels, limits, &sums[0, 0], &extremes[0, 0])
        elif Element is uint8_t:
            pl_observe_u8(&values[0], &reference[0], count // channels, channels, limits, &sums[0, 0], &extremes[0, 0])
        elif Element is int16_t:
            pl_observe_i16(&values[0], &reference[0], count // channels, channels, limits, &sums[0, 0],
                           &extremes[0, 0])
        else:
            pl_observe_f32(&values[0], &reference[0], count // channels, channels, limits, &sums[0, 0],
                           &extremes[0, 0])


def round_trip(float[::1] real, Quantized[::1] quantized, float scale, int32_t zero_point):
    """Quantize: fill `quantized`, rounded half away from zero and saturated; `real` becomes what it represents."""
    cdef size_t count = real.shape[0]
    if quantized.shape[0] != <Py_ssize_t>count:
        raise ValueError("the real and the quantized values differ in number")
    if count == 0:
        return
    with nogil:
        if Quantized is int8_t:
            pl_round_trip_i8(&real[0], &quantized[0], count, scale, zero_point)
        elif Quantized is uint8_t:
            pl_round_trip_u8(&real[0], &quantized[0], count, scale, zero_point)
        else:
            pl_round_trip_i16(&real[0], &quantized[0], count, scale, zero_point)


def add_exactly(const double[::1] addends, int64_t[:, ::1] limbs):
    """Add each addend to an exact sum, a column of `limbs`; False where one is not finite or reaches 2^80."""
    cdef size_t count = addends.shape[0]
    if limbs.shape[0] != PL_LIMBS or limbs.shape[1] != <Py_ssize_t>count:
        raise ValueError("limbs do not have a column for each addend")
    cdef bint fits = True
    if count:
        with nogil:
            fits = pl_add_exactly(&addends[0], &limbs[0, 0], count)
    return fits


def count(const float[::1] values, double inverse, double offset, double factor, int64_t[::1] counts):
    """Add to the BINS counts: bin floor((value * inverse + offset) * factor) + BINS / 2; finite values alone count."""
    if counts.shape[0] != PL_BINS:
        raise ValueError(f"counts has {counts.shape[0]} bins, and {PL_BINS} are needed")
    if values.shape[0]:
        with nogil:
            pl_count(&values[0], values.shape[0], inverse, offset, factor, &counts[0])
