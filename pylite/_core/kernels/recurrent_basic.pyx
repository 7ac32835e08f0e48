"""float32 SVDF, and one step of the basic LSTM cell."""
from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy, memmove, memset

from pylite._core.kernels.recurring cimport (
    LOCAL,
    Activation,
    Engine,
    Matrix,
    Operand,
    activate,
    add_product,
    check_scratch,
    quantize,
    set_activation,
    set_matrix,
)
from pylite._core.run.kernel cimport FLUSH, Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, pl_slots, slots


cdef struct Filters:        # of an SVDF layer: filters = units * rank
    Engine engine
    Matrix features
    Operand x
    Activation activation
    const float *time
    const float *bias
    float *memory
    float *scratch
    float *y
    ptrdiff_t rows, filters, steps, units, rank


cdef class Svdf(Kernel):
    """SVDF: projects each row of x onto `filters` features, and filters each feature over the last `steps` steps.

    x: (rows, depth), y: (rows, units) float32; memory: (rows * filters * steps,), the state, read and written.
    Scratch, each None if LOCAL elements suffice: scratch, (rows * filters,) float32; with integer weights q, row_scales
    and row_zeros for x.
    features: weights from recurrent.pack(); time: (filters, steps); bias: (units,) or None; options: (asymmetric,
    activation), as in Recurrent.
    """
    cdef const float[:, ::1] x, time
    cdef float[:, ::1] y
    cdef float[::1] memory, scratch, row_scales
    cdef int8_t[::1] q
    cdef int32_t[::1] row_zeros
    cdef const float[::1] bias
    cdef list owners
    cdef Filters state

    def __init__(self, const float[:, ::1] x, float[:, ::1] y, float[::1] memory, features,
                 const float[:, ::1] time, const float[::1] bias, *, float[::1] scratch, int8_t[::1] q,
                 float[::1] row_scales, int32_t[::1] row_zeros, options):
        cdef Filters *s = &self.state
        self.x, self.y, self.memory, self.scratch, self.q = x, y, memory, scratch, q
        self.row_scales, self.row_zeros, self.time, self.bias = row_scales, row_zeros, time, bias
        s.rows, s.units, s.filters, s.steps = y.shape[0], y.shape[1], time.shape[0], time.shape[1]
        if 0 in y.shape[:2] or s.filters == 0 or s.steps == 0:
            return
        s.rank = s.filters // s.units
        s.engine.slots = slots
        s.engine.asymmetric, activation = options
        set_activation(&s.activation, activation)
        self.owners = set_matrix(&s.features, features, s.filters, x.shape[1])
        s.x.x, s.x.step, s.x.depth = &x[0, 0] if x.shape[1] else NULL, x.shape[1], x.shape[1]
        check_scratch(scratch, s.rows * s.filters)
        check_scratch(q, s.rows * x.shape[1] if s.features.sums != NULL else 0)
        check_scratch(row_scales, s.rows)
        s.time, s.bias = &time[0, 0], &bias[0] if bias is not None else NULL
        s.memory, s.y = &memory[0], &y[0, 0]
        self.fn, self.subnormals = <kernel_fn>svdf, FLUSH


cdef int svdf(Svdf self, pl_pool *pool) noexcept nogil:
    cdef float scratch[LOCAL]
    cdef int8_t q[LOCAL]
    cdef float scales[LOCAL]
    cdef int32_t zeros[LOCAL]
    cdef Filters *s = &self.state
    cdef ptrdiff_t j = 0, r, i, k, filter, nr = s.engine.slots.f32.nr
    cdef float *past
    cdef float v
    s.scratch = scratch
    if self.scratch is not None:
        s.scratch = &self.scratch[0]
    if s.features.sums != NULL:
        nr = s.engine.slots.q8.nr
        s.x.q, s.x.scales, s.x.zeros = q, scales, zeros
        if self.q is not None:
            s.x.q = &self.q[0]
        if self.row_scales is not None:
            s.x.scales, s.x.zeros = &self.row_scales[0], &self.row_zeros[0]
    memset(s.scratch, 0, s.rows * s.filters * sizeof(float))
    quantize(&s.engine, &s.x, s.rows)
    while j < s.filters:
        add_product(&s.engine, &s.features, &s.x, s.rows, j, nr, s.scratch, s.filters)
        j += nr
    memmove(s.memory, s.memory + 1, (s.rows * s.filters * s.steps - 1) * sizeof(float))
    for r in range(s.rows):
        for i in range(s.units):
            v = 0
            for j in range(s.rank):
                filter = r * s.filters + i * s.rank + j
                past = s.memory + filter * s.steps
                past[s.steps - 1] = s.scratch[filter]
                for k in range(s.steps):
                    v += past[k] * s.time[(i * s.rank + j) * s.steps + k]
            s.y[r * s.units + i] = v + s.bias[i] if s.bias != NULL else v
    activate(s.engine.slots, &s.activation, s.rows * s.units, s.y, s.y)
    return 0


