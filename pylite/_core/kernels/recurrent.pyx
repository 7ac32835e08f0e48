"""float32 LSTM and RNN layers over a full sequence, with float or integer weights; compiled for speed."""
import numpy as np

from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy, memset

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, nothing, placed
from pylite._core.kernels.recurring cimport (
    LOCAL,
    Activation,
    Engine,
    Matrix,
    Operand,
    activate,
    add_product,
    check_scratch,
    normalize,
    quantize,
    set_activation,
    set_matrix,
)
from pylite._core.simd cimport parallel_for, pl_pool, slots

from pylite._core.kernels import conv_float, packing

cdef enum:
    WORK = 1 << 16          # least number of products for a thread
    GATES = 4               # input, forget, cell, output

STACK_ELEMENTS = LOCAL      # for lowering, which reserves scratch beyond this size
GATE_NAMES = "input", "forget", "cell", "output"
GATE_OPERANDS = "x", "aux", "h", "peephole", "bias", "norm"


def pack(w, scales=None):
    """Pack weights (columns, depth) for float recurrent kernels; scales: float32 (columns,) of integer weights.

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
    int count, first        # number of gates, 1 for an RNN (the cell gate); first gate in use, 1 without input gate
    int backward, hybrid
    Activation activation
    float cell_clip, projection_clip
    Matrix projection
    const float *projection_bias
    const char *x           # (time, rows, depth); strides in bytes
    const char *aux
    char *y
    ptrdiff_t x_time, x_row, aux_time, aux_row, y_time, y_row
    ptrdiff_t steps, rows, cells, outputs
    ptrdiff_t nr, panels    # columns of a panel; panels of a gate
    Operand operands[4]     # x, aux, h and the input of the projection
    float *h
    float *c
    float *reserved         # scratch in the arena, each NULL if the stack suffices
    int8_t *reserved_q
    float *reserved_scales
    int32_t *reserved_zeros
    float *scratch          # (gates, steps ahead, rows, cells)
    float *current          # the current step in scratch
    ptrdiff_t gate_step     # floats from gate to gate in scratch
    ptrdiff_t ahead         # most steps whose inputs are multiplied at once, so that weights are read less often,
    ptrdiff_t steps_now     # and their number in the current call


cdef class Recurrent(Kernel):
    """An LSTM or RNN layer over a sequence.

    x, aux (or None) and y: (time, rows, depth) float32; any strides, but contiguous rows.
    h (rows * outputs,), c (rows * cells,; None for an RNN): the state, read and written.
    Scratch, each None if LOCAL elements suffice: scratch, (gates, rows, cells) float32; with integer weights q, int8
    for the rows of x, aux, outputs and the input of the projection, and row_scales and row_zeros, (4 * rows,).
    sizes: (cells, outputs); activation: "TANH", "SIGN_BIT" or (low, high); cell_clip, projection_clip: 0 for none;
    projection, projection_bias: weights from pack() and float32 (outputs,), or None.
    gates: the operands of each gate as {gate}_{operand}, GATE_NAMES by GATE_OPERANDS; a gate lacks those left out.  An
    RNN has the cell gate only.  x, aux, h: weights for these inputs from pack(); for h also a diagonal; peephole, bias,
    norm (layer normalization): float32 (cells,).
    """
    ARRAYS = (0, 1, 2, 3, 4, "scratch", "q", "row_scales", "row_zeros")
    cdef list owners        # of weights,
    cdef object states      # and of h and c, if they are not in the arena
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
        self.memory, self.states, self.owners = (x, aux, y, scratch, q, row_scales, row_zeros), (h, c), []
        s.cells, s.outputs = sizes
        s.steps, s.rows = y.shape[0], y.shape[1]
        if 0 in y.shape[:3] or s.cells == 0 or s.outputs == 0:
            return
        e.slots = slots
        s.backward, e.asymmetric, s.cell_clip, s.projection_clip = backward, asymmetric, cell_clip, projection_clip
        set_activation(&s.activation, activation)
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
            self.owners += set_matrix(&g.input, w, s.cells, x.shape[2])
            self.owners += set_matrix(&g.aux, a, s.cells, aux.shape[2] if aux is not None else 0)
            self.owners += set_matrix(&g.recurrent, r, s.cells, s.outputs)
            g.peephole, g.bias, g.norm = self.floats(peephole), self.floats(bias), self.floats(norm)
        self.owners += set_matrix(&s.projection, projection, s.outputs, s.cells)
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
        """The first element of an optional array, which self keeps alive."""
        cdef const float[::1] array
        if numbers is None:
            return NULL
        array = numbers
        self.owners.append(array)
        return &array[0]

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const Layer *original = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *aux = arrays[1]
        cdef const Strided *y = arrays[2]
        cdef Recurrent copy
        cdef Layer *s
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or x.nbytes == 0 or y.nbytes == 0
                or x.shape[2] != original.operands[0].depth or (aux == NULL) != (original.aux == NULL)
                or (aux != NULL and (aux.nbytes == 0 or aux.shape[2] != original.operands[1].depth))
                or y.shape[1] != original.rows):      # another number of rows may need more scratch
            return None
        copy = Recurrent.__new__(Recurrent)
        s = &copy.state
        memcpy(s, original, sizeof(Layer))
        copy.owners = self.owners
        copy.fn, copy.subnormals = self.fn, self.subnormals
        s.steps = y.shape[0]
        s.x, s.x_time, s.x_row = x.at, x.strides[0], x.strides[1]
        if aux != NULL:
            s.aux, s.aux_time, s.aux_row = aux.at, aux.strides[0], aux.strides[1]
        s.y, s.y_time, s.y_row = y.at, y.strides[0], y.strides[1]
        if arrays[3] == NULL or (arrays[4] == NULL and s.c != NULL):
            copy.states = self.states
        s.h = <float *>placed(arrays[3], s.h)
        s.c = <float *>placed(arrays[4], s.c)
        s.reserved, s.reserved_q = <float *>placed(arrays[5], s.reserved), <int8_t *>placed(arrays[6], s.reserved_q)
        s.reserved_scales = <float *>placed(arrays[7], s.reserved_scales)
        s.reserved_zeros = <int32_t *>placed(arrays[8], s.reserved_zeros)
        return copy


cdef int recurrent(Recurrent self, pl_pool *pool) noexcept nogil:
    cdef float gates[LOCAL]
    cdef int8_t q[LOCAL]
    cdef float scales[LOCAL]
    cdef int32_t zeros[LOCAL]
    cdef Layer *s = &self.state
    s.scratch = s.reserved if s.reserved != NULL else gates
    s.ahead = steps_ahead(s)
    if s.hybrid:
        divide_scratch(s, s.reserved_q if s.reserved_q != NULL else q,
                       s.reserved_scales if s.reserved_scales != NULL else scales,
                       s.reserved_zeros if s.reserved_scales != NULL else zeros)
    return run_steps(s, pool)


cdef ptrdiff_t steps_ahead(const Layer *s) noexcept nogil:
    """The most steps whose inputs are multiplied at once, so that weights are read less often."""
    cdef ptrdiff_t most = LOCAL // (s.count * s.cells), inputs = s.operands[0].depth + s.operands[1].depth
    if s.rows > 1 or s.reserved_q != NULL:      # rows suffice, or there is no room for more
        return 1
    most = min(most, <ptrdiff_t>(s.engine.slots.q8.mr if s.hybrid else s.engine.slots.f32.mr))
    if s.hybrid and inputs:
        most = min(most, (LOCAL - s.operands[2].depth - s.operands[3].depth) // inputs)
    return max(<ptrdiff_t>1, most)


cdef void divide_scratch(Layer *s, int8_t *q, float *scales, int32_t *zeros) noexcept nogil:
    """Divide the scratch for quantized rows among the operands."""
    cdef ptrdiff_t rows
    cdef int i
    for i in range(4):
        rows = s.rows * (s.ahead if i < 2 else 1)
        s.operands[i].q, s.operands[i].scales, s.operands[i].zeros = q, scales, zeros
        q, scales, zeros = q + rows * s.operands[i].depth, scales + rows, zeros + rows


cdef int run_steps(Layer *s, pl_pool *pool) noexcept nogil:
    """Run all time steps, writing each output to y."""
    cdef ptrdiff_t step, t, r, depth = s.operands[0].depth + s.operands[1].depth + s.outputs
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * s.nr * depth)
    s.operands[2].x, s.operands[2].step = s.h, s.outputs
    s.gate_step = s.ahead * s.rows * s.cells
    for step in range(s.steps):
        t = s.steps - 1 - step if s.backward else step
        s.current = s.scratch + step % s.ahead * s.rows * s.cells
        if step % s.ahead == 0:
            if s.x != NULL:
                s.operands[0].x, s.operands[0].step = <const float *>(s.x + t * s.x_time), s.x_row // 4
            if s.aux != NULL:
                s.operands[1].x, s.operands[1].step = <const float *>(s.aux + t * s.aux_time), s.aux_row // 4
            if s.ahead > 1:         # there is a single row: treat time steps as rows
                s.operands[0].step, s.operands[1].step = s.x_time // 4, s.aux_time // 4
                if s.backward:
                    s.operands[0].step, s.operands[1].step = -s.x_time // 4, -s.aux_time // 4
            s.steps_now = min(s.ahead, s.steps - step)
            for r in range(2):
                quantize(&s.engine, &s.operands[r], s.rows * s.steps_now)
            if s.ahead > 1:
                parallel_for(pool, (s.count - s.first) * s.panels, grain, input_panels, s)
        quantize(&s.engine, &s.operands[2], s.rows)
        parallel_for(pool, (s.count - s.first) * s.panels, grain, step_panels, s)
        if s.c == NULL:
            activate(s.engine.slots, &s.activation, s.rows * s.cells, s.current, s.h)
        else:
            lstm_cells(s)
            lstm_output(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs * sizeof(float))
    return 0


cdef void input_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Set the gates of s.steps_now steps to bias and products of the inputs: panels begin to end - 1."""
    cdef Layer *s = <Layer *>ctx
    cdef ptrdiff_t i, which
    for i in range(begin, end):
        which = s.first + i // s.panels
        set_inputs(s, &s.gates[which], i % s.panels * s.nr, s.scratch + which * s.gate_step, s.steps_now)


