"""One step of the 8-bit basic LSTM cell, and integer SVDF."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.kernels.sequences cimport LOCAL, check_scratch
from pylite._core.kernels.recurrent_integer_shared cimport IntegerMatrix, max_columns, multiply, set_integer_matrix
from pylite._core.kernels.rounding cimport (
    pl_clamp32,
    pl_fx_shl,
    pl_rdbpot,
    pl_ruy,
    pl_sat16,
    pl_srdhm16,
)
from pylite._core.product.division cimport MAX_NR
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, pl_slots, slots


cdef class BasicLstm(Kernel):
    """One step of the basic LSTM cell: uint8 inputs and outputs with zero point 128, int16 cells in Q4.

    x: (rows, depth + cells) uint8, inputs and the state h side by side; h (rows, cells) uint8, c (rows, cells) int16:
    the state; y, c_out: the outputs, which are the next state; gates: (rows, 4 * cells) int16, an output: the gates
    before their activation; packed: from packing.pack_weights; bias: int32 (4 * cells,); multiplier: (m, e) of the
    sums; w_zero: of int8 values.
    """
    cdef const uint8_t[:, ::1] x
    cdef uint8_t[:, ::1] h, y
    cdef int16_t[:, ::1] c, c_out, gates
    cdef list owners
    cdef const pl_slots *slots
    cdef IntegerMatrix w
    cdef int w_zero

    def __init__(self, const uint8_t[:, ::1] x, uint8_t[:, ::1] h, int16_t[:, ::1] c, *, uint8_t[:, ::1] y,
                 int16_t[:, ::1] c_out, int16_t[:, ::1] gates, packed, bias, multiplier, int w_zero):
        self.x, self.h, self.c, self.y, self.c_out, self.gates = x, h, c, y, c_out, gates
        if 0 in y.shape[:2]:
            return
        self.slots, self.w_zero = slots, w_zero
        self.owners = []
        set_integer_matrix(&self.w, self.owners, packed, bias, x.shape[1], 0, multiplier)
        self.w.product.rows.bytes.flip = 0x80
        self.fn = <kernel_fn>basic_lstm


cdef int basic_lstm(BasicLstm s, pl_pool *pool) noexcept nogil:
    cdef int32_t acc[MAX_NR]
    cdef int32_t sum, term
    cdef const IntegerMatrix *w = &s.w
    cdef ptrdiff_t r, j, depth = w.product.depth, size = s.y.shape[0] * s.y.shape[1]
    cdef int n, k
    for r in range(s.y.shape[0]):
        j = 0
        while j < w.product.columns:
            n = <int>min(max_columns(s.slots), w.product.columns - j)
            multiply(w, <const int8_t *>&s.x[r, 0], depth, 1, j, n, acc, &sum)
            term = s.w_zero * (sum - s.slots.q8.offset * <int32_t>depth)
            for k in range(n):
                s.gates[r, j + k] = <int16_t>pl_sat16(pl_ruy(acc[k] + w.bias[j + k] - term, w.m, w.e))
            j += n
        basic_cells(s.slots, s.y.shape[1], &s.gates[r, 0], &s.c[r, 0], &s.h[r, 0])
    memcpy(&s.y[0, 0], &s.h[0, 0], size)
    memcpy(&s.c_out[0, 0], &s.c[0, 0], size * sizeof(int16_t))
    return 0


cdef void basic_cells(const pl_slots *table, ptrdiff_t cells, const int16_t *gates, int16_t *c,
                      uint8_t *h) noexcept nogil:
    """Update the state c and h of a row from its gates, in the order input, cell, forget, output."""
    cdef int16_t g[4][64]
    cdef int16_t t[64]
    cdef ptrdiff_t j = 0
    cdef int n, k, b
    while j < cells:
        n = <int>min(<ptrdiff_t>64, cells - j)
        for b in range(4):
            if b == 1:
                table.tanh_qm(n, 3, gates + b * cells + j, g[b])
            else:
                table.logistic_q3(n, gates + b * cells + j, g[b])
        for k in range(n):
            c[j + k] = <int16_t>pl_sat16(pl_rdbpot(pl_srdhm16(g[0][k], g[1][k]), 4) + pl_srdhm16(g[2][k], c[j + k]))
            t[k] = <int16_t>pl_fx_shl(c[j + k], 1, 16)
        table.tanh_qm(n, 3, t, t)
        for k in range(n):
            h[j + k] = <uint8_t>(128 + pl_clamp32(pl_rdbpot(pl_srdhm16(g[3][k], t[k]), 8), -128, 127))
        j += n


cdef class Svdf(Kernel):
    """Integer SVDF: projects each row of x onto `filters` features, and filters each over the last `steps` steps.

    x: (rows, depth), y: (rows, units) int8; memory: (rows * filters * steps,) int16, the state, read and written;
    newest (int16) and sums (int32): (filters,) scratch, each None if LOCAL suffices; features: from
    packing.pack_weights; time: int16 (filters, steps); bias: int32 (units,) or None; zeros: zero points of (x, y);
    multipliers: (m, e) to the scale of the memory, (m, e) to the output's scale; bytes: is the model's memory int8?
    Then features are saturated to int8, with the zero point bytes_zero.
    """
    cdef const int8_t[:, ::1] x
    cdef int8_t[:, ::1] y
    cdef int16_t[::1] past, newest
    cdef int32_t[::1] sums
    cdef const int16_t[:, ::1] time
    cdef const int32_t[::1] bias
    cdef list owners
    cdef const pl_slots *slots
    cdef IntegerMatrix features
    cdef int32_t m
    cdef int e, bytes_zero
    cdef int16_t zero
    cdef bint bytes

    def __init__(self, const int8_t[:, ::1] x, int8_t[:, ::1] y, int16_t[::1] memory, features,
                 const int16_t[:, ::1] time, const int32_t[::1] bias, *, int16_t[::1] newest, int32_t[::1] sums, zeros,
                 multipliers, bint bytes=False, int bytes_zero=0):
        self.bytes, self.bytes_zero, self.slots = bytes, bytes_zero, slots
        self.x, self.y, self.past, self.newest, self.sums, self.time, self.bias = (
            x, y, memory, newest, sums, time, bias)
        if 0 in y.shape[:2] or time.shape[1] == 0:
            return
        self.owners = []
        set_integer_matrix(&self.features, self.owners, features, None, x.shape[1], zeros[0], multipliers[0])
        self.m, self.e = multipliers[1]
        self.zero = zeros[1]
        if bias is None:
            self.bias = np.zeros(y.shape[1], np.int32)
        check_scratch(newest, time.shape[0])
        check_scratch(sums, time.shape[0])
        self.fn = <kernel_fn>svdf


cdef int svdf(Svdf s, pl_pool *pool) noexcept nogil:
    cdef int16_t local_newest[LOCAL]
    cdef int32_t local_sums[LOCAL]
    cdef int32_t acc[MAX_NR]
    cdef int16_t *newest = &s.newest[0] if s.newest is not None else local_newest
    cdef int32_t *sums = &s.sums[0] if s.sums is not None else local_sums
    cdef const IntegerMatrix *w = &s.features
    cdef ptrdiff_t filters = s.time.shape[0], steps = s.time.shape[1], units = s.y.shape[1], r, j, i
    cdef ptrdiff_t rank = filters // units
    cdef int32_t v
    cdef int n
    for r in range(s.y.shape[0]):
        j = 0
        while j < filters:
            n = <int>min(max_columns(s.slots), filters - j)
            multiply(w, &s.x[r, 0], w.product.depth, 1, j, n, acc, NULL)
            memset(newest + j, 0, n * sizeof(int16_t))
            s.slots.gate_s16(n, acc, w.bias + j, w.m, w.e, newest + j)
            j += n
        if s.bytes:
            for j in range(filters):        # as the reference: saturate, then wrap when adding the zero point
                v = <int8_t>(pl_clamp32(newest[j], -128, 127) + s.bytes_zero)
                newest[j] = <int16_t>(v - s.bytes_zero)
        s.slots.filter_s16(<int>filters, <int>steps, newest, &s.time[0, 0], &s.past[r * filters * steps], sums)
        for i in range(units):      # add up the filters of each unit; newest: now the outputs, from their zero point on
            newest[i], v = s.zero, 0
            for j in range(i * rank, (i + 1) * rank):
                v += sums[j]
            sums[i] = v
        s.slots.gate_s16(<int>units, sums, &s.bias[0], s.m, s.e, newest)
        for i in range(units):
            s.y[r, i] = <int8_t>pl_clamp32(newest[i], -128, 127)
    return 0