cdef struct Basic:
    Engine engine
    Matrix w
    Operand both
    const float *bias
    const float *x
    float *h
    float *c
    float *y
    float *c_out
    float *gates
    ptrdiff_t rows, x_depth, cells


cdef class BasicLstm(Kernel):
    """One step of the basic LSTM cell, whose weights are one matrix.

    All arrays are float32.  x: (rows, depth); h, c: (rows, cells), the state; y, c_out: the outputs, which are the next
    state; both: (rows, depth + cells), an output: x and h side by side; gates: (rows, 4 * cells), an output: the gates
    before their activation, in the order input, cell, forget, output; w: from recurrent.pack(); bias: (4 * cells,).
    """
    cdef const float[:, ::1] x
    cdef float[:, ::1] h, c, y, c_out, both, gates
    cdef const float[::1] bias
    cdef list owners
    cdef Basic state

    def __init__(self, const float[:, ::1] x, float[:, ::1] h, float[:, ::1] c, *, float[:, ::1] y,
                 float[:, ::1] c_out, float[:, ::1] both, float[:, ::1] gates, w, const float[::1] bias):
        cdef Basic *s = &self.state
        self.x, self.h, self.c, self.y, self.c_out, self.both, self.gates, self.bias = (
            x, h, c, y, c_out, both, gates, bias)
        s.rows, s.cells, s.x_depth = y.shape[0], y.shape[1], x.shape[1]
        if 0 in y.shape[:2]:
            return
        s.engine.slots = slots
        self.owners = set_matrix(&s.w, w, 4 * s.cells, both.shape[1])
        s.both.x, s.both.step, s.both.depth = &both[0, 0], both.shape[1], both.shape[1]
        s.x, s.h, s.c, s.y, s.c_out = &x[0, 0] if s.x_depth else NULL, &h[0, 0], &c[0, 0], &y[0, 0], &c_out[0, 0]
        s.gates, s.bias = &gates[0, 0], &bias[0]
        self.fn, self.subnormals = <kernel_fn>basic_lstm, FLUSH


cdef int basic_lstm(BasicLstm self, pl_pool *pool) noexcept nogil:
    cdef Basic *s = &self.state
    cdef const pl_slots *table = s.engine.slots
    cdef ptrdiff_t r, j, n = s.cells
    cdef float *g
    for r in range(s.rows):
        memcpy(&self.both[r, 0], s.x + r * s.x_depth, s.x_depth * sizeof(float))
        memcpy(&self.both[r, s.x_depth], s.h + r * n, n * sizeof(float))
        memcpy(s.gates + r * 4 * n, s.bias, 4 * n * sizeof(float))
    j = 0
    while j < 4 * n:
        add_product(&s.engine, &s.w, &s.both, s.rows, j, table.f32.nr, s.gates, 4 * n)
        j += table.f32.nr
    for r in range(s.rows):
        g = s.y + r * n
        for j in range(n):
            g[j] = basic_cell(table, s.gates + r * 4 * n + j, n, s.c + r * n + j)
    memcpy(s.h, s.y, s.rows * n * sizeof(float))
    memcpy(s.c_out, s.c, s.rows * n * sizeof(float))
    return 0


cdef float basic_cell(const pl_slots *table, const float *g, ptrdiff_t step, float *c) noexcept nogil:
    """Update the state c of a cell; returns its output.  g: its gates, `step` floats apart."""
    cdef float v[3]
    cdef float t
    v[0], v[1], v[2] = g[0], g[2 * step], g[3 * step]
    table.logistic_f32(3, v, v, v)
    table.tanh_f32(1, g + step, &t, v)
    c[0] = v[0] * t + v[1] * c[0]
    table.tanh_f32(1, c, &t, v)
    return v[2] * t
