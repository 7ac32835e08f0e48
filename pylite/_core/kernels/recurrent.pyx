"""Float recurrent layers with float or integer weights: LSTM, RNN and SVDF, over a full sequence."""
import numpy as np

from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy, memset

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, nothing, placed
from pylite._core.kernels.recurring cimport (
    CLAMP,
    LOCAL,
    SIGN_BIT,
    TANH,
    Activation,
    Engine,
    Matrix,
    Operand,
    activate,
    add_product,
    check_scratch,
    normalize,
    quantize,
    set_matrix,
)
from pylite._core.simd cimport parallel_for, pl_pool, slots

from pylite._core.kernels import conv_float, packing

cdef enum:
    WORK = 1 << 16          # products: the parallel threshold
    GATES = 4               # input, forget, cell, output

STACK_ELEMENTS = LOCAL      # of scratch that kernels need no memory for
GATE_NAMES = "input", "forget", "cell", "output"
GATE_OPERANDS = "x", "aux", "h", "peephole", "bias", "norm"


def pack(w, scales=None):
    """Weights (columns, depth) packed for the kernels of this module; scales: float32 (columns,) of integer weights.

    Unsigned bytes are read as signed ones, as in the reference kernels.
    """
    if scales is None:
        return conv_float.pack_f32(w), None, None
    panels, sums = packing.pack_weights(w.view(np.int8))
    return panels, sums, scales


cdef struct Gate:
    Matrix input, aux, recurrent
    const float *peephole
    const float *bias
    const float *norm


cdef struct Layer:
    Engine engine
    Gate gates[GATES]
    int count, first        # gates in use: 1 (the cell gate, of an RNN), or `first` to 3
    int backward, hybrid
    Activation activation
    float bounds[2]
    float cell_clip, projection_clip
    Matrix projection
    const float *projection_bias
    const char *x           # (time, rows, depth), strides in bytes
    const char *aux
    char *y
    ptrdiff_t x_time, x_row, aux_time, aux_row, y_time, y_row
    ptrdiff_t steps, rows, cells, outputs
    ptrdiff_t nr, panels
    Operand operands[4]     # x, aux, h and the input of the projection
    float *h
    float *c
    float *reserved         # scratch, each NULL where the stack suffices
    int8_t *reserved_q
    float *reserved_scales
    int32_t *reserved_zeros
    float *scratch          # (gates, steps ahead, rows, cells)
    float *now              # the slice of the current step,
    ptrdiff_t plane         # from gate to gate
    ptrdiff_t ahead         # most steps whose inputs are multiplied at once, so that weights are read less often
    ptrdiff_t now_rows      # such steps now


