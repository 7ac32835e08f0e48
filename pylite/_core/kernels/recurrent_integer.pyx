"""Recurrent layers of integers: LSTM with 16-bit gates, the older LSTM cell of bytes, and SVDF."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.gemm cimport MAX_MR, MAX_NR, padded
from pylite._core.simd cimport (
    PL_SLACK,
    parallel_for,
    pl_gathered,
    pl_pool,
    pl_rows,
    pl_slots,
    pl_tile,
    slots,
)

cdef enum:
    DEPTH = 1024            # elements of a row that are multiplied at a time
    WORK = 1 << 17          # products below which threads cost more than they save
    GATES = 4               # input, forget, cell, output
    LOCAL = 4096            # elements of scratch that the stack has room for; ops/lstm_integer.py counts on it


cdef extern from "rounding.h" nogil:
    int32_t pl_clamp32(int32_t v, int32_t low, int32_t high)
    int32_t pl_sat16(int32_t v)
    int32_t pl_shl32(int32_t x, int left)
    int32_t pl_mul_high(int32_t x, int32_t m)
    int32_t pl_mbqm32(int32_t x, int32_t m, int e)
    int32_t pl_rdbpot(int32_t x, int k)
    int32_t pl_srdhm16(int32_t a, int32_t b)
    int32_t pl_fx_shl(int32_t x, int k, int bits)


cdef struct Matrix:         # weights (columns, depth) and what is added to their sums
    const uint8_t *panels   # NULL: there are none
    const int32_t *bias
    ptrdiff_t columns, depth, deep, wide
    int32_t m
    int e


cdef list set_matrix(Matrix *w, packed, bias, ptrdiff_t columns, ptrdiff_t depth, int zero, multiplier):
    """Point w at what matmul.pack_weights gave; zero: the zero point of the rows it meets.  Returns what is kept."""
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] start
    w.panels = NULL
    if packed is None or columns == 0:
        return []
    panels = packed[0]
    total = -(zero + slots.q8.offset) * packed[1].astype(np.int64)
    start = (total if bias is None else total + bias).astype(np.int32)
    w.panels = &panels[0] if panels.shape[0] else <const uint8_t *>&start[0]
    w.bias, w.columns, w.depth = &start[0], columns, depth
    w.deep, w.wide = padded(depth, slots.q8.ka), padded(columns, slots.q8.nv)
    w.m, w.e = multiplier
    return [panels, start]


cdef void multiply(const pl_slots *rung, const Matrix *w, const int8_t *x, ptrdiff_t step, int rows, ptrdiff_t j, int n,
                   int flip, int32_t *acc, int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = rows of x times columns j .. j + n; sums: of each row with the tile's offset, or NULL."""
    cdef uint8_t strip[2 * MAX_MR * DEPTH + 2 * PL_SLACK]
    cdef pl_rows shape
    cdef const uint8_t *src[MAX_MR]
    cdef int32_t part[MAX_MR]
    cdef const pl_tile *t = &rung.q8
    cdef ptrdiff_t k = 0, piece, size, width = min(<ptrdiff_t>t.nr, w.wide - j)
    cdef int r
    memset(acc, 0, rows * MAX_NR * sizeof(int32_t))
    if sums != NULL:
        memset(sums, 0, rows * sizeof(int32_t))
    while k < w.depth:
        piece = min(<ptrdiff_t>DEPTH, w.depth - k)
        size = padded(piece, t.ka)
        for r in range(rows):
            src[r] = <const uint8_t *>x + r * step + k
        rung.strip_q8(rows, 1, piece, src, flip, strip, size)
        shape = pl_gathered(size)
        rung.gemm_s32(rows, n, &shape, strip, w.panels + j * w.deep + k * width, acc, MAX_NR)
        if sums != NULL:
            rung.sums_q8(rows, &shape, piece, strip, part)
            for r in range(rows):
                sums[r] += part[r]
        k += piece


cdef struct Gate:
    Matrix input, recurrent
    const int16_t *peephole
    const int16_t *norm
    const int32_t *norm_bias
    int32_t peephole_m, norm_m, guard
    int peephole_e, norm_e


