"""The steps of float32 SVDF and of the basic LSTM cell that follow a matrix product."""
from libc.string cimport memcpy, memmove

from pylite._core.kernels.recurrent_shared cimport Activation, activate, set_activation
from pylite._core.run.kernel cimport FLUSH, Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, slots

cdef enum:
    BLOCK = 128             # cells of a basic LSTM cell that are computed at once


cdef class Svdf(Kernel):
    """The filters of SVDF: filters each feature of a row over the last `steps` steps, and adds up each unit.

    features: (rows, units * rank), y: (rows, units); memory: (rows * units * rank * steps,), the state, read and
    written; time: (units * rank, steps); bias: (units,) or None; activation: as in recurrent.Recurrent.
    """
    cdef const float[:, ::1] features, time
    cdef float[:, ::1] y
    cdef float[::1] past
    cdef const float[::1] bias
    cdef Activation activation

    def __init__(self, const float[:, ::1] features, float[:, ::1] y, float[::1] memory, const float[:, ::1] time,
                 const float[::1] bias, *, activation):
        self.features, self.y, self.past, self.time, self.bias = features, y, memory, time, bias
        set_activation(&self.activation, activation)
        if features.shape[0] and features.shape[1] and time.shape[1]:
            self.fn, self.subnormals = <kernel_fn>svdf, FLUSH


cdef int svdf(Svdf s, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t units = s.y.shape[1], filters = s.features.shape[1], steps = s.time.shape[1], r, i, j, k
    cdef ptrdiff_t rank = filters // units
    cdef float *past = &s.past[0]
    cdef float *y = &s.y[0, 0]
    cdef float v
    memmove(past, past + 1, (s.past.shape[0] - 1) * sizeof(float))
    for r in range(s.y.shape[0]):
        for i in range(units):
            v = 0
            for j in range(i * rank, (i + 1) * rank):
                past[steps - 1] = s.features[r, j]
                for k in range(steps):
                    v += past[k] * s.time[j, k]
                past += steps
            y[r * units + i] = v + s.bias[i] if s.bias is not None else v
    activate(&s.activation, s.y.shape[0] * units, y, y)
    return 0


cdef class BasicLstm(Kernel):
    """One step of the cells of the basic LSTM cell.

    All arrays are float32.  gates: (rows, 4 * cells), before their activation, in the order input, cell, forget,
    output; h, c: (rows, cells), the state; y, c_out: the outputs, which are the next state.
    """
    cdef const float[:, ::1] gates
    cdef float[:, ::1] h, c, y, c_out

    def __init__(self, const float[:, ::1] gates, float[:, ::1] h, float[:, ::1] c, float[:, ::1] y,
                 float[:, ::1] c_out):
        self.gates, self.h, self.c, self.y, self.c_out = gates, h, c, y, c_out
        if y.shape[0] and y.shape[1]:
            self.fn, self.subnormals = <kernel_fn>basic_lstm, FLUSH


cdef int basic_lstm(BasicLstm s, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t r, j, cells = s.y.shape[1], size = s.y.shape[0] * cells * sizeof(float)
    for r in range(s.y.shape[0]):
        j = 0
        while j < cells:
            basic_cells(min(<ptrdiff_t>BLOCK, cells - j), &s.gates[r, j], cells, &s.c[r, j], &s.y[r, j])
            j += BLOCK
    memcpy(&s.h[0, 0], &s.y[0, 0], size)
    memcpy(&s.c_out[0, 0], &s.c[0, 0], size)
    return 0


cdef void basic_cells(ptrdiff_t n, const float *g, ptrdiff_t step, float *c, float *y) noexcept nogil:
    """Update the states c of up to BLOCK cells, and set their outputs y.  g: their gates, each `step` floats apart."""
    cdef float t[BLOCK]
    cdef float forget[BLOCK]
    cdef ptrdiff_t i
    slots.logistic_f32(n, g, y, y)
    slots.tanh_f32(n, g + step, t, y)
    slots.logistic_f32(n, g + 2 * step, forget, y)
    for i in range(n):
        c[i] = y[i] * t[i] + forget[i] * c[i]
    slots.tanh_f32(n, c, t, y)
    slots.logistic_f32(n, g + 3 * step, y, y)
    for i in range(n):
        y[i] *= t[i]
