"""One step of the 8-bit basic LSTM cell, and integer SVDF."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.kernels.recurring cimport LOCAL, check_scratch
from pylite._core.kernels.recurring_integer cimport Matrix, max_columns, multiply, set_matrix
from pylite._core.kernels.rounding cimport (
    pl_clamp32,
    pl_fx_shl,
    pl_mul_high,
    pl_rdbpot,
    pl_sat16,
    pl_shl32,
    pl_srdhm16,
)
from pylite._core.product.tasks cimport MAX_NR
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, pl_slots, slots


cdef struct Basic:
    const pl_slots *slots
    Matrix w
    ptrdiff_t rows, x_depth, cells
    const uint8_t *x
    uint8_t *h
    int16_t *c
    uint8_t *y
    int16_t *c_out
    uint8_t *both
    int16_t *gates
    int w_zero


cdef class BasicLstm(Kernel):
    """One step of the basic LSTM cell: uint8 inputs and outputs with zero point 128, int16 cells in Q4.

    x: (rows, depth) uint8; h (rows, cells) uint8, c (rows, cells) int16: the state; y, c_out: the outputs, which are
    the next state; both: (rows, depth + cells) uint8, an output: x and h side by side; gates: (rows, 4 * cells) int16,
    an output: the gates before their activation; packed: from packing.pack_weights; bias: int32 (4 * cells,);
    multiplier: (m, e) of the sums; w_zero: as of int8.
    """
    cdef const uint8_t[:, ::1] x
    cdef uint8_t[:, ::1] h, y, both
    cdef int16_t[:, ::1] c, c_out, gates
    cdef list owners
    cdef Basic state

    def __init__(self, const uint8_t[:, ::1] x, uint8_t[:, ::1] h, int16_t[:, ::1] c, *, uint8_t[:, ::1] y,
                 int16_t[:, ::1] c_out, uint8_t[:, ::1] both, int16_t[:, ::1] gates, packed, bias, multiplier,
                 int w_zero):
        cdef Basic *s = &self.state
        self.x, self.h, self.c, self.y, self.c_out, self.both, self.gates = x, h, c, y, c_out, both, gates
        s.rows, s.cells, s.x_depth = y.shape[0], y.shape[1], x.shape[1]
        if 0 in y.shape[:2]:
            return
        s.slots, s.w_zero = slots, w_zero
        self.owners = set_matrix(&s.w, packed, bias, 4 * s.cells, both.shape[1], 0, multiplier, 0x80)
        s.x, s.h, s.c = &x[0, 0] if x.shape[1] else NULL, &h[0, 0], &c[0, 0]
        s.y, s.c_out, s.both, s.gates = &y[0, 0], &c_out[0, 0], &both[0, 0], &gates[0, 0]
        self.fn = <kernel_fn>basic_lstm


cdef int basic_lstm(BasicLstm self, pl_pool *pool) noexcept nogil:
    cdef Basic *s = &self.state
    cdef int32_t acc[MAX_NR]
    cdef int32_t sum, term, v
    cdef const Matrix *w = &s.w
    cdef ptrdiff_t r, j
    cdef int n, k, left = w.e if w.e > 0 else 0, right = -w.e if w.e < 0 else 0
    for r in range(s.rows):
        memcpy(s.both + r * w.product.depth, s.x + r * s.x_depth, s.x_depth)
        memcpy(s.both + r * w.product.depth + s.x_depth, s.h + r * s.cells, s.cells)
        j = 0
        while j < w.product.columns:
            n = <int>min(max_columns(s.slots), w.product.columns - j)
            multiply(w, <const int8_t *>s.both + r * w.product.depth, w.product.depth, 1, j, n, acc, &sum)
            term = s.w_zero * (sum - s.slots.q8.offset * <int32_t>w.product.depth)
            for k in range(n):      # rounds twice, as the reference; halves go up in the second step
                v = pl_mul_high(pl_shl32(acc[k] + w.bias[j + k] - term, left), w.m)
                if right > 0:
                    v = (v + (1 << (right - 1))) >> right
                s.gates[r * w.product.columns + j + k] = <int16_t>pl_sat16(v)
            j += n
        basic_cells(s, s.gates + r * w.product.columns, s.c + r * s.cells, s.h + r * s.cells)
    memcpy(s.y, s.h, s.rows * s.cells)
    memcpy(s.c_out, s.c, s.rows * s.cells * sizeof(int16_t))
    return 0


cdef void basic_cells(const Basic *s, const int16_t *gates, int16_t *c, uint8_t *h) noexcept nogil:
    """Update the state c and h of a row from its gates, in the order input, cell, forget, output."""
    cdef int16_t g[4][64]
    cdef int16_t t[64]
    cdef ptrdiff_t j = 0
    cdef int n, k, b
    while j < s.cells:
        n = <int>min(<ptrdiff_t>64, s.cells - j)
        for b in range(4):
            if b == 1:
                s.slots.tanh_qm(n, 3, gates + b * s.cells + j, g[b])
            else:
                s.slots.logistic_q3(n, gates + b * s.cells + j, g[b])
        for k in range(n):
            c[j + k] = <int16_t>pl_sat16(pl_rdbpot(pl_srdhm16(g[0][k], g[1][k]), 4) + pl_srdhm16(g[2][k], c[j + k]))
            t[k] = <int16_t>pl_fx_shl(c[j + k], 1, 16)
        s.slots.tanh_qm(n, 3, t, t)
        for k in range(n):
            h[j + k] = <uint8_t>(128 + pl_clamp32(pl_rdbpot(pl_srdhm16(g[3][k], t[k]), 8), -128, 127))
        j += n


cdef struct Filters:        # of an SVDF layer: filters = units * rank
    const pl_slots *slots
    Matrix features
    const int8_t *x
    int8_t *y
    const int16_t *time
    const int32_t *bias
    int16_t *memory
    int16_t *newest
    int32_t *sums
    ptrdiff_t rows, filters, steps, units, rank
    int32_t m
    int e
    int16_t zero


cdef class Svdf(Kernel):
    """Integer SVDF: projects each row of x onto `filters` features, and filters each over the last `steps` steps.

    x: (rows, depth), y: (rows, units) int8; memory: (rows * filters * steps,) int16, the state, read and written;
    newest (int16) and sums (int32): (filters,) scratch, each None if LOCAL suffices; features: from
    packing.pack_weights; time: int16 (filters, steps); bias: int32 (units,) or None; zeros: zero points of (x, y);
    multipliers: (m, e) to the scale of the memory, (m, e) to that of the output; bytes: is the model's memory int8?
    Then features are saturated to int8, with the zero point bytes_zero.
    """
    cdef const int8_t[:, ::1] x
    cdef int8_t[:, ::1] y
    cdef int16_t[::1] memory, newest
    cdef int32_t[::1] sums
    cdef const int16_t[:, ::1] time
    cdef const int32_t[::1] bias
    cdef list owners
    cdef Filters state
    cdef bint bytes
    cdef int bytes_zero

    def __init__(self, const int8_t[:, ::1] x, int8_t[:, ::1] y, int16_t[::1] memory, features,
                 const int16_t[:, ::1] time, const int32_t[::1] bias, *, int16_t[::1] newest, int32_t[::1] sums, zeros,
                 multipliers, bint bytes=False, int bytes_zero=0):
        self.bytes, self.bytes_zero = bytes, bytes_zero
        cdef Filters *s = &self.state
        self.x, self.y, self.memory, self.newest, self.sums, self.time, self.bias = (
            x, y, memory, newest, sums, time, bias)
        s.rows, s.units, s.filters, s.steps = y.shape[0], y.shape[1], time.shape[0], time.shape[1]
        if 0 in y.shape[:2] or s.steps == 0:
            return
        s.slots, s.rank = slots, s.filters // s.units
        self.owners = set_matrix(&s.features, features, None, s.filters, x.shape[1], zeros[0], multipliers[0])
        s.m, s.e = multipliers[1]
        s.zero = zeros[1]
        s.x, s.y, s.time = &x[0, 0] if x.shape[1] else NULL, &y[0, 0], &time[0, 0]
        if bias is None:
            self.bias = np.zeros(s.units, np.int32)
        s.bias = &self.bias[0]
        s.memory = &memory[0]
        check_scratch(newest, s.filters)
        check_scratch(sums, s.filters)
        self.fn = <kernel_fn>svdf


cdef int svdf(Svdf self, pl_pool *pool) noexcept nogil:
    cdef int16_t newest[LOCAL]
    cdef int32_t sums[LOCAL]
    cdef Filters *s = &self.state
    cdef int32_t acc[MAX_NR]
    cdef const Matrix *w = &s.features
    cdef ptrdiff_t r, j, i
    cdef int32_t v
    cdef int n
    s.newest, s.sums = newest, sums
    if self.newest is not None:
        s.newest = &self.newest[0]
    if self.sums is not None:
        s.sums = &self.sums[0]
    for r in range(s.rows):
        j = 0
        while j < s.filters:
            n = <int>min(max_columns(s.slots), s.filters - j)
            multiply(w, s.x + r * w.product.depth, w.product.depth, 1, j, n, acc, NULL)
            memset(s.newest + j, 0, n * sizeof(int16_t))
            s.slots.gate_s16(n, acc, w.bias + j, w.m, w.e, s.newest + j)
            j += n
        if self.bytes:
            for j in range(s.filters):      # as the reference: saturate, then wrap when adding the zero point
                v = <int8_t>(pl_clamp32(s.newest[j], -128, 127) + self.bytes_zero)
                s.newest[j] = <int16_t>(v - self.bytes_zero)
        s.slots.filter_s16(<int>s.filters, <int>s.steps, s.newest, s.time, s.memory + r * s.filters * s.steps, s.sums)
        for i in range(s.units):
            s.newest[i] = s.zero
            if s.rank > 1:
                v = 0
                for j in range(s.rank):
                    v += s.sums[i * s.rank + j]
                s.sums[i] = v
        s.slots.gate_s16(<int>s.units, s.sums, s.bias, s.m, s.e, s.newest)
        for i in range(s.units):
            s.y[r * s.units + i] = <int8_t>pl_clamp32(s.newest[i], -128, 127)
    return 0
