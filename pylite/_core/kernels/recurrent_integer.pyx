"""Integer LSTM layers over a full sequence, with 16-bit or 8-bit gates (docs/numerics.md, section 10).

lstm() is the loop over time: sum_gates() sums and requantizes the gates on all threads; update_cells() and
update_state() then compute the cells and the outputs, project() the outputs of a projection.  Functions whose names end
in 8 are for 8-bit gates, which requantize the sums of each matrix separately.
"""
from libc.math cimport sqrtf
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from libc.string cimport memcpy, memset

from pylite._core.kernels.rounding cimport (
    pl_clamp32,
    pl_logistic_q12,
    pl_mbqm32,
    pl_mbqm64,
    pl_multiplier16,
    pl_rdbpot,
    pl_round_away32,
    pl_sat16,
    pl_tanh_scaled,
)
from pylite._core.kernels.recurrent_integer_shared cimport IntegerMatrix, max_columns, multiply, set_integer_matrix
from pylite._core.kernels.sequences cimport (
    CELL,
    FORGET,
    GATES,
    INPUT,
    LOCAL,
    OUTPUT,
    SequenceKernel,
    check_scratch,
    kept,
)
from pylite._core.product.division cimport MAX_MR, MAX_NR
from pylite._core.run.kernel cimport kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_slots, slots

from pylite._core.kernels.sequences import GATE_NAMES

cdef enum:
    WORK = 1 << 17          # least number of products for a thread

GATE_OPERANDS = "x", "bias", "h", "peephole", "norm", "norm_bias", "multipliers"


cdef struct Intermediate:   # of an 8-bit gate: sums of a matrix are first requantized to 8 bits
    int32_t zero            # zero point of these
    int32_t m               # multiplier (m, e) from there to the gate
    int e


cdef struct Gate:
    IntegerMatrix input, recurrent
    Intermediate from_input, from_recurrent
    float norm_scale        # of 8-bit gates
    const int16_t *peephole
    const int16_t *norm
    const int32_t *norm_bias
    int32_t peephole_m, norm_m, guard
    int peephole_e, norm_e


cdef struct Layer:          # what does not depend on shapes
    const pl_slots *slots
    Gate gates[GATES]
    IntegerMatrix projection
    const int32_t *projection_bias      # with gates8; else part of `projection`
    ptrdiff_t pieces            # that the columns of a gate are divided into
    int first                   # first gate in use: FORGET without an input gate
    int flat_peepholes          # as in the reference: rows of the gate and of c are `outputs` apart, not `cells`
    int gates8                  # are gates 8-bit?
    int cell_log2, cell_clip, projection_clip
    int32_t hidden_m, hidden_zero, h_zero
    int hidden_e


cdef int set_multipliers(Gate *g, multipliers, gate8) except -1:
    """multipliers: (m, e) of the peephole and of the normalization, and the guard; gate8: None, or as in Lstm."""
    (g.peephole_m, g.peephole_e), (g.norm_m, g.norm_e), g.guard = multipliers
    if gate8 is not None:
        of_input, of_recurrent, g.norm_scale = gate8
        g.from_input.zero, g.from_input.m, g.from_input.e = of_input
        g.from_recurrent.zero, g.from_recurrent.m, g.from_recurrent.e = of_recurrent
    return 0


