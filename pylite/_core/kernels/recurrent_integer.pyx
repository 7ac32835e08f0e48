"""Integer LSTM layers, with gates of 16 or 8 bits."""
from libc.math cimport sqrtf
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from libc.string cimport memcpy, memset

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn, nothing, placed
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
from pylite._core.kernels.recurring cimport LOCAL, check_scratch
from pylite._core.kernels.recurring_integer cimport Matrix, most_columns, multiply, set_matrix
from pylite._core.product.tasks cimport MAX_MR, MAX_NR
from pylite._core.simd cimport parallel_for, pl_pool, pl_slots, slots

cdef enum:
    WORK = 1 << 17          # products: the parallel threshold
    GATES = 4               # input, forget, cell, output

GATE_OPERANDS = "x", "bias", "h", "peephole", "norm", "norm_bias", "multipliers"


cdef struct Middle:         # the zero point and multiplier of 8-bit sums, and the multiplier from there to the gate
    int32_t zero, m
    int e


cdef struct Gate:
    Matrix input, recurrent
    Middle from_input, from_recurrent
    float norm_scale        # of gates in 8 bits
    const int16_t *peephole
    const int16_t *norm
    const int32_t *norm_bias
    int32_t peephole_m, norm_m, guard
    int peephole_e, norm_e


cdef struct Layer:
    const pl_slots *slots
    Gate gates[GATES]
    Matrix projection
    const char *inputs      # (time, rows, depth), strides in bytes
    const char *x           # of the present step
    char *y
    ptrdiff_t x_time, x_row, y_time, y_row, depth
    ptrdiff_t steps, rows, cells, outputs
    ptrdiff_t pieces        # of the columns of a gate
    int first               # the first gate in use: 1 without an input gate
    int flat                # peepholes are indexed over all rows as if they were one
    int narrow              # gates have 8 bits
    const int32_t *projection_bias      # of a narrow layer
    int cell_log2, cell_clip, projection_clip
    int32_t hidden_m, hidden_zero, h_zero
    int hidden_e
    int8_t *h
    int16_t *c
    int16_t *scratch        # (gates, rows, cells)
    int8_t *hidden          # (rows, cells), with a projection; twice as much in a narrow layer
    int16_t *reserved       # the same beyond what the stack holds, or NULL
    int8_t *reserved_hidden