cdef struct Layer:
    pl_slots slots
    Gate gates[GATES]
    Matrix projection
    const char *x           # (time, rows, depth), strides in bytes
    char *y
    ptrdiff_t x_time, x_row, y_time, y_row
    ptrdiff_t steps, rows, cells, outputs, panels
    int first               # of the gates in use: 1 without an input gate
    int flat                # peepholes run over the rows as if they were one
    int cell_log2, cell_clip, projection_clip
    int32_t hidden_m, hidden_zero, h_zero
    int hidden_e
    int8_t *h
    int16_t *c
    int16_t *room           # (gates, rows, cells)
    int8_t *hidden          # (rows, cells), where there is a projection


cdef class Lstm(Kernel):
    """A layer of LSTM cells over a sequence: int8 in and out, cells and gates of int16.

    x, y: (time, rows, depth) int8, any strides but contiguous rows; h (rows * outputs) int8 and c (rows * cells) int16:
    the state, which is read and written; room: (4 * rows * cells,) int16 scratch; hidden: (rows * cells,) int8 scratch
    for a projection; each may be None up to LOCAL elements; sizes: (cells, outputs); zeros: of (x, h, hidden);
    hidden_multiplier: (m, e); cell_log2: the binary logarithm of c's scale; clips: (cell, projection), 0 for none;
    flat: see Layer.  operands: for each gate in the order input, forget, cell, output the weights of x from
    matmul.pack_weights, their bias (int32 or None), the weights of h, peephole and layer normalization (int16 or None),
    the latter's bias (int32 or None), and the multipliers ((m, e) of x, of h, of the peephole, of the normalization,
    and guard); then the projection's weights, bias, (m, e).
    """
    cdef const int8_t[:, :, :] x
    cdef int8_t[:, :, :] y
    cdef int8_t[::1] h, hidden
    cdef int16_t[::1] c, room
    cdef list kept
    cdef Layer state

    def __init__(self, const int8_t[:, :, :] x, int8_t[:, :, :] y, int8_t[::1] h, int16_t[::1] c,
                 int16_t[::1] room, int8_t[::1] hidden, sizes, zeros, hidden_multiplier, int cell_log2, clips,
                 bint flat, *operands):
        cdef Layer *s = &self.state
        cdef Gate *g
        cdef int i, x_zero
        cdef const int16_t[::1] words
        cdef const int32_t[::1] longs
        self.x, self.y, self.h, self.c, self.room, self.hidden = x, y, h, c, room, hidden
        self.kept = []
        s.cells, s.outputs = sizes
        s.steps, s.rows = y.shape[0], y.shape[1]
        if 0 in y.shape[:3] or s.cells == 0:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots[0]
        s.panels = (s.cells + s.slots.q8.nr - 1) // s.slots.q8.nr
        x_zero, s.h_zero, s.hidden_zero = zeros
        s.hidden_m, s.hidden_e = hidden_multiplier
        s.cell_log2, s.flat = cell_log2, flat
        s.cell_clip, s.projection_clip = clips
        s.x, s.x_time, s.x_row = <const char *>&x[0, 0, 0] if x.shape[2] else NULL, x.strides[0], x.strides[1]
        s.y, s.y_time, s.y_row = <char *>&y[0, 0, 0], y.strides[0], y.strides[1]
        s.h, s.c = &h[0], &c[0]
        for i in range(GATES):
            g = &s.gates[i]
            part = list(operands[7 * i:7 * i + 7])
            w, bias, r, peephole, norm, norm_bias, multipliers = part
            if w is None:
                s.first = 1
                continue
            self.kept += set_matrix(&g.input, w, bias, s.cells, x.shape[2], x_zero, multipliers[0])
            self.kept += set_matrix(&g.recurrent, r, None, s.cells, s.outputs, s.h_zero, multipliers[1])
            g.peephole_m, g.peephole_e = multipliers[2]
            g.norm_m, g.norm_e = multipliers[3]
            g.guard = multipliers[4]
            if peephole is not None:
                words = peephole
                g.peephole = &words[0]
                self.kept.append(words)
            if norm is not None:
                words, longs = norm, norm_bias
                g.norm, g.norm_bias = &words[0], &longs[0]
                self.kept += [words, longs]
        part = list(operands[7 * GATES:])
        w, bias, multiplier = part
        # What is projected is less its zero point by then, which the bias brings back.
        self.kept += set_matrix(&s.projection, w, bias, s.outputs, s.cells, -s.hidden_zero, multiplier)
        check_room(room, 4 * s.rows * s.cells)
        check_room(hidden, s.rows * s.cells if s.projection.panels != NULL else 0)
        self.fn = <kernel_fn>lstm


