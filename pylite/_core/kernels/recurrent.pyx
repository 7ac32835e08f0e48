# build: -O2
"""float32 LSTM and RNN layers over a full sequence, with float or integer weights.

run_steps() is the loop over time.  A step sums the gates, panel by panel, on all threads (set_inputs() for the inputs,
step_panels() for the state), then computes the cells and the outputs on one (lstm_cells(), lstm_output(); an RNN has
only its activation).  With a single row, input_panels() multiplies the inputs of several steps at once, so that weights
are read less often.
"""
import numpy as np

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.kernels.recurrent_shared cimport (
    Activation,
    FloatMatrix,
    activate,
    add_product,
    normalize,
    quantize_operand,
    set_activation,
    set_float_matrix,
)
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
from pylite._core.product.quantized cimport QuantizedRows
from pylite._core.run.kernel cimport FLUSH, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_tile, slots

from pylite._core.kernels import packing
from pylite._core.kernels.sequences import GATE_NAMES

cdef enum:
    WORK = 1 << 16          # least number of products for a thread

cdef enum:                  # what weights are multiplied with:
    X
    AUX
    STATE                   # h
    HIDDEN                  # the input of the projection
    OPERANDS

cdef enum:                  # the scratch arrays, in the order of ARRAYS
    GATE_SUMS
    QUANTIZED
    ROW_SCALES
    ROW_ZEROS

STACK_ELEMENTS = LOCAL      # for lowering, which reserves scratch beyond this size
GATE_OPERANDS = "x", "aux", "h", "peephole", "bias", "norm"


def pack(w, scales=None):
    """Pack weights (columns, depth) for float recurrent kernels; scales: float32 (columns,) of integer weights.

    Unsigned bytes are read as signed ones, as in the reference kernels.
    """
    if scales is None:
        return packing.pack_f32(w), None, None
    panels, sums = packing.pack_weights(w.view(np.int8))
    return panels, sums, scales


cdef struct Gate:
    FloatMatrix input, aux, recurrent
    const float *peephole
    const float *bias
    const float *norm


cdef struct Layer:          # what does not depend on shapes
    Gate gates[GATES]
    FloatMatrix projection
    const float *projection_bias
    int count, first            # number of gates, 1 for an RNN; first one in use, FORGET without an input gate
    bint backward, hybrid
    Activation activation
    float cell_clip, projection_clip
    ptrdiff_t mr, nr, panels    # rows of an A panel; columns of a panel; panels of a gate
    QuantizedRows operands[OPERANDS]