cdef class Lstm(Kernel):
    """A layer of LSTM cells over a sequence: int8 in and out, cells of int16, gates of int16 or int8.

    x, y: (time, rows, depth) int8, any strides but contiguous rows.
    h (rows * outputs) int8 and c (rows * cells) int16: the state, which is read and written.
    Scratch, each None up to LOCAL elements: scratch, (4 * rows * cells,) int16; hidden, (rows * cells,) int8 with a
    projection, twice as much with gates of int8.
    sizes: (cells, outputs); zeros: of (x, h, hidden); hidden_multiplier: (m, e); cell_log2: log2 of the scale of c;
    clips: (cell, projection), 0 for none; flat: see Layer; narrow: None, or for gates of int8 the argument of
    set_middle for each of them.
    projection, projection_bias, projection_multiplier: weights from packing.pack_weights, int32 and (m, e), or None.
    gates: the operands of the input, forget, cell and output gate by name: input_x and input_h, the weights of x and of
    h from packing.pack_weights, input_bias (int32), input_peephole and input_norm (int16), input_norm_bias (int32), and
    input_multipliers ((m, e) of x, of h, of the peephole, of the normalization, and guard).  Gates lack what is left
    out.
    """
    ARRAYS = (0, 1, 2, 3, "scratch", "hidden")
    cdef list kept          # weights,
    cdef object states      # h and c, where they are not in the arena
    cdef Layer state

    def __init__(self, const int8_t[:, :, :] x, int8_t[:, :, :] y, int8_t[::1] h, int16_t[::1] c, *,
                 int16_t[::1] scratch, int8_t[::1] hidden, sizes, zeros, hidden_multiplier, int cell_log2, clips,
                 bint flat, narrow=None, projection=None, projection_bias=None, projection_multiplier=(0, 0), **gates):
        cdef Layer *s = &self.state
        cdef Gate *g
        cdef int i, x_zero
        cdef const int16_t[::1] words
        cdef const int32_t[::1] longs
        self.memory, self.states, self.kept = (x, y, scratch, hidden), (h, c), []
        s.cells, s.outputs = sizes
        s.steps, s.rows = y.shape[0], y.shape[1]
        if 0 in y.shape[:3] or s.cells == 0:
            return
        s.slots = slots
        s.pieces = (s.cells + most_columns(slots) - 1) // most_columns(slots)
        x_zero, s.h_zero, s.hidden_zero = zeros
        s.hidden_m, s.hidden_e = hidden_multiplier
        s.cell_log2, s.flat = cell_log2, flat
        s.cell_clip, s.projection_clip = clips
        s.inputs, s.depth = <const char *>&x[0, 0, 0] if x.shape[2] else NULL, x.shape[2]
        s.x_time, s.x_row = x.strides[0], x.strides[1]
        s.y, s.y_time, s.y_row = <char *>&y[0, 0, 0], y.strides[0], y.strides[1]
        s.h, s.c = &h[0], &c[0]
        for i, name in enumerate(("input", "forget", "cell", "output")):
            g = &s.gates[i]
            w, bias, r, peephole, norm, norm_bias, multipliers = [gates.get(f"{name}_{o}") for o in GATE_OPERANDS]
            if w is None:
                s.first = 1
                continue
            self.kept += set_matrix(&g.input, w, bias, s.cells, x.shape[2], x_zero, multipliers[0])
            self.kept += set_matrix(&g.recurrent, r, None, s.cells, s.outputs, s.h_zero, multipliers[1])
            g.peephole_m, g.peephole_e = multipliers[2]
            g.norm_m, g.norm_e = multipliers[3]
            g.guard = multipliers[4]
            if narrow is not None:
                set_middle(g, narrow[i])
            if peephole is not None:
                words = peephole
                g.peephole = &words[0]
                self.kept.append(words)
            if norm is not None:
                words, longs = norm, norm_bias
                g.norm, g.norm_bias = &words[0], &longs[0]
                self.kept += [words, longs]
        if narrow is not None:
            s.narrow = 1
            if projection_bias is not None:
                longs = projection_bias
                s.projection_bias = &longs[0]
                self.kept.append(longs)
                projection_bias = None
        # The zero point was subtracted from the input of the projection; the bias adds it again.
        self.kept += set_matrix(&s.projection, projection, projection_bias, s.outputs, s.cells, -s.hidden_zero,
                                projection_multiplier)
        check_scratch(scratch, 4 * s.rows * s.cells)
        check_scratch(hidden, s.rows * s.cells << s.narrow if s.projection.panels != NULL else 0)
        s.reserved = &scratch[0] if scratch is not None else NULL
        s.reserved_hidden = &hidden[0] if hidden is not None else NULL
        self.fn = <kernel_fn>lstm

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const Layer *like = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef Lstm made
        cdef Layer *s
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or x.nbytes == 0 or y.nbytes == 0
                or x.shape[2] != like.depth or y.shape[1] != like.rows
                or (arrays[4] == NULL) != (like.reserved == NULL)
                or (arrays[5] == NULL) != (like.reserved_hidden == NULL)):
            return None
        made = Lstm.__new__(Lstm)
        made.kept, made.state, made.fn = self.kept, self.state, self.fn
        s = &made.state
        s.steps, s.inputs, s.x_time, s.x_row = y.shape[0], x.at, x.strides[0], x.strides[1]
        s.y, s.y_time, s.y_row = y.at, y.strides[0], y.strides[1]
        if arrays[2] == NULL or arrays[3] == NULL:
            made.states = self.states
        s.h, s.c = <int8_t *>placed(arrays[2], s.h), <int16_t *>placed(arrays[3], s.c)
        s.reserved = <int16_t *>placed(arrays[4], s.reserved)
        s.reserved_hidden = <int8_t *>placed(arrays[5], s.reserved_hidden)
        return made


cdef int lstm(Lstm self, pl_pool *pool) noexcept nogil:
    cdef int16_t scratch[LOCAL]
    cdef int8_t hidden[LOCAL]
    cdef Layer *s = &self.state
    cdef ptrdiff_t t, r
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * most_columns(s.slots) * (s.gates[1].input.product.depth + s.outputs))
    s.scratch = s.reserved if s.reserved != NULL else scratch
    s.hidden = s.reserved_hidden if s.reserved_hidden != NULL else hidden
    for t in range(s.steps):
        s.x = s.inputs + t * s.x_time if s.depth else NULL
        parallel_for(pool, (GATES - s.first) * s.pieces, grain, gate_pieces, s)
        cells(s)
        output(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs)
    return 0