def check_room(given, Py_ssize_t size):
    if (LOCAL if given is None else len(given)) < size:
        raise ValueError(f"{size} elements of scratch are needed")


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int lstm(Lstm self, pl_pool *pool) noexcept nogil:
    cdef int16_t room[LOCAL]
    cdef int8_t hidden[LOCAL]
    cdef Layer *s = &self.state
    cdef ptrdiff_t t, r
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * s.slots.q8.nr * (s.gates[1].input.depth + s.outputs))
    s.room, s.hidden = room, hidden
    if self.room is not None:
        s.room = &self.room[0]
    if self.hidden is not None:
        s.hidden = &self.hidden[0]
    for t in range(s.steps):
        s.x = <const char *>&self.x[0, 0, 0] + t * s.x_time if self.x.shape[2] else NULL
        parallel_for(pool, (GATES - s.first) * s.panels, grain, gate_panels, s)
        cells(s)
        output(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs)
    return 0


cdef void gate_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """What the products give, panel by panel."""
    cdef Layer *s = <Layer *>ctx
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef ptrdiff_t i, j, at, row
    cdef const Gate *g
    cdef int16_t *y
    cdef int n, rows, r
    for i in range(begin, end):
        at, j = s.first + i // s.panels, i % s.panels * s.slots.q8.nr
        g = &s.gates[at]
        n = <int>min(<ptrdiff_t>s.slots.q8.nr, s.cells - j)
        row = 0
        while row < s.rows:
            rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
            y = s.room + (at * s.rows + row) * s.cells + j
            multiply(&s.slots, &g.input, <const int8_t *>s.x + row * s.x_row, s.x_row, rows, j, n, 0, acc, NULL)
            for r in range(rows):
                memset(y + r * s.cells, 0, n * sizeof(int16_t))
                s.slots.gate_s16(n, acc + r * MAX_NR, g.input.bias + j, g.input.m, g.input.e, y + r * s.cells)
            multiply(&s.slots, &g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, 0, acc, NULL)
            for r in range(rows):
                s.slots.gate_s16(n, acc + r * MAX_NR, g.recurrent.bias + j, g.recurrent.m, g.recurrent.e,
                                 y + r * s.cells)
            row += rows


cdef int16_t *gate(Layer *s, int which) noexcept nogil:
    """Peephole, normalization and activation of a gate."""
    cdef const Gate *g = &s.gates[which]
    cdef int16_t *x = s.room + which * s.rows * s.cells
    cdef ptrdiff_t r, step = s.outputs if s.flat else s.cells
    if g.peephole != NULL:
        for r in range(s.rows):
            s.slots.peephole_s16(<int>s.outputs, g.peephole, s.c + r * step, g.peephole_m, g.peephole_e, x + r * step)
    if g.norm != NULL:
        for r in range(s.rows):
            s.slots.norm_s16(<int>s.cells, g.norm, g.norm_bias, g.norm_m, g.norm_e, g.guard, x + r * s.cells)
    if which == 2:
        s.slots.tanh_qm(<int>(s.rows * s.cells), 3, x, x)
    else:
        s.slots.logistic_q3(<int>(s.rows * s.cells), x, x)
    return x


cdef void cells(Layer *s) noexcept nogil:
    cdef int16_t *i = gate(s, 0) if s.first == 0 else NULL
    cdef int16_t *f = gate(s, 1)
    cdef int16_t *g = gate(s, 2)
    cdef ptrdiff_t j, n = s.rows * s.cells
    s.slots.cell_s16(<int>n, i, f, g, 30 + s.cell_log2, s.c)
    if s.cell_clip > 0:
        for j in range(n):
            s.c[j] = <int16_t>pl_clamp32(s.c[j], -s.cell_clip, s.cell_clip)


