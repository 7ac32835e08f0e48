"""Packing of depthwise weights."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc

from pylite._core.product.columns cimport PARAMETERS, Scaling, finish_scaling, scale_column, set_scaling
from pylite._core.product.division cimport MAX_NR, round_up
from pylite._core.simd cimport (
    PL_MAX_TAPS,
    defer_packing,
    memory_of,
    pl_block_start,
    pl_packing_job,
    pl_tap_order,
    pl_tile,
    pl_wraps,
    slots,
)

from pylite._core.kernels.packing import arranged
from pylite._core.run.memory import pooled

cdef object UINT8 = np.dtype(np.uint8)


def pack_half(w, layout=None):
    """Weights of float32 in float16, to infinity beyond its range; layout: see packing.arranged()."""
    packed = pooled(2 * w.size).view(np.float16)
    with np.errstate(over="ignore"):
        packed[...] = arranged(w, layout).reshape(-1)
    return packed


cdef struct DepthwisePacking:
    pl_packing_job job
    const uint8_t *w            # (taps, channels)
    uint8_t *packed
    Scaling scaling             # of blocks * nr columns
    ptrdiff_t channels, blocks  # blocks of nr channels
    int fh, fw, x_zero, w_zero, flip
    bint wraps                  # do blocks continue into the next pixel?  See pl_wraps


cdef void pack_depthwise(pl_packing_job *job) noexcept nogil:
    """Pack block after block: for each group of kr taps, kr weights of each channel; then set the parameters."""
    cdef DepthwisePacking *p = <DepthwisePacking *>job
    cdef const pl_tile *tile = &job.slots.dw8
    cdef int16_t order[4 * PL_MAX_TAPS]
    cdef int taps = pl_tap_order(tile, p.fh, p.fw, order), t
    cdef int32_t total[MAX_NR]
    cdef int32_t any_weight[MAX_NR]
    cdef int32_t channels[MAX_NR]
    cdef bint words = tile.bytes == 2
    cdef ptrdiff_t nr = tile.nr, b, i, first, channel
    cdef int64_t zero = p.x_zero + (0 if words else tile.offset)
    cdef const uint8_t *line
    cdef int8_t value
    for b in range(p.blocks):
        for i in range(nr):
            channel = tile.order[i] if tile.order != NULL else i
            channel = (b * nr + channel) % p.channels if p.wraps else pl_block_start(b, nr, p.channels) + channel
            channels[i] = <int32_t>channel
            total[i] = any_weight[i] = 0
        for t in range(taps):
            if order[t] < 0:
                continue
            line = p.w + order[t] * p.channels
            first = b * taps * nr + t // tile.kr * nr * tile.kr + t % tile.kr
            for i in range(nr):
                if channels[i] < p.channels:
                    value = <int8_t>(line[channels[i]] ^ p.flip)
                    total[i] += value
                    any_weight[i] |= value
                    if words:
                        (<int16_t *>p.packed)[first + i * tile.kr] = value - p.w_zero
                    else:
                        p.packed[first + i * tile.kr] = value
        for i in range(nr):
            if channels[i] < p.channels:
                scale_column(&p.scaling, b * nr + i, channels[i], -zero * (total[i] - p.fh * p.fw * p.w_zero),
                             not (any_weight[i] or p.w_zero))
    finish_scaling(&p.scaling, job.slots, p.fh * p.fw, NULL, 0)


def pack_depthwise_q8(w, bias, multipliers, shifts, int x_zero, int w_zero, filter, ends=None, layout=None):
    """Pack weights (1, fh, fw, c) of an 8-bit depthwise convolution for the slot depthwise_q8, in blocks of channels.

    bias: int32 (c,) or None; multipliers, shifts: int32 (c,), or (1,) for all; zero points: of int8 values; filter: as
    in ConvQ8; ends: see packing.pack_q8; layout: see packing.arranged().
    Returns (weights, parameters), which are ready after finish_packing().
    """
    cdef int fh = filter[0], fw = filter[1]
    cdef int16_t order[4 * PL_MAX_TAPS]
    cdef Scaling scaling
    if fh * fw > PL_MAX_TAPS:
        raise ValueError(f"a depthwise filter of {fh} x {fw} taps; at most {PL_MAX_TAPS} are supported")
    w = arranged(w, layout)
    cdef ptrdiff_t c = w.shape[3], nr = slots.dw8.nr
    cdef ptrdiff_t wraps = pl_wraps(&slots.dw8, c, fh, fw, filter[3], filter[5])
    cdef ptrdiff_t blocks = wraps if wraps else round_up(c, nr) // nr
    cdef ptrdiff_t packed_bytes = pl_tap_order(&slots.dw8, fh, fw, order) * blocks * nr * slots.dw8.bytes
    flat, packed, rows = np.ascontiguousarray(w), pooled(packed_bytes), pooled(PARAMETERS * blocks * nr * 4)
    set_scaling(&scaling, rows, bias, multipliers, shifts, ends, c, blocks * nr)
    cdef void *values = memory_of(flat, fh * fw * c)
    cdef void *to = memory_of(packed, packed_bytes)
    cdef DepthwisePacking *p
    if fh * fw * c:
        p = <DepthwisePacking *>calloc(1, sizeof(DepthwisePacking))
        if p == NULL:
            raise MemoryError("no memory to pack weights")
        p.job.run, p.w, p.packed, p.scaling = pack_depthwise, <const uint8_t *>values, <uint8_t *>to, scaling
        p.channels, p.blocks, p.wraps = c, blocks, wraps != 0
        p.fh, p.fw, p.x_zero, p.w_zero, p.flip = fh, fw, x_zero, w_zero, 0x80 if w.dtype == UINT8 else 0
        defer_packing(&p.job, 8 * fh * fw * c, (flat, packed, rows, bias, multipliers, shifts))
    return packed, rows.view(np.int32).reshape(PARAMETERS, -1)


def pack_taps(w, dtype, layout=None):
    """Weights (1, fh, fw, c) as int16 or float32 (taps, c); layout: see packing.arranged()."""
    w = arranged(w, layout)
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), dtype)
