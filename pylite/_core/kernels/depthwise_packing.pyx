"""Packing of depthwise weights."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc

from pylite._core.product.columns cimport PARAMETERS, finish_columns, fit_columns, set_column, set_constant_column
from pylite._core.product.tasks cimport MAX_NR, round_up
from pylite._core.simd cimport (
    PL_MAX_TAPS,
    defer_packing,
    memory_of,
    pl_block_start,
    pl_packing_task,
    pl_tap_order,
    pl_tile,
    pl_wraps,
    slots,
)

from pylite._core.run.memory import pooled

cdef object UINT8 = np.dtype(np.uint8)


cdef struct DepthwisePacking:
    pl_packing_task task
    const uint8_t *w            # (taps, channels)
    uint8_t *packed
    int32_t *parameters         # (PARAMETERS, blocks * nr)
    const int32_t *bias
    const int32_t *multipliers
    const int32_t *shifts
    ptrdiff_t step              # of multipliers and shifts; 0 if all channels share one
    ptrdiff_t channels, blocks  # blocks of nr channels
    int fh, fw, x_zero, w_zero, flip, low, high
    bint wraps, fit             # wraps: blocks go on into the next pixel, see pl_wraps; fit: try float32


cdef void pack_depthwise(pl_packing_task *task) noexcept nogil:
    """Pack block after block: for each group of kr taps, kr weights of each channel; then set the parameters."""
    cdef DepthwisePacking *p = <DepthwisePacking *>task
    cdef const pl_tile *tile = &task.slots.dw8
    cdef int16_t order[4 * PL_MAX_TAPS]
    cdef int taps = pl_tap_order(tile, p.fh, p.fw, order), t
    cdef int32_t total[MAX_NR]
    cdef int32_t any_weight[MAX_NR]
    cdef int32_t channels[MAX_NR]
    cdef bint words = tile.bytes == 2
    cdef ptrdiff_t nr = tile.nr, size = p.blocks * nr, b, i, first, channel
    cdef int64_t zero = p.x_zero + (0 if words else tile.offset), start
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
            channel = channels[i]
            if channel >= p.channels:
                continue
            start = (0 if p.bias == NULL else p.bias[channel]) - zero * (total[i] - p.fh * p.fw * p.w_zero)
            if any_weight[i] or p.w_zero:
                set_column(p.parameters, size, b * nr + i, start, p.multipliers[channel * p.step],
                           p.shifts[channel * p.step])
            else:
                set_constant_column(p.parameters, size, b * nr + i, start, p.multipliers[channel * p.step],
                                    p.shifts[channel * p.step])
    finish_columns(p.parameters, size)
    if p.fit:
        fit_columns(task.slots, p.parameters, size, NULL, p.fh * p.fw, p.low, p.high, NULL, 0)


def pack_depthwise_q8(w, bias, multipliers, shifts, int x_zero, int w_zero, filter, ends=None):
    """Pack weights (1, fh, fw, c) of an 8-bit depthwise convolution for the slot depthwise_q8, in blocks of channels.

    bias: int32 (c,) or None; multipliers, shifts: int32 (c,), or (1,) for all; zero points: as of int8; filter: as in
    ConvQ8; ends: see packing.pack_q8.
    Returns (weights, parameters), which are ready after finish_packing().
    """
    cdef int fh = filter[0], fw = filter[1], low = 0, high = 0
    cdef int16_t order[4 * PL_MAX_TAPS]
    if fh * fw > PL_MAX_TAPS:
        raise ValueError(f"a depthwise filter of {fh} x {fw} taps; at most {PL_MAX_TAPS} are supported")
    cdef ptrdiff_t c = w.shape[3], nr = slots.dw8.nr
    cdef ptrdiff_t wraps = pl_wraps(&slots.dw8, c, fh, fw, filter[3], filter[5])
    cdef ptrdiff_t blocks = wraps if wraps else round_up(c, nr) // nr
    cdef ptrdiff_t packed_bytes = pl_tap_order(&slots.dw8, fh, fw, order) * blocks * nr * slots.dw8.bytes
    cdef ptrdiff_t nbytes = PARAMETERS * blocks * nr * 4
    flat, packed, rows = np.ascontiguousarray(w), pooled(packed_bytes), pooled(nbytes)
    parameters = rows.view(np.int32).reshape(PARAMETERS, -1)
    if ends is not None:
        low, high = ends
    cdef void *values = memory_of(flat, fh * fw * c)
    cdef void *start = NULL if bias is None else memory_of(bias, 4 * c)
    cdef ptrdiff_t one = 1 if len(multipliers) == 1 else c
    cdef void *m = memory_of(multipliers, 4 * one)
    cdef void *e = memory_of(shifts, 4 * one)
    cdef void *to = memory_of(packed, packed_bytes)
    cdef void *columns = memory_of(rows, nbytes)
    if not fh * fw * c:
        return packed, parameters
    cdef DepthwisePacking *p = <DepthwisePacking *>calloc(1, sizeof(DepthwisePacking))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.task.run = pack_depthwise
    p.w, p.packed = <const uint8_t *>values, <uint8_t *>to
    p.parameters, p.bias = <int32_t *>columns, <const int32_t *>start
    p.multipliers, p.shifts, p.step = <const int32_t *>m, <const int32_t *>e, one > 1
    p.channels, p.blocks, p.wraps = c, blocks, wraps != 0
    p.fh, p.fw, p.x_zero, p.w_zero, p.flip = fh, fw, x_zero, w_zero, 0x80 if w.dtype == UINT8 else 0
    p.fit, p.low, p.high = ends is not None, low, high
    defer_packing(&p.task, 8 * fh * fw * c, (flat, packed, rows, bias, multipliers, shifts))
    return packed, parameters


def pack_depthwise_s16(w):
    """Weights (1, fh, fw, c) as int16 (taps, c)."""
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), np.int16)


def pack_depthwise_hybrid(w):
    """Weights (1, fh, fw, c) as float32 (taps, c)."""
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), np.float32)