cdef class Recurrent(SequenceKernel):
    """An LSTM or RNN layer over a sequence.

    x, aux, y, h, c: as in SequenceKernel, float32.
    Scratch: scratch, (gates, rows, cells) float32; with integer weights q, int8 for the rows of x, aux, outputs and the
    input of the projection, and row_scales and row_zeros, (4 * rows,).
    sizes: (cells, outputs); activation: "TANH", "SIGN_BIT" or (low, high); cell_clip, projection_clip: 0 for none;
    projection, projection_bias: weights from pack() and float32 (outputs,), or None.
    gates: the operands of each gate as {gate}_{operand}, GATE_NAMES by GATE_OPERANDS; a gate lacks those left out.  An
    RNN has the cell gate only.  x, aux, h: weights for these inputs from pack(); for h also a diagonal; peephole, bias,
    norm (layer normalization): float32 (cells,).
    """
    ARRAYS = (0, 1, 2, 3, 4, "scratch", "q", "row_scales", "row_zeros")
    cdef Layer layer
    cdef float *h
    cdef float *c
    cdef float *scratch         # (gates, steps ahead, rows, cells)
    cdef float *current         # the current step in scratch
    cdef ptrdiff_t gate_step    # floats from gate to gate in scratch
    cdef ptrdiff_t ahead        # most steps whose inputs are multiplied at once, so that weights are read less often,
    cdef ptrdiff_t steps_now    # and their number in the current call

    def __init__(self, x, aux, y, h, c, *, scratch, q, row_scales, row_zeros, sizes, bint backward, int asymmetric,
                 activation, float cell_clip, float projection_clip, projection, projection_bias, **gates):
        cdef Gate *g
        cdef const pl_tile *tile
        cdef int i
        cdef ptrdiff_t at = 0
        if not self.start((x, aux, y, h, c, scratch, q, row_scales, row_zeros), sizes, 4):
            return
        self.layer.backward, self.layer.cell_clip, self.layer.projection_clip = backward, cell_clip, projection_clip
        set_activation(&self.layer.activation, activation)
        self.layer.count = GATES if c is not None else 1
        for i, name in enumerate(GATE_NAMES if self.layer.count > 1 else ("cell",)):
            g = &self.layer.gates[i]
            w, a, r, peephole, bias, norm = [gates.get(f"{name}_{operand}") for operand in GATE_OPERANDS]
            if i == 0 and w is None and self.layer.count > 1:
                self.layer.first = FORGET
            set_float_matrix(&g.input, self.owners, w, self.cells, self.depth)
            set_float_matrix(&g.aux, self.owners, a, self.cells, self.aux_depth)
            set_float_matrix(&g.recurrent, self.owners, r, self.cells, self.outputs)
            g.peephole, g.bias = <const float *>kept(self.owners, peephole), <const float *>kept(self.owners, bias)
            g.norm = <const float *>kept(self.owners, norm)
        set_float_matrix(&self.layer.projection, self.owners, projection, self.outputs, self.cells)
        self.layer.projection_bias = <const float *>kept(self.owners, projection_bias)
        g = &self.layer.gates[self.layer.count - 1]
        self.layer.hybrid = (g.input.sums != NULL or g.recurrent.sums != NULL       # NULL of no columns and a diagonal
                             or self.layer.projection.sums != NULL)
        tile = &slots.q8 if self.layer.hybrid else &slots.f32
        self.layer.mr, self.layer.nr = tile.mr, tile.nr
        self.layer.panels = (self.cells + self.layer.nr - 1) // self.layer.nr
        depths = self.depth, self.aux_depth, self.outputs, self.cells if self.layer.projection.panels != NULL else 0
        for i in range(OPERANDS):
            self.layer.operands[i].depth, self.layer.operands[i].asymmetric = depths[i], asymmetric
            at += self.rows * self.layer.operands[i].depth if self.layer.hybrid else 0
        check_scratch(scratch, self.layer.count * self.rows * self.cells)
        check_scratch(q, at)
        check_scratch(row_scales, OPERANDS * self.rows if self.layer.hybrid else 0)
        check_scratch(row_zeros, OPERANDS * self.rows if self.layer.hybrid else 0)
        self.fn, self.subnormals = <kernel_fn>recurrent, FLUSH

    cdef void take_layer(self, SequenceKernel other):
        self.layer = (<Recurrent>other).layer


cdef int recurrent(Recurrent s, pl_pool *pool) noexcept nogil:
    cdef float gates[LOCAL]
    cdef uint8_t q[LOCAL]
    cdef float scales[LOCAL]
    cdef int32_t zeros[LOCAL]
    s.h, s.c = <float *>s.state, <float *>s.cell_state
    s.scratch = <float *>s.reserved[GATE_SUMS] if s.reserved[GATE_SUMS] != NULL else gates
    s.ahead = steps_ahead(s)
    if s.layer.hybrid:
        divide_scratch(s, <uint8_t *>s.reserved[QUANTIZED] if s.reserved[QUANTIZED] != NULL else q,
                       <float *>s.reserved[ROW_SCALES] if s.reserved[ROW_SCALES] != NULL else scales,
                       <int32_t *>s.reserved[ROW_ZEROS] if s.reserved[ROW_ZEROS] != NULL else zeros)
    return run_steps(s, pool)