cdef void output(Layer *s) noexcept nogil:
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int16_t *o = gate(s, 3)
    cdef int16_t *t = s.room + 2 * s.rows * s.cells
    cdef const Matrix *w = &s.projection
    cdef ptrdiff_t row = 0, j
    cdef int n = <int>(s.rows * s.cells), r, rows, k
    cdef int32_t v
    s.slots.tanh_qm(n, 15 + s.cell_log2, s.c, t)
    if w.panels == NULL:
        s.slots.hidden_s8(n, o, t, s.hidden_m, s.hidden_e, s.hidden_zero, s.h)
        return
    s.slots.hidden_s8(n, o, t, s.hidden_m, s.hidden_e, -s.hidden_zero, s.hidden)
    while row < s.rows:
        rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
        j = 0
        while j < s.outputs:
            n = <int>min(<ptrdiff_t>s.slots.q8.nr, s.outputs - j)
            multiply(&s.slots, w, s.hidden + row * s.cells, s.cells, rows, j, n, 0, acc, NULL)
            for r in range(rows):
                for k in range(n):
                    v = pl_mbqm32(acc[r * MAX_NR + k] + w.bias[j + k], w.m, w.e) + s.h_zero
                    v = pl_clamp32(v, -128, 127)
                    if s.projection_clip > 0:
                        v = pl_clamp32(v, -s.projection_clip, s.projection_clip)
                    s.h[(row + r) * s.outputs + j + k] = <int8_t>v
            j += n
        row += rows


cdef struct Basic:
    pl_slots slots
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
    """One step of the older LSTM cell: uint8 in and out with the zero point 128, state of int16 in Q4.

    x (rows, depth), h (rows, cells) uint8, c (rows, cells) int16: the state, which becomes the output's; y, c_out: the
    outputs; both: (rows, depth + cells) uint8, receives x and h; gates: (rows, 4 * cells) int16, receives the gates
    before their activation; packed: from matmul.pack_weights; bias: int32 (4 * cells,); multiplier: (m, e); w_zero: as
    of int8.
    """
    cdef const uint8_t[:, ::1] x
    cdef uint8_t[:, ::1] h, y, both
    cdef int16_t[:, ::1] c, c_out, gates
    cdef list kept
    cdef Basic state

    def __init__(self, const uint8_t[:, ::1] x, uint8_t[:, ::1] h, int16_t[:, ::1] c, uint8_t[:, ::1] y,
                 int16_t[:, ::1] c_out, uint8_t[:, ::1] both, int16_t[:, ::1] gates, packed, bias, multiplier,
                 int w_zero):
        cdef Basic *s = &self.state
        self.x, self.h, self.c, self.y, self.c_out, self.both, self.gates = x, h, c, y, c_out, both, gates
        s.rows, s.cells, s.x_depth = y.shape[0], y.shape[1], x.shape[1]
        if 0 in y.shape[:2]:
            self.fn = <kernel_fn>nothing
            return
        s.slots, s.w_zero = slots[0], w_zero
        self.kept = set_matrix(&s.w, packed, bias, 4 * s.cells, both.shape[1], 0, multiplier)
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
        memcpy(s.both + r * w.depth, s.x + r * s.x_depth, s.x_depth)
        memcpy(s.both + r * w.depth + s.x_depth, s.h + r * s.cells, s.cells)
        j = 0
        while j < w.columns:
            n = <int>min(<ptrdiff_t>s.slots.q8.nr, w.columns - j)
            multiply(&s.slots, w, <const int8_t *>s.both + r * w.depth, w.depth, 1, j, n, 0x80, acc, &sum)
            term = s.w_zero * (sum - s.slots.q8.offset * <int32_t>w.depth)
            for k in range(n):      # double rounding with halves up at the second step
                v = pl_mul_high(pl_shl32(acc[k] + w.bias[j + k] - term, left), w.m)
                if right > 0:
                    v = (v + (1 << (right - 1))) >> right
                s.gates[r * w.columns + j + k] = <int16_t>pl_sat16(v)
            j += n
        basic_cells(s, s.gates + r * w.columns, s.c + r * s.cells, s.h + r * s.cells)
    memcpy(s.y, s.h, s.rows * s.cells)
    memcpy(s.c_out, s.c, s.rows * s.cells * sizeof(int16_t))
    return 0