cdef class Lstm(SequenceKernel):
    """An LSTM layer over a sequence: int8 inputs and outputs, int16 cells, 16-bit or 8-bit gates.

    x, y, h, c: as in SequenceKernel, int8, and int16 for c.
    Scratch: scratch, (4 * rows * cells,) int16; hidden, for a projection, (rows * cells,) int8, or twice as much with
    8-bit gates.
    sizes: (cells, outputs); zeros: zero points of (x, h, hidden); hidden_multiplier: (m, e); cell_log2: log2 of the
    scale of c; clips: (cell, projection), 0 for none; flat_peepholes: see Layer; gates8: None, or for each 8-bit gate
    (zero point, m, e) of the sums of the input, the same of the state, and the normalization's scale.
    projection, projection_bias, projection_multiplier: weights from packing.pack_weights, int32 and (m, e), or None.
    gates: the operands of each gate as {gate}_{operand}, GATE_NAMES by GATE_OPERANDS; a gate lacks those left out.
    x, h: weights for these inputs from packing.pack_weights; bias: int32; peephole, norm: int16; norm_bias: int32;
    multipliers: (m, e) of x, of h, of the peephole and of the normalization, and the guard of norm_s16.
    """
    ARRAYS = (0, None, 1, 2, 3, "scratch", "hidden")
    cdef Layer layer
    cdef const char *step_x     # the current step of x
    cdef int8_t *h
    cdef int16_t *c
    cdef int16_t *scratch       # (gates, rows, cells)
    cdef int8_t *hidden         # (rows, cells), input of the projection; with gates8 all high bytes, then all low bytes

    def __init__(self, x, y, h, c, *, scratch, hidden, sizes, zeros, hidden_multiplier, int cell_log2, clips,
                 bint flat_peepholes, gates8=None, projection=None, projection_bias=None,
                 projection_multiplier=(0, 0), **gates):
        cdef Gate *g
        cdef int i, x_zero
        if not self.start((x, None, y, h, c, scratch, hidden), sizes, 1):
            return
        self.layer.slots = slots
        self.layer.pieces = (self.cells + max_columns(slots) - 1) // max_columns(slots)
        x_zero, self.layer.h_zero, self.layer.hidden_zero = zeros
        self.layer.hidden_m, self.layer.hidden_e = hidden_multiplier
        self.layer.cell_log2, self.layer.flat_peepholes = cell_log2, flat_peepholes
        self.layer.cell_clip, self.layer.projection_clip = clips
        for i, name in enumerate(GATE_NAMES):
            g = &self.layer.gates[i]
            w, bias, r, peephole, norm, norm_bias, multipliers = [gates.get(f"{name}_{o}") for o in GATE_OPERANDS]
            if w is None:
                self.layer.first = FORGET
                continue
            set_integer_matrix(&g.input, self.owners, w, bias, self.depth, x_zero, multipliers[0])
            set_integer_matrix(&g.recurrent, self.owners, r, None, self.outputs, self.layer.h_zero, multipliers[1])
            g.peephole, g.norm = <const int16_t *>kept(self.owners, peephole), <const int16_t *>kept(self.owners, norm)
            g.norm_bias = <const int32_t *>kept(self.owners, norm_bias)
            set_multipliers(g, multipliers[2:], None if gates8 is None else gates8[i])
        if gates8 is not None:
            self.layer.gates8, self.layer.projection_bias = 1, <const int32_t *>kept(self.owners, projection_bias)
            projection_bias = None
        # `hidden` has its zero point subtracted, which the bias adds again.
        set_integer_matrix(&self.layer.projection, self.owners, projection, projection_bias, self.cells,
                           -self.layer.hidden_zero, projection_multiplier)
        check_scratch(scratch, 4 * self.rows * self.cells)
        if self.layer.projection.panels != NULL:
            check_scratch(hidden, self.rows * self.cells << self.layer.gates8)
        self.fn = <kernel_fn>lstm

    cdef void take_layer(self, SequenceKernel other):
        self.layer = (<Lstm>other).layer


cdef int lstm(Lstm s, pl_pool *pool) noexcept nogil:
    cdef int16_t scratch[LOCAL]
    cdef int8_t hidden[LOCAL]
    cdef ptrdiff_t t, r
    cdef ptrdiff_t depth = s.layer.gates[FORGET].input.product.depth + s.outputs
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * max_columns(s.layer.slots) * depth)
    s.h, s.c = <int8_t *>s.state, <int16_t *>s.cell_state
    s.scratch = <int16_t *>s.reserved[0] if s.reserved[0] != NULL else scratch
    s.hidden = <int8_t *>s.reserved[1] if s.reserved[1] != NULL else hidden
    for t in range(s.steps):
        s.step_x = s.x + t * s.x_time if s.depth else NULL
        parallel_for(pool, (GATES - s.layer.first) * s.layer.pieces, grain, <pl_range_fn>sum_gates, <void *>s)
        update_cells(s)
        update_state(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs)
    return 0


