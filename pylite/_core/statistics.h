/* The differences between a tensor and its reference, summed for each channel (the last axis) in a fixed order.
 *
 * Sums are double and taken row by row, so that a channel's result depends on its elements alone.  The loops over
 * channels vectorize: they have no branches, and each array is written in one place.
 */
#ifndef PL_STATISTICS_H
#define PL_STATISTICS_H
#include <stddef.h>
#include <stdint.h>

#define PL_RESTRICT __restrict__

/* Rows of `sums`, each with one double per channel. */
enum { PL_COUNT, PL_ERROR, PL_ERROR2, PL_REFERENCE2, PL_LOW, PL_HIGH, PL_SUMS };
/* Rows of `extremes`, each with one float per channel: of the error's magnitude and of the reference. */
enum { PL_MAX_ERROR, PL_MAX_REFERENCE, PL_MIN_REFERENCE, PL_EXTREMES };

/* real = scale * (q - zero_point).  An element is saturated whose value is an end of the range, lowest or highest, and
 * whose reference is beyond `low` or `high`. */
typedef struct {
    float scale;
    int32_t zero_point;
    float low, high, lowest, highest;
} pl_range;

static int pl_all_finite(const float *values, size_t count)
{
    float rest = 0;
    for (size_t i = 0; i < count; i++)
        rest += values[i] * 0;
    return rest == 0;
}

#define PL_LARGER(A, B) ((A) > (B) ? (A) : (B))
#define PL_SMALLER(A, B) ((A) < (B) ? (A) : (B))

/* One row of channels.  USED: is the element finite on both sides?  What is not adds nothing. */
#define PL_OBSERVE_ROW(REAL, USED)                                                                                     \
    for (size_t c = 0; c < channels; c++) {                                                                            \
        const float value = REAL, expected = reference[c], error = (USED) ? value - expected : 0;                      \
        const float power = (USED) ? expected : 0;                                                                     \
        error1[c] += error;                                                                                            \
        error2[c] += (double)error * error;                                                                            \
        reference2[c] += (double)power * power;                                                                        \
    }                                                                                                                  \
    for (size_t c = 0; c < channels; c++) {                                                                            \
        const float value = REAL, expected = reference[c], error = (USED) ? value - expected : 0;                      \
        largest[c] = PL_LARGER(error < 0 ? -error : error, largest[c]);                                                \
        upper[c] = PL_LARGER((USED) ? expected : upper[c], upper[c]);                                                  \
        lower[c] = PL_SMALLER((USED) ? expected : lower[c], lower[c]);                                                 \
    }                                                                                                                  \
    for (size_t c = 0; c < channels; c++) {                                                                            \
        const float value = REAL, expected = reference[c];                                                             \
        count[c] += (USED) ? 1.0 : 0.0;                                                                                \
        low[c] += ((USED) & (value <= range.lowest) & (expected < range.low)) ? 1.0 : 0.0;                             \
        high[c] += ((USED) & (value >= range.highest) & (expected > range.high)) ? 1.0 : 0.0;                          \
    }

#define PL_OBSERVE(NAME, TYPE, REAL, FINITE)                                                                           \
    static void NAME(const TYPE *PL_RESTRICT values, const float *PL_RESTRICT reference, size_t rows,                  \
                     size_t channels, pl_range range, double *PL_RESTRICT sums, float *PL_RESTRICT extremes)           \
    {                                                                                                                  \
        double *PL_RESTRICT count = sums + PL_COUNT * channels, *PL_RESTRICT error1 = sums + PL_ERROR * channels;      \
        double *PL_RESTRICT error2 = sums + PL_ERROR2 * channels, *PL_RESTRICT low = sums + PL_LOW * channels;         \
        double *PL_RESTRICT reference2 = sums + PL_REFERENCE2 * channels;                                              \
        double *PL_RESTRICT high = sums + PL_HIGH * channels;                                                          \
        float *PL_RESTRICT largest = extremes + PL_MAX_ERROR * channels;                                               \
        float *PL_RESTRICT upper = extremes + PL_MAX_REFERENCE * channels;                                             \
        float *PL_RESTRICT lower = extremes + PL_MIN_REFERENCE * channels;                                             \
        const float scale = range.scale;                                                                               \
        const int32_t zero_point = range.zero_point;                                                                   \
        const int finite = pl_all_finite(reference, rows * channels) && (FINITE);                                      \
        (void)scale, (void)zero_point;                                                                                 \
        for (size_t i = 0; i < rows; i++, values += channels, reference += channels) {                                 \
            if (finite) {                                                                                              \
                PL_OBSERVE_ROW(REAL, 1)                                                                                \
            } else {                                                                                                   \
                PL_OBSERVE_ROW(REAL, (value - value == 0) & (expected - expected == 0))                                \
            }                                                                                                          \
        }                                                                                                              \
    }