cdef void basic_cells(const Basic *s, const int16_t *gates, int16_t *c, uint8_t *h) noexcept nogil:
    """Blocks in the order input, cell, forget, output; 64 cells at a time."""
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


cdef struct Filters:
    pl_slots slots
    Matrix features
    const int8_t *x
    int8_t *y
    const int16_t *time
    const int32_t *bias
    int16_t *memory
    int16_t *newest
    int32_t *sums
    ptrdiff_t rows, filters, steps, units, rank
    int32_t m, zero
    int e


cdef class Svdf(Kernel):
    """A layer that filters features over time, of int8 with memory of int16, or with what memory of int8 stands for.

    x: (rows, depth), y: (rows, units) int8; memory: (rows * filters * steps,) int16, which is read and written; newest
    (int16) and sums (int32): (filters,) scratch, may be None up to LOCAL; features: from matmul.pack_weights; time:
    int16 (filters, steps); bias: int32 (units,) or None; zeros: (x, y); multipliers: (m, e) to the memory's scale,
    (m, e) to the output's; bytes: the features are to fit int8 with the zero point `bytes_zero`.
    """
    cdef const int8_t[:, ::1] x
    cdef int8_t[:, ::1] y
    cdef int16_t[::1] memory, newest
    cdef int32_t[::1] sums
    cdef const int16_t[:, ::1] time
    cdef const int32_t[::1] bias
    cdef list kept
    cdef Filters state
    cdef bint bytes
    cdef int bytes_zero

    def __init__(self, const int8_t[:, ::1] x, int8_t[:, ::1] y, int16_t[::1] memory, int16_t[::1] newest,
                 int32_t[::1] sums, features, const int16_t[:, ::1] time, const int32_t[::1] bias, zeros, multipliers,
                 bint bytes=False, int bytes_zero=0):
        self.bytes, self.bytes_zero = bytes, bytes_zero
        cdef Filters *s = &self.state
        self.x, self.y, self.memory, self.newest, self.sums, self.time, self.bias = (
            x, y, memory, newest, sums, time, bias)
        s.rows, s.units, s.filters, s.steps = y.shape[0], y.shape[1], time.shape[0], time.shape[1]
        if 0 in y.shape[:2] or s.steps == 0:
            self.fn = <kernel_fn>nothing
            return
        s.slots, s.rank = slots[0], s.filters // s.units
        self.kept = set_matrix(&s.features, features, None, s.filters, x.shape[1], zeros[0], multipliers[0])
        s.m, s.e = multipliers[1]
        s.zero = zeros[1]
        s.x, s.y, s.time = &x[0, 0] if x.shape[1] else NULL, &y[0, 0], &time[0, 0]
        s.bias = &bias[0] if bias is not None else NULL
        s.memory = &memory[0]
        check_room(newest, s.filters)
        check_room(sums, s.filters)
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
            n = <int>min(<ptrdiff_t>s.slots.q8.nr, s.filters - j)
            multiply(&s.slots, w, s.x + r * w.depth, w.depth, 1, j, n, 0, acc, NULL)
            memset(s.newest + j, 0, n * sizeof(int16_t))
            s.slots.gate_s16(n, acc, w.bias + j, w.m, w.e, s.newest + j)
            j += n
        if self.bytes:
            for j in range(s.filters):      # clamped, and then wrapped with its zero point
                v = <int8_t>(pl_clamp32(s.newest[j], -128, 127) + self.bytes_zero)
                s.newest[j] = <int16_t>(v - self.bytes_zero)
        s.slots.filter_s16(<int>s.filters, <int>s.steps, s.newest, s.time, s.memory + r * s.filters * s.steps, s.sums)
        for i in range(s.units):
            v = s.bias[i] if s.bias != NULL else 0
            for j in range(s.rank):
                v += s.sums[i * s.rank + j]
            s.y[r * s.units + i] = <int8_t>pl_clamp32(pl_mbqm32(v, s.m, s.e) + s.zero, -128, 127)
    return 0