cdef void set_inputs(Layer *s, const Gate *g, ptrdiff_t j, float *y, ptrdiff_t rows) noexcept nogil:
    """Set a panel of a gate, from column j on, to bias and products of the inputs."""
    cdef ptrdiff_t r, n = min(s.nr, s.cells - j)
    for r in range(rows):
        if g.norm != NULL or g.bias == NULL:
            memset(y + r * s.cells + j, 0, n * sizeof(float))
        else:
            memcpy(y + r * s.cells + j, g.bias + j, n * sizeof(float))
    add_product(&s.engine, &g.input, &s.operands[0], rows, j, s.nr, y, s.cells)
    add_product(&s.engine, &g.aux, &s.operands[1], rows, j, s.nr, y, s.cells)


cdef void step_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Complete panels begin to end - 1 of the current step's gates: add the products of the state h."""
    cdef Layer *s = <Layer *>ctx
    cdef ptrdiff_t i, j, which
    cdef const Gate *g
    cdef float *y
    for i in range(begin, end):
        which, j = s.first + i // s.panels, i % s.panels * s.nr
        g, y = &s.gates[which], s.current + which * s.gate_step
        if s.ahead == 1:
            set_inputs(s, g, j, y, s.rows)
        add_product(&s.engine, &g.recurrent, &s.operands[2], s.rows, j, s.nr, y, s.cells)