cdef ptrdiff_t steps_ahead(Recurrent s) noexcept nogil:
    """The most steps whose inputs are multiplied at once, so that weights are read less often."""
    cdef ptrdiff_t most = LOCAL // (s.layer.count * s.cells)
    cdef ptrdiff_t inputs = s.layer.operands[X].depth + s.layer.operands[AUX].depth
    if s.rows > 1 or s.reserved[QUANTIZED] != NULL:      # rows suffice, or there is no room for more
        return 1
    most = min(most, s.layer.mr)
    if s.layer.hybrid and inputs:
        most = min(most, (LOCAL - s.layer.operands[STATE].depth - s.layer.operands[HIDDEN].depth) // inputs)
    return max(<ptrdiff_t>1, most)


cdef void divide_scratch(Recurrent s, uint8_t *q, float *scales, int32_t *zeros) noexcept nogil:
    """Divide the scratch for quantized rows among the operands."""
    cdef ptrdiff_t rows
    cdef int i
    for i in range(OPERANDS):
        rows = s.rows * (s.ahead if i <= AUX else 1)
        s.layer.operands[i].q, s.layer.operands[i].scales, s.layer.operands[i].zeros = q, scales, zeros
        q, scales, zeros = q + rows * s.layer.operands[i].depth, scales + rows, zeros + rows


cdef int run_steps(Recurrent s, pl_pool *pool) noexcept nogil:
    """Run all time steps, writing each output to y."""
    cdef ptrdiff_t step, t, r, depth = s.layer.operands[X].depth + s.layer.operands[AUX].depth + s.outputs
    cdef ptrdiff_t grain = 1 + WORK // (s.rows * s.layer.nr * depth)
    cdef ptrdiff_t panels = (s.layer.count - s.layer.first) * s.layer.panels
    s.layer.operands[STATE].x, s.layer.operands[STATE].step = s.h, s.outputs
    s.gate_step = s.ahead * s.rows * s.cells
    for step in range(s.steps):
        t = s.steps - 1 - step if s.layer.backward else step
        s.current = s.scratch + step % s.ahead * s.rows * s.cells
        if step % s.ahead == 0:
            s.steps_now = min(s.ahead, s.steps - step)
            take_inputs(s, t)
            if s.ahead > 1:
                parallel_for(pool, panels, grain, <pl_range_fn>input_panels, <void *>s)
        quantize_operand(&s.layer.operands[STATE], s.rows)
        parallel_for(pool, panels, grain, <pl_range_fn>step_panels, <void *>s)
        if s.c == NULL:
            activate(&s.layer.activation, s.rows * s.cells, s.current, s.h)
        else:
            lstm_cells(s)
            lstm_output(s)
        for r in range(s.rows):
            memcpy(s.y + t * s.y_time + r * s.y_row, s.h + r * s.outputs, s.outputs * sizeof(float))
    return 0


cdef void take_inputs(Recurrent s, ptrdiff_t t) noexcept nogil:
    """Point the operands x and aux at the inputs of s.steps_now steps from time t on, and quantize them."""
    cdef QuantizedRows *x = &s.layer.operands[X]
    cdef QuantizedRows *aux = &s.layer.operands[AUX]
    if s.x != NULL:
        x.x, x.step = <const float *>(s.x + t * s.x_time), s.x_row // 4
    if s.aux != NULL:
        aux.x, aux.step = <const float *>(s.aux + t * s.aux_time), s.aux_row // 4
    if s.ahead > 1:         # there is a single row: treat time steps as rows
        x.step, aux.step = s.x_time // 4, s.aux_time // 4
        if s.layer.backward:
            x.step, aux.step = -x.step, -aux.step
    quantize_operand(x, s.rows * s.steps_now)
    quantize_operand(aux, s.rows * s.steps_now)


cdef void input_panels(Recurrent s, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Set the gates of s.steps_now steps to bias and products of the inputs: panels begin to end - 1."""
    cdef ptrdiff_t i, j, which
    for i in range(begin, end):
        which, j = s.layer.first + i // s.layer.panels, i % s.layer.panels * s.layer.nr
        set_inputs(s, &s.layer.gates[which], j, s.scratch + which * s.gate_step, s.steps_now)


cdef void set_inputs(Recurrent s, const Gate *g, ptrdiff_t j, float *y, ptrdiff_t rows) noexcept nogil:
    """Set a panel of a gate, from column j on, to bias and products of the inputs."""
    cdef ptrdiff_t r, n = min(s.layer.nr, s.cells - j)
    for r in range(rows):
        if g.norm != NULL or g.bias == NULL:
            memset(y + r * s.cells + j, 0, n * sizeof(float))
        else:
            memcpy(y + r * s.cells + j, g.bias + j, n * sizeof(float))
    add_product(&g.input, &s.layer.operands[X], rows, j, s.layer.nr, y, s.cells)
    add_product(&g.aux, &s.layer.operands[AUX], rows, j, s.layer.nr, y, s.cells)


cdef void step_panels(Recurrent s, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Complete panels begin to end - 1 of the current step's gates: add the products of the state h."""
    cdef ptrdiff_t i, j, which
    cdef const Gate *g
    cdef float *y
    for i in range(begin, end):
        which, j = s.layer.first + i // s.layer.panels, i % s.layer.panels * s.layer.nr
        g, y = &s.layer.gates[which], s.current + which * s.gate_step
        if s.ahead == 1:
            set_inputs(s, g, j, y, s.rows)
        add_product(&g.recurrent, &s.layer.operands[STATE], s.rows, j, s.layer.nr, y, s.cells)


cdef void activate_gate(Recurrent s, int which, ptrdiff_t row, const float *cell, float *x) noexcept nogil:
    """Apply peephole, normalization and activation to x, a row of a gate; cell: its cells' state."""
    cdef const Gate *g = &s.layer.gates[which]
    cdef ptrdiff_t j
    if g.peephole != NULL:
        for j in range(s.cells):
            x[j] += g.peephole[j] * cell[j]
    if g.norm != NULL:
        normalize(s.cells, g.norm, g.bias, x)
    if which == CELL:
        activate(&s.layer.activation, s.cells, x, x)
    else:
        slots.logistic_f32(s.cells, x, x, s.layer.activation.bounds)


cdef void lstm_cells(Recurrent s) noexcept nogil:
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
        if s.layer.first == INPUT:
            activate_gate(s, INPUT, r, c, i)
        activate_gate(s, FORGET, r, c, f)
        activate_gate(s, CELL, r, c, g)
        if s.layer.first == INPUT:
            for j in range(n):
                c[j] = f[j] * c[j] + i[j] * g[j]
        else:
            for j in range(n):
                c[j] = f[j] * c[j] + (1 - f[j]) * g[j]
        if s.layer.cell_clip > 0:
            clip(n, s.layer.cell_clip, c)
        activate_gate(s, OUTPUT, r, c, o)
        activate(&s.layer.activation, n, c, g)
        for j in range(n):
            g[j] *= o[j]


cdef void clip(ptrdiff_t n, float most, float *x) noexcept nogil:
    cdef ptrdiff_t j
    for j in range(n):
        x[j] = max(min(x[j], most), -most)


cdef void lstm_output(Recurrent s) noexcept nogil:
    """Set h to the outputs of the cells, or to their projection."""
    cdef float *hidden = s.current + 2 * s.gate_step
    cdef ptrdiff_t r, j = 0
    if s.layer.projection.panels == NULL:
        memcpy(s.h, hidden, s.rows * s.cells * sizeof(float))
        return
    s.layer.operands[HIDDEN].x, s.layer.operands[HIDDEN].step = hidden, s.cells
    quantize_operand(&s.layer.operands[HIDDEN], s.rows)
    for r in range(s.rows):
        if s.layer.projection_bias != NULL:
            memcpy(s.h + r * s.outputs, s.layer.projection_bias, s.outputs * sizeof(float))
        else:
            memset(s.h + r * s.outputs, 0, s.outputs * sizeof(float))
    while j < s.outputs:
        add_product(&s.layer.projection, &s.layer.operands[HIDDEN], s.rows, j, s.layer.nr, s.h, s.outputs)
        j += s.layer.nr
    if s.layer.projection_clip > 0:
        clip(s.rows * s.outputs, s.layer.projection_clip, s.h)