cdef class Recurrent(Kernel):
    """A layer of LSTM cells, or of an RNN, over a sequence.

    x, aux (or None) and y: (time, rows, depth) float32, any strides but contiguous rows.
    h (rows * outputs), c (rows * cells; None: an RNN): the state, which is read and written.
    Scratch, each None up to LOCAL elements: scratch, (gates, rows, cells) float32; with integer weights q, int8 for the
    rows of x, aux, outputs and the input of the projection, and row_scales and row_zeros, (4 * rows,).
    sizes: (cells, outputs); activation: "TANH", "SIGN_BIT" or (low, high); cell_clip, projection_clip: 0 for none;
    projection, projection_bias: weights from pack() and float32 (outputs,), or None.
    gates: the operands of the input, forget, cell and output gate, of an RNN only those of the cell gate, by name:
    input_x, input_aux and input_h, the weights of x, of aux and of h from pack() (that of h may be a diagonal),
    input_peephole, input_bias and input_norm (layer normalization), float32 (cells,).  Gates lack what is left out.
    """
    ARRAYS = (0, 1, 2, 3, 4, "scratch", "q", "row_scales", "row_zeros")
    cdef list kept          # weights,
    cdef object states      # h and c, where they are not in the arena
    cdef Layer state

    def __init__(self, const float[:, :, :] x, const float[:, :, :] aux, float[:, :, :] y, float[::1] h,
                 float[::1] c, *, float[::1] scratch, int8_t[::1] q, float[::1] row_scales, int32_t[::1] row_zeros,
                 sizes, bint backward, int asymmetric, activation, float cell_clip, float projection_clip,
                 projection, projection_bias, **gates):
        cdef Layer *s = &self.state
        cdef Engine *e = &s.engine
        cdef Gate *g
        cdef int i
        cdef ptrdiff_t at = 0
        self.memory, self.states, self.kept = (x, aux, y, scratch, q, row_scales, row_zeros), (h, c), []
        s.cells, s.outputs = sizes
        s.steps, s.rows = y.shape[0], y.shape[1]
        if 0 in y.shape[:3] or s.cells == 0 or s.outputs == 0:
            return
        e.slots = slots
        s.backward, e.asymmetric, s.cell_clip, s.projection_clip = backward, asymmetric, cell_clip, projection_clip
        if activation == "TANH" or activation == "SIGN_BIT":
            s.activation = TANH if activation == "TANH" else SIGN_BIT
        else:
            s.activation = CLAMP
            s.bounds[0], s.bounds[1] = activation
        s.x, s.x_time, s.x_row = <const char *>&x[0, 0, 0] if x.shape[2] else NULL, x.strides[0], x.strides[1]
        if aux is not None and aux.shape[2]:
            s.aux, s.aux_time, s.aux_row = <const char *>&aux[0, 0, 0], aux.strides[0], aux.strides[1]
        s.y, s.y_time, s.y_row = <char *>&y[0, 0, 0], y.strides[0], y.strides[1]
        s.h, s.c = &h[0], &c[0] if c is not None else NULL
        s.count = GATES if c is not None else 1
        for i, name in enumerate(GATE_NAMES if s.count > 1 else ("cell",)):
            g = &s.gates[i]
            w, a, r, peephole, bias, norm = [gates.get(f"{name}_{operand}") for operand in GATE_OPERANDS]
            if i == 0 and w is None and s.count > 1:
                s.first = 1
            self.kept += set_matrix(&g.input, w, s.cells, x.shape[2])
            self.kept += set_matrix(&g.aux, a, s.cells, aux.shape[2] if aux is not None else 0)
            self.kept += set_matrix(&g.recurrent, r, s.cells, s.outputs)
            g.peephole, g.bias, g.norm = self.floats(peephole), self.floats(bias), self.floats(norm)
        self.kept += set_matrix(&s.projection, projection, s.outputs, s.cells)
        s.projection_bias = self.floats(projection_bias)
        s.hybrid = s.gates[s.count - 1].input.sums != NULL or s.gates[s.count - 1].recurrent.sums != NULL
        s.nr = e.slots.q8.nr if s.hybrid else e.slots.f32.nr
        s.panels = (s.cells + s.nr - 1) // s.nr
        depths = (x.shape[2], 0 if aux is None else aux.shape[2], s.outputs,
                  s.cells if s.projection.panels != NULL else 0)
        for i in range(4):
            s.operands[i].depth = depths[i]
            at += s.rows * s.operands[i].depth if s.hybrid else 0
        check_scratch(scratch, s.count * s.rows * s.cells)
        check_scratch(q, at)
        check_scratch(row_scales, 4 * s.rows if s.hybrid else 0)
        s.reserved = &scratch[0] if scratch is not None else NULL
        s.reserved_q = &q[0] if q is not None else NULL
        if row_scales is not None:
            s.reserved_scales, s.reserved_zeros = &row_scales[0], &row_zeros[0]
        self.fn, self.subnormals = <kernel_fn>recurrent, FLUSH

    cdef const float *floats(self, numbers):
        cdef const float[::1] array
        if numbers is None:
            return NULL
        array = numbers
        self.kept.append(array)
        return &array[0]

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const Layer *like = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *aux = arrays[1]
        cdef const Strided *y = arrays[2]
        cdef Recurrent made
        cdef Layer *s
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or x.nbytes == 0 or y.nbytes == 0
                or x.shape[2] != like.operands[0].depth or (aux == NULL) != (like.aux == NULL)
                or (aux != NULL and (aux.nbytes == 0 or aux.shape[2] != like.operands[1].depth))
                or y.shape[1] != like.rows):      # else other scratch may be needed
            return None
        made = Recurrent.__new__(Recurrent)
        s = &made.state
        memcpy(s, like, sizeof(Layer))
        made.kept = self.kept
        made.fn, made.subnormals = self.fn, self.subnormals
        s.steps = y.shape[0]
        s.x, s.x_time, s.x_row = x.at, x.strides[0], x.strides[1]
        if aux != NULL:
            s.aux, s.aux_time, s.aux_row = aux.at, aux.strides[0], aux.strides[1]
        s.y, s.y_time, s.y_row = y.at, y.strides[0], y.strides[1]
        if arrays[3] == NULL or (arrays[4] == NULL and s.c != NULL):
            made.states = self.states
        s.h = <float *>placed(arrays[3], s.h)
        s.c = <float *>placed(arrays[4], s.c)
        s.reserved, s.reserved_q = <float *>placed(arrays[5], s.reserved), <int8_t *>placed(arrays[6], s.reserved_q)
        s.reserved_scales = <float *>placed(arrays[7], s.reserved_scales)
        s.reserved_zeros = <int32_t *>placed(arrays[8], s.reserved_zeros)
        return made