cdef void activate_gate(const Layer *s, int which, ptrdiff_t row, const float *cell, float *x) noexcept nogil:
    """Apply peephole, normalization and activation to x, a row of a gate; cell: its cells' state."""
    cdef const Gate *g = &s.gates[which]
    cdef ptrdiff_t j
    if g.peephole != NULL:
        for j in range(s.cells):
            x[j] += g.peephole[j] * cell[j]
    if g.norm != NULL:
        normalize(s.cells, g.norm, g.bias, x)
    if which == 2:
        activate(s.engine.slots, &s.activation, s.cells, x, x)
    else:
        s.engine.slots.logistic_f32(s.cells, x, x, s.activation.bounds)


cdef void lstm_cells(Layer *s) noexcept nogil:
    """Update the state of the cells.  Their outputs replace the cell gate in the scratch."""
    cdef ptrdiff_t r, j, n = s.cells, gate_step = s.gate_step
    cdef float *i
    cdef float *f
    cdef float *g
    cdef float *o
    cdef float *c
    for r in range(s.rows):
        i = s.current + r * n
        f, g, o = i + gate_step, i + 2 * gate_step, i + 3 * gate_step
        c = s.c + r * n
        if s.first == 0:
            activate_gate(s, 0, r, c, i)
        activate_gate(s, 1, r, c, f)
        activate_gate(s, 2, r, c, g)
        if s.first == 0:
            for j in range(n):
                c[j] = f[j] * c[j] + i[j] * g[j]
        else:
            for j in range(n):
                c[j] = f[j] * c[j] + (1 - f[j]) * g[j]
        if s.cell_clip > 0:
            clip(n, s.cell_clip, c)
        activate_gate(s, 3, r, c, o)
        activate(s.engine.slots, &s.activation, n, c, g)
        for j in range(n):
            g[j] *= o[j]


cdef void clip(ptrdiff_t n, float most, float *x) noexcept nogil:
    cdef ptrdiff_t j
    for j in range(n):
        x[j] = max(min(x[j], most), -most)


cdef void lstm_output(Layer *s) noexcept nogil:
    """Set h to the outputs of the cells, or to their projection."""
    cdef float *hidden = s.current + 2 * s.gate_step
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