#define PL_DEQUANTIZED (float)(values[c] - zero_point) * scale
PL_OBSERVE(pl_observe_i8, int8_t, PL_DEQUANTIZED, 1)
PL_OBSERVE(pl_observe_u8, uint8_t, PL_DEQUANTIZED, 1)
PL_OBSERVE(pl_observe_i16, int16_t, PL_DEQUANTIZED, 1)
PL_OBSERVE(pl_observe_f32, float, values[c], pl_all_finite(values, rows *channels))

/* The quantized values of real ones, rounded half away from zero, and in their place what these represent. */
#define PL_ROUND_TRIP(NAME, TYPE, LOWEST, HIGHEST)                                                                     \
    static void NAME(float *PL_RESTRICT real, TYPE *PL_RESTRICT quantized, size_t count, float scale,                  \
                     int32_t zero_point)                                                                               \
    {                                                                                                                  \
        const float low = (float)(LOWEST - zero_point), high = (float)(HIGHEST - zero_point);                          \
        for (size_t i = 0; i < count; i++) {                                                                           \
            float steps = real[i] / scale;                                                                             \
            steps = steps >= low ? steps : low;                                                                        \
            steps = steps <= high ? steps : high;                                                                      \
            const int32_t rounded = (int32_t)(steps + (steps < 0 ? -0.5f : 0.5f));                                     \
            quantized[i] = (TYPE)(rounded + zero_point);                                                               \
            real[i] = (float)rounded * scale;                                                                          \
        }                                                                                                              \
    }

PL_ROUND_TRIP(pl_round_trip_i8, int8_t, -128, 127)
PL_ROUND_TRIP(pl_round_trip_u8, uint8_t, 0, 255)
PL_ROUND_TRIP(pl_round_trip_i16, int16_t, -32768, 32767)

/* Counts finite values in BINS bins around 0: bin floor((value * inverse + offset) * factor) + BINS / 2, held inside. */
enum { PL_BINS = 256 };
static void pl_count(const float *PL_RESTRICT values, size_t count, double inverse, double offset, double factor,
                     int64_t *PL_RESTRICT counts)
{
    for (size_t i = 0; i < count; i++) {
        double place = (values[i] * inverse + offset) * factor;
        if (place - place != 0)
            continue;
        place = place > -PL_BINS / 2 ? place : -PL_BINS / 2;
        place = place < PL_BINS / 2 - 1 ? place : PL_BINS / 2 - 1;
        const int bin = (int)place;
        counts[bin - (place < bin) + PL_BINS / 2]++;
    }
}

/* Exact sums: a number is split over limbs of 40 bits, of which int64 adds 2^23; what is below 2^-80 is dropped from each
 * addend, so that the order of additions never matters. */
enum { PL_LIMBS = 4 };
static const double PL_LIMB_UNIT[PL_LIMBS] = {0x1p40, 1.0, 0x1p-40, 0x1p-80};
static const double PL_LIMB_INVERSE[PL_LIMBS] = {0x1p-40, 1.0, 0x1p40, 0x1p80};

/* Adds `count` addends, finite and below 2^80, to `limbs`, PL_LIMBS rows of as many; returns whether all were such. */
static int pl_add_exactly(const double *PL_RESTRICT addends, int64_t *PL_RESTRICT limbs, size_t count)
{
    int fits = 1;
    for (size_t i = 0; i < count; i++) {
        double rest = addends[i];
        if (!(rest > -0x1p80 && rest < 0x1p80)) {
            fits = 0;
            continue;
        }
        for (int k = 0; k < PL_LIMBS; k++) {
            const int64_t limb = (int64_t)(rest * PL_LIMB_INVERSE[k]);
            limbs[k * count + i] += limb;
            rest -= (double)limb * PL_LIMB_UNIT[k];
        }
    }
    return fits;
}
#endif