cdef void gate_pieces(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Bias and products of inputs and state."""
    cdef Layer *s = <Layer *>ctx
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef ptrdiff_t i, j, at, row
    cdef const Gate *g
    cdef int16_t *y
    cdef int n, rows, r
    for i in range(begin, end):
        at, j = s.first + i // s.pieces, i % s.pieces * most_columns(s.slots)
        g = &s.gates[at]
        n = <int>min(most_columns(s.slots), s.cells - j)
        row = 0
        while row < s.rows:
            rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
            y = s.scratch + (at * s.rows + row) * s.cells + j
            if s.narrow:
                narrow_sums(s, g, row, rows, j, n, acc, y)
                row += rows
                continue
            multiply(&g.input, <const int8_t *>s.x + row * s.x_row, s.x_row, rows, j, n, acc, NULL)
            for r in range(rows):
                memset(y + r * s.cells, 0, n * sizeof(int16_t))
                s.slots.gate_s16(n, acc + r * MAX_NR, g.input.bias + j, g.input.m, g.input.e, y + r * s.cells)
            multiply(&g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, acc, NULL)
            for r in range(rows):
                s.slots.gate_s16(n, acc + r * MAX_NR, g.recurrent.bias + j, g.recurrent.m, g.recurrent.e,
                                 y + r * s.cells)
            row += rows


cdef int16_t *gate(Layer *s, int which) noexcept nogil:
    """Peephole, normalization and activation of a gate."""
    cdef const Gate *g = &s.gates[which]
    cdef int16_t *x = s.scratch + which * s.rows * s.cells
    cdef ptrdiff_t r, step = s.outputs if s.flat else s.cells
    if s.narrow:
        narrow_gate(s, g, which, x)
        return x
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
    cdef int16_t *c = s.c
    cdef ptrdiff_t j, n = s.rows * s.cells
    cdef int limit = s.cell_clip
    s.slots.cell_s16(<int>n, i, f, g, 30 + s.cell_log2, s.c)
    if limit > 0:
        for j in range(n):
            c[j] = <int16_t>pl_clamp32(c[j], -limit, limit)


cdef void output(Layer *s) noexcept nogil:
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int16_t *o = gate(s, 3)
    cdef int16_t *t = s.scratch + 2 * s.rows * s.cells
    cdef const Matrix *w = &s.projection
    cdef ptrdiff_t row = 0, j
    cdef int n = <int>(s.rows * s.cells), r, rows, k
    cdef int32_t v
    if s.narrow:
        narrow_output(s, o)
        return
    if s.cell_log2 < -15:       # the reference has no tanh for such a scale: it multiplies by what its scratch holds
        t = s.scratch           # the input gate
    else:
        s.slots.tanh_qm(n, 15 + s.cell_log2, s.c, t)
    if w.panels == NULL:
        s.slots.hidden_s8(n, o, t, s.hidden_m, s.hidden_e, s.hidden_zero, s.h)
        return
    s.slots.hidden_s8(n, o, t, s.hidden_m, s.hidden_e, -s.hidden_zero, s.hidden)
    while row < s.rows:
        rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
        j = 0
        while j < s.outputs:
            n = <int>min(most_columns(s.slots), s.outputs - j)
            multiply(w, s.hidden + row * s.cells, s.cells, rows, j, n, acc, NULL)
            for r in range(rows):
                for k in range(n):
                    v = pl_mbqm32(acc[r * MAX_NR + k] + w.bias[j + k], w.m, w.e) + s.h_zero
                    v = pl_clamp32(v, -128, 127)
                    if s.projection_clip > 0:
                        v = pl_clamp32(v, -s.projection_clip, s.projection_clip)
                    s.h[(row + r) * s.outputs + j + k] = <int8_t>v
            j += n
        row += rows


# ---- gates in 8 bits, whose normalization and activations are computed in float32 ------------------------------
cdef void set_middle(Gate *g, parameters):
    """parameters: (zero point, m, e) of the sums of the input, the same of the state; the normalization's scale."""
    x, h, scale = parameters
    g.from_input.zero, g.from_input.m, g.from_input.e = x
    g.from_recurrent.zero, g.from_recurrent.m, g.from_recurrent.e = h
    g.norm_scale = scale


cdef void narrow_sums(const Layer *s, const Gate *g, ptrdiff_t row, int rows, ptrdiff_t j, int n, int32_t *acc,
                      int16_t *y) noexcept nogil:
    """The sums of `rows` rows for cells j .. j + n of a gate; y: the first of them, rows s.cells apart."""
    cdef int32_t sums[MAX_MR * MAX_NR]
    cdef int r, k
    memset(sums, 0, rows * MAX_NR * sizeof(int32_t))
    multiply(&g.input, <const int8_t *>s.x + row * s.x_row, s.x_row, rows, j, n, acc, NULL)
    add_middle(&g.input, &g.from_input, rows, j, n, acc, sums)
    multiply(&g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, acc, NULL)
    add_middle(&g.recurrent, &g.from_recurrent, rows, j, n, acc, sums)
    for r in range(rows):
        for k in range(n):
            y[r * s.cells + k] = <int16_t>pl_sat16(sums[r * MAX_NR + k])


cdef void add_middle(const Matrix *w, const Middle *m, int rows, ptrdiff_t j, int n, const int32_t *acc,
                     int32_t *sums) noexcept nogil:
    cdef int r, k
    cdef int32_t v
    for r in range(rows * MAX_NR):
        k = r % MAX_NR
        if k < n:
            v = pl_clamp32(pl_mbqm32(acc[r] + w.bias[j + k], w.m, w.e) + m.zero, -128, 127)
            sums[r] += pl_mbqm32(v - m.zero, m.m, m.e)


cdef void narrow_gate(const Layer *s, const Gate *g, int which, int16_t *x) noexcept nogil:
    """Normalization and activation of a gate, in place."""
    cdef ptrdiff_t r
    for r in range(s.rows):
        normalize(s.cells, g, x + r * s.cells)
    for r in range(s.rows * s.cells):
        x[r] = <int16_t>(pl_tanh_scaled(x[r], 1.0 / 4096) if which == 2 else pl_logistic_q12(x[r]))


cdef void normalize(ptrdiff_t n, const Gate *g, int16_t *x) noexcept nogil:
    """Layer normalization of a row, in the order and the width of the reference's steps."""
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
        inverse = 1 / sqrtf(variance)       # NaN of a negative variance, which gives 0 below
    for i in range(n):
        v = ((x[i] - mean) * inverse * g.norm[i] * g.norm_scale + g.norm_bias[i] * bias_scale) * 4096
        x[i] = <int16_t>pl_round_away32(max(<float>-32768, min(<float>32767, v))) if v == v else 0


cdef void narrow_output(Layer *s, const int16_t *o) noexcept nogil:
    """The state from the output gate and the cells.  The input of a projection has 16 bits, multiplied byte by byte."""
    cdef int32_t high[MAX_MR * MAX_NR]
    cdef int32_t low[MAX_MR * MAX_NR]
    cdef const Matrix *w = &s.projection
    cdef int8_t *lower = s.hidden + s.rows * s.cells
    cdef ptrdiff_t i, row = 0, j
    cdef int32_t v
    cdef int64_t sum
    cdef int r, k, n, rows
    for i in range(s.rows * s.cells):
        v = pl_rdbpot(o[i] * pl_tanh_scaled(s.c[i], 1.0 / 32768), 15)      # tanh is below 0.77: the high byte fits
        lower[i] = <int8_t>v
        s.hidden[i] = <int8_t>((v - lower[i]) >> 8)
    while row < s.rows:
        rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
        j = 0
        while j < s.outputs:
            n = <int>min(most_columns(s.slots), s.outputs - j)
            multiply(w, s.hidden + row * s.cells, s.cells, rows, j, n, high, NULL)
            multiply(w, lower + row * s.cells, s.cells, rows, j, n, low, NULL)
            for r in range(rows):
                for k in range(n):
                    i = r * MAX_NR + k
                    sum = s.projection_bias[j + k] if s.projection_bias != NULL else 0
                    sum += <int64_t>(high[i] + w.bias[j + k]) * 256 + (low[i] + w.bias[j + k])
                    v = pl_clamp32(pl_mbqm64(sum, pl_multiplier16(w.m), w.e) + s.h_zero, -128, 127)
                    if s.projection_clip > 0:
                        v = pl_clamp32(v, -s.projection_clip, s.projection_clip)
                    s.h[(row + r) * s.outputs + j + k] = <int8_t>v
            j += n
        row += rows
