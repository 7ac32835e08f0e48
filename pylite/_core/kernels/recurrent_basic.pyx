"""The steps of float32 SVDF and of the basic LSTM cell that follow a matrix product."""
from libc.string cimport memcpy, memmove

from pylite._core.kernels.recurring cimport Activation, activate, set_activation
from pylite._core.run.kernel cimport FLUSH, Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, slots


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
        for j in range(cells):
            s.y[r, j] = basic_cell(&s.gates[r, j], cells, &s.c[r, j])
    memcpy(&s.h[0, 0], &s.y[0, 0], size)
    memcpy(&s.c_out[0, 0], &s.c[0, 0], size)
    return 0


cdef float basic_cell(const float *g, ptrdiff_t step, float *c) noexcept nogil:
    """Update the state c of a cell; returns its output.  g: its gates, `step` floats apart."""
    cdef float v[3]
    cdef float t
    v[0], v[1], v[2] = g[0], g[2 * step], g[3 * step]
    slots.logistic_f32(3, v, v, v)
    slots.tanh_f32(1, g + step, &t, v)
    c[0] = v[0] * t + v[1] * c[0]
    slots.tanh_f32(1, c, &t, v)
    return v[2] * t
