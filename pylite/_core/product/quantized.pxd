# Rows of float32 that are quantized to bytes before they are multiplied (docs/numerics.md, section 4).
from libc.stdint cimport int32_t, uint8_t

from pylite._core.run.kernel cimport Strided
from pylite._core.simd cimport parallel_for, pl_pool, slots

cdef enum:
    GRAIN = 4096            # least number of elements that a thread quantizes


cdef struct QuantizedRows:
    const float *x
    ptrdiff_t step, depth   # floats from row to row; floats of a row
    ptrdiff_t count         # of rows
    uint8_t *q              # the quantized rows, one after the other; NULL if they stay floats
    float *scales           # of each row,
    int32_t *zeros          # and its zero point
    int asymmetric          # may zero points differ from 0?
    int flip                # quantized bytes are XORed with it
    bint done               # does an earlier kernel quantize them?


cdef inline void set_rows(QuantizedRows *r, const Strided *x, const Strided *q, const Strided *scales,
                          const Strided *zeros, ptrdiff_t count, ptrdiff_t depth, int flip) noexcept:
    """Fill r for `count` consecutive rows."""
    r.x, r.q = <const float *>x.data, <uint8_t *>q.data
    r.scales, r.zeros = <float *>scales.data, <int32_t *>zeros.data
    r.count, r.depth, r.step, r.flip = count, depth, depth, flip


cdef inline void quantize_range(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize rows begin to end - 1 of the QuantizedRows `ctx`."""
    cdef const QuantizedRows *r = <const QuantizedRows *>ctx
    slots.quantize_rows(end - begin, r.depth, r.x + begin * r.step, r.step, r.asymmetric, r.flip,
                        r.q + begin * r.depth, r.scales + begin, r.zeros + begin)


cdef inline void quantize(QuantizedRows *r, pl_pool *pool) noexcept nogil:
    """Quantize all rows."""
    parallel_for(pool, r.count, 1 + GRAIN // max(r.depth, <ptrdiff_t>1), quantize_range, r)