cdef void sum_gates(Lstm s, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Set pieces begin to end - 1 of the gates to bias and products of inputs and state."""
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef ptrdiff_t i, j, which, row
    cdef const Gate *g
    cdef int16_t *y
    cdef int n, rows, r
    for i in range(begin, end):
        which, j = s.layer.first + i // s.layer.pieces, i % s.layer.pieces * max_columns(s.layer.slots)
        g = &s.layer.gates[which]
        n = <int>min(max_columns(s.layer.slots), s.cells - j)
        row = 0
        while row < s.rows:
            rows = <int>min(<ptrdiff_t>s.layer.slots.q8.mr, s.rows - row)
            y = s.scratch + (which * s.rows + row) * s.cells + j
            if s.layer.gates8:
                sum_gates8(s, g, row, rows, j, n, acc, y)
                row += rows
                continue
            multiply(&g.input, <const int8_t *>s.step_x + row * s.x_row, s.x_row, rows, j, n, acc, NULL)
            for r in range(rows):
                memset(y + r * s.cells, 0, n * sizeof(int16_t))
                s.layer.slots.gate_s16(n, acc + r * MAX_NR, g.input.bias + j, g.input.m, g.input.e, y + r * s.cells)
            multiply(&g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, acc, NULL)
            for r in range(rows):
                s.layer.slots.gate_s16(n, acc + r * MAX_NR, g.recurrent.bias + j, g.recurrent.m, g.recurrent.e,
                                       y + r * s.cells)
            row += rows


cdef int16_t *activate_gate(Lstm s, int which) noexcept nogil:
    """Apply peephole, normalization and activation to a gate; returns it."""
    cdef const Gate *g = &s.layer.gates[which]
    cdef int16_t *x = s.scratch + which * s.rows * s.cells
    cdef ptrdiff_t r, step = s.outputs if s.layer.flat_peepholes else s.cells
    if s.layer.gates8:
        activate_gate8(s, g, which, x)
        return x
    if g.peephole != NULL:
        for r in range(s.rows):
            s.layer.slots.peephole_s16(<int>s.outputs, g.peephole, s.c + r * step, g.peephole_m, g.peephole_e,
                                       x + r * step)
    if g.norm != NULL:
        for r in range(s.rows):
            s.layer.slots.norm_s16(<int>s.cells, g.norm, g.norm_bias, g.norm_m, g.norm_e, g.guard, x + r * s.cells)
    if which == CELL:
        s.layer.slots.tanh_qm(<int>(s.rows * s.cells), 3, x, x)
    else:
        s.layer.slots.logistic_q3(<int>(s.rows * s.cells), x, x)
    return x


cdef void update_cells(Lstm s) noexcept nogil:
    """Update the state c from the input, forget and cell gates."""
    cdef int16_t *i = activate_gate(s, INPUT) if s.layer.first == INPUT else NULL
    cdef int16_t *f = activate_gate(s, FORGET)
    cdef int16_t *g = activate_gate(s, CELL)
    cdef int16_t *c = s.c
    cdef ptrdiff_t j, n = s.rows * s.cells
    cdef int limit = s.layer.cell_clip
    s.layer.slots.cell_s16(<int>n, i, f, g, 30 + s.layer.cell_log2, s.c)
    if limit > 0:
        for j in range(n):
            c[j] = <int16_t>pl_clamp32(c[j], -limit, limit)


cdef void update_state(Lstm s) noexcept nogil:
    """Set the state h to the outputs of the cells, or to their projection."""
    cdef int16_t *o = activate_gate(s, OUTPUT)
    cdef int16_t *t = s.scratch + CELL * s.rows * s.cells
    cdef int n = <int>(s.rows * s.cells)
    if s.layer.gates8:
        split_outputs(s, o)
    else:
        if s.layer.cell_log2 < -15:       # the reference has no tanh for this scale, and multiplies by stale scratch:
            t = s.scratch           # the input gate
        else:
            s.layer.slots.tanh_qm(n, 15 + s.layer.cell_log2, s.c, t)
        if s.layer.projection.panels == NULL:
            s.layer.slots.hidden_s8(n, o, t, s.layer.hidden_m, s.layer.hidden_e, s.layer.hidden_zero, s.h)
            return
        s.layer.slots.hidden_s8(n, o, t, s.layer.hidden_m, s.layer.hidden_e, -s.layer.hidden_zero, s.hidden)
    project(s)


cdef void project(Lstm s) noexcept nogil:
    """h = the projection of s.hidden."""
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t low[MAX_MR * MAX_NR]       # gates8: products of the low bytes
    cdef const IntegerMatrix *w = &s.layer.projection
    cdef ptrdiff_t row = 0, j, i
    cdef int32_t v
    cdef int64_t sum
    cdef int r, k, n, rows
    while row < s.rows:
        rows = <int>min(<ptrdiff_t>s.layer.slots.q8.mr, s.rows - row)
        j = 0
        while j < s.outputs:
            n = <int>min(max_columns(s.layer.slots), s.outputs - j)
            multiply(w, s.hidden + row * s.cells, s.cells, rows, j, n, acc, NULL)
            if s.layer.gates8:
                multiply(w, s.hidden + (s.rows + row) * s.cells, s.cells, rows, j, n, low, NULL)
            for r in range(rows):
                for k in range(n):
                    i = r * MAX_NR + k
                    if s.layer.gates8:
                        sum = s.layer.projection_bias[j + k] if s.layer.projection_bias != NULL else 0
                        sum += <int64_t>(acc[i] + w.bias[j + k]) * 256 + (low[i] + w.bias[j + k])
                        v = pl_mbqm64(sum, pl_multiplier16(w.m), w.e)
                    else:
                        v = pl_mbqm32(acc[i] + w.bias[j + k], w.m, w.e)
                    v = pl_clamp32(v + s.layer.h_zero, -128, 127)
                    if s.layer.projection_clip > 0:
                        v = pl_clamp32(v, -s.layer.projection_clip, s.layer.projection_clip)
                    s.h[(row + r) * s.outputs + j + k] = <int8_t>v
            j += n
        row += rows


# ---- gates in 8 bits, whose normalization and activations are computed in float32 ------------------------------
cdef void sum_gates8(Lstm s, const Gate *g, ptrdiff_t row, int rows, ptrdiff_t j, int n, int32_t *acc,
                     int16_t *y) noexcept nogil:
    """sum_gates() for cells j to j + n - 1 of `rows` rows of an 8-bit gate; y: the first one; acc: scratch."""
    cdef int32_t sums[MAX_MR * MAX_NR]
    cdef int r, k
    memset(sums, 0, rows * MAX_NR * sizeof(int32_t))
    multiply(&g.input, <const int8_t *>s.step_x + row * s.x_row, s.x_row, rows, j, n, acc, NULL)
    add_intermediate(&g.input, &g.from_input, rows, j, n, acc, sums)
    multiply(&g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, acc, NULL)
    add_intermediate(&g.recurrent, &g.from_recurrent, rows, j, n, acc, sums)
    for r in range(rows):
        for k in range(n):
            y[r * s.cells + k] = <int16_t>pl_sat16(sums[r * MAX_NR + k])


cdef void add_intermediate(const IntegerMatrix *w, const Intermediate *m, int rows, ptrdiff_t j, int n,
                           const int32_t *acc, int32_t *sums) noexcept nogil:
    """sums += acc, requantized to 8 bits, then to the scale of the gate."""
    cdef int r, k
    cdef int32_t v
    for r in range(rows * MAX_NR):
        k = r % MAX_NR
        if k < n:
            v = pl_clamp32(pl_mbqm32(acc[r] + w.bias[j + k], w.m, w.e) + m.zero, -128, 127)
            sums[r] += pl_mbqm32(v - m.zero, m.m, m.e)


cdef void activate_gate8(Lstm s, const Gate *g, int which, int16_t *x) noexcept nogil:
    """Apply normalization and activation to an 8-bit gate, in place."""
    cdef ptrdiff_t r
    for r in range(s.rows):
        normalize(s.cells, g, x + r * s.cells)
    for r in range(s.rows * s.cells):
        x[r] = <int16_t>(pl_tanh_scaled(x[r], 1.0 / 4096) if which == CELL else pl_logistic_q12(x[r]))


cdef void normalize(ptrdiff_t n, const Gate *g, int16_t *x) noexcept nogil:
    """Layer normalization of a row, in float32, step by step as in the reference."""
    cdef float bias_scale = g.norm_scale / 1024, sum = 0, squares = 0, inverse = 10000
    cdef float mean, variance, v
    cdef ptrdiff_t i
    for i in range(n):
        v = x[i]
        sum += v
        squares += v * v
    mean = sum / n
    variance = squares / n - mean * mean
    if variance != 0:
        inverse = 1 / sqrtf(variance)       # NaN if rounding made it negative; results are then 0
    for i in range(n):
        v = ((x[i] - mean) * inverse * g.norm[i] * g.norm_scale + g.norm_bias[i] * bias_scale) * 4096
        x[i] = <int16_t>pl_round_away32(max(<float>-32768, min(<float>32767, v))) if v == v else 0


cdef void split_outputs(Lstm s, const int16_t *o) noexcept nogil:
    """Set s.hidden to the 16-bit outputs of the cells: first all high bytes, then all low bytes, as int8."""
    cdef int8_t *low = s.hidden + s.rows * s.cells
    cdef ptrdiff_t i
    cdef int32_t v
    for i in range(s.rows * s.cells):
        v = pl_rdbpot(o[i] * pl_tanh_scaled(s.c[i], 1.0 / 32768), 15)      # tanh is below 0.77: the high byte fits
        low[i] = <int8_t>v
        s.hidden[i] = <int8_t>((v - low[i]) >> 8)