cdef int recurrent(Recurrent self, pl_pool *pool) noexcept nogil:
    cdef float gates[LOCAL]
    cdef int8_t q[LOCAL]
    cdef float scales[LOCAL]
    cdef int32_t zeros[LOCAL]
    cdef Layer *s = &self.state
    cdef int8_t *for_q = q
    cdef float *for_scales = scales
    cdef int32_t *for_zeros = zeros
    s.scratch = gates
    if s.reserved != NULL:
        s.scratch = s.reserved
    if s.reserved_q != NULL:
        for_q = s.reserved_q
    if s.reserved_scales != NULL:
        for_scales, for_zeros = s.reserved_scales, s.reserved_zeros
    if s.hybrid:
        divide_scratch(s, for_q, for_scales, for_zeros)
    return walk(s, pool)


cdef void divide_scratch(Layer *s, int8_t *q, float *scales, int32_t *zeros) noexcept nogil:
    """Divide the scratch among the operands."""
    cdef int i
    for i in range(4):
        s.operands[i].q, s.operands[i].scales, s.operands[i].zeros = q, scales + i * s.rows, zeros + i * s.rows
        q += s.rows * s.operands[i].depth


cdef int walk(Layer *s, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t step, t, r, depth = s.operands[0].depth + s.operands[1].depth + s.outputs
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * s.nr * depth)
    s.operands[2].x, s.operands[2].step = s.h, s.outputs
    s.ahead = 1
    if s.rows == 1 and not s.hybrid:
        s.ahead = max(<ptrdiff_t>1, min(LOCAL // (s.count * s.cells), <ptrdiff_t>s.engine.slots.f32.mr))
    s.plane = s.ahead * s.rows * s.cells
    for step in range(s.steps):
        t = s.steps - 1 - step if s.backward else step
        s.now = s.scratch + step % s.ahead * s.rows * s.cells
        if step % s.ahead == 0:
            if s.x != NULL:
                s.operands[0].x, s.operands[0].step = <const float *>(s.x + t * s.x_time), s.x_row // 4
            if s.aux != NULL:
                s.operands[1].x, s.operands[1].step = <const float *>(s.aux + t * s.aux_time), s.aux_row // 4
            if s.ahead > 1:         # a single row: its steps become rows
                s.operands[0].step, s.operands[1].step = s.x_time // 4, s.aux_time // 4
                if s.backward:
                    s.operands[0].step, s.operands[1].step = -s.x_time // 4, -s.aux_time // 4
                s.now_rows = min(s.ahead, s.steps - step)
                parallel_for(pool, (s.count - s.first) * s.panels, grain, input_panels, s)
        for r in range(3):
            quantize(&s.engine, &s.operands[r], s.rows)
        parallel_for(pool, (s.count - s.first) * s.panels, grain, step_panels, s)
        if s.c == NULL:
            activate(s.engine.slots, s.activation, s.bounds, s.rows * s.cells, s.now, s.h)
        else:
            lstm_cells(s)
            lstm_output(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs * sizeof(float))
    return 0


cdef void input_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Bias and products of the inputs, panel by panel."""
    cdef Layer *s = <Layer *>ctx
    cdef ptrdiff_t i, at
    for i in range(begin, end):
        at = s.first + i // s.panels
        add_inputs(s, &s.gates[at], i % s.panels * s.nr, s.scratch + at * s.plane, s.now_rows)


cdef void add_inputs(Layer *s, const Gate *g, ptrdiff_t j, float *y, ptrdiff_t rows) noexcept nogil:
    cdef ptrdiff_t r, n = min(s.nr, s.cells - j)
    for r in range(rows):
        if g.norm != NULL or g.bias == NULL:
            memset(y + r * s.cells + j, 0, n * sizeof(float))
        else:
            memcpy(y + r * s.cells + j, g.bias + j, n * sizeof(float))
    add_product(&s.engine, &g.input, &s.operands[0], rows, j, s.nr, y, s.cells)
    add_product(&s.engine, &g.aux, &s.operands[1], rows, j, s.nr, y, s.cells)


cdef void step_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Add the products of the state to the gates of a step, panel by panel."""
    cdef Layer *s = <Layer *>ctx
    cdef ptrdiff_t i, j, at
    cdef const Gate *g
    cdef float *y
    for i in range(begin, end):
        at, j = s.first + i // s.panels, i % s.panels * s.nr
        g, y = &s.gates[at], s.now + at * s.plane
        if s.ahead == 1:
            add_inputs(s, g, j, y, s.rows)
        add_product(&s.engine, &g.recurrent, &s.operands[2], s.rows, j, s.nr, y, s.cells)


cdef void gate(const Layer *s, int which, ptrdiff_t row, const float *cell, float *x) noexcept nogil:
    """Peephole, normalization and activation of a row of a gate."""
    cdef const Gate *g = &s.gates[which]
    cdef ptrdiff_t j
    if g.peephole != NULL:
        for j in range(s.cells):
            x[j] += g.peephole[j] * cell[j]
    if g.norm != NULL:
        normalize(s.cells, g.norm, g.bias, x)
    if which == 2:
        activate(s.engine.slots, s.activation, s.bounds, s.cells, x, x)
    else:
        s.engine.slots.logistic_f32(s.cells, x, x, s.bounds)


cdef void lstm_cells(Layer *s) noexcept nogil:
    """Compute the gates, the state of the cells, and their outputs, which replace the cell gate."""
    cdef ptrdiff_t r, j, n = s.cells, plane = s.plane
    cdef float *i
    cdef float *f
    cdef float *g
    cdef float *o
    cdef float *c
    for r in range(s.rows):
        i, f, g, o = (s.now + r * n, s.now + plane + r * n, s.now + 2 * plane + r * n, s.now + 3 * plane + r * n)
        c = s.c + r * n
        if s.first == 0:
            gate(s, 0, r, c, i)
        gate(s, 1, r, c, f)
        gate(s, 2, r, c, g)
        if s.first == 0:
            for j in range(n):
                c[j] = f[j] * c[j] + i[j] * g[j]
        else:
            for j in range(n):
                c[j] = f[j] * c[j] + (1 - f[j]) * g[j]
        if s.cell_clip > 0:
            clip(n, s.cell_clip, c)
        gate(s, 3, r, c, o)
        activate(s.engine.slots, s.activation, s.bounds, n, c, g)
        for j in range(n):
            g[j] *= o[j]


cdef void clip(ptrdiff_t n, float most, float *x) noexcept nogil:
    cdef ptrdiff_t j
    for j in range(n):
        x[j] = max(min(x[j], most), -most)


cdef void lstm_output(Layer *s) noexcept nogil:
    cdef float *hidden = s.now + 2 * s.plane
    cdef ptrdiff_t r, j = 0
    if s.projection.panels == NULL:
        memcpy(s.h, hidden, s.rows * s.cells * sizeof(float))
        return
    s.operands[3].x, s.operands[3].step = hidden, s.cells
    quantize(&s.engine, &s.operands[3], s.rows)
    for r in range(s.rows):
        if s.projection_bias != NULL:
            memcpy(s.h + r * s.outputs, s.projection_bias, s.outputs * sizeof(float))
        else:
            memset(s.h + r * s.outputs, 0, s.outputs * sizeof(float))
    while j < s.outputs:
        add_product(&s.engine, &s.projection, &s.operands[3], s.rows, j, s.nr, s.h, s.outputs)
        j += s.nr
    if s.projection_clip > 0:
        clip(s.rows * s.outputs, s.projection_clip, s.h)
