"""Convolutions and matrix products of int16: exact sums, then one rule of rounding."""
import numpy as np

from libc.stdint cimport int16_t, uint8_t

from pylite._core.run.kernel cimport kernel_fn
from pylite._core.product.tasks cimport set_output
from pylite._core.product.window cimport Window, set_window
from pylite._core.product.words cimport FLOAT64, ProductS16, rule_of, run_product, set_sizes
from pylite._core.simd cimport pl_pool, slots

from pylite._core.kernels.matmul import arranged


cdef class Finished(Kernel):
    """A product that is rounded to int16.

    rule: "MBQM64", "MBQM32", "FLOAT64" or "FLOAT64_OF_32"; bias: int64 (k,) or None; factors: (multipliers, shifts),
    int32 (k,), or scales, float64 (k,), as the rule needs; low, high: the limits of the results.
    """
    cdef object set_finish(self, rule, const int64_t[::1] bias, factors, int low, int high):
        self.bias = bias
        self.finish.rule = rule_of(rule)
        self.finish.low, self.finish.high = low, high
        self.finish.bias = &bias[0] if bias is not None and bias.shape[0] else NULL
        if self.finish.rule >= FLOAT64:
            self.scales = factors
            self.finish.scales = &self.scales[0]
        else:
            self.multipliers, self.shifts = factors
            self.finish.multipliers, self.finish.shifts = &self.multipliers[0], &self.shifts[0]


def pack_s16(w, layout=None):
    """Weights (columns, ...) of 8 or 16 bits as int16 (columns, depth); layout: see matmul.arranged."""
    w = arranged(w, layout)
    return np.ascontiguousarray(w.reshape(w.shape[0], w.size // w.shape[0] if w.size else 0), np.int16)


cdef class Conv16(Finished):
    """int16 2-D convolution, zero points 0.

    x: (n, h, w, c) and y: (n, oh, ow, k), any strides but contiguous channels; w: from pack_s16; wide: the weights use
    more than 8 bits; filter and groups as in conv.ConvQ8; the rest as in Finished.
    """
    cdef const int16_t[:, :, :, :] x
    cdef int16_t[:, :, :, :] y
    cdef const int16_t[:, ::1] w
    cdef const uint8_t[::1] zero
    cdef ProductS16 state

    def __init__(self, const int16_t[:, :, :, :] x, int16_t[:, :, :, :] y, const int16_t[:, ::1] w, *,
                 bint wide=False, filter, groups=1, rule, const int64_t[::1] bias, factors, int low, int high):
        cdef ProductS16 *p = &self.state
        cdef Window *g = &p.window
        self.x, self.y, self.w = x, y, w
        if 0 in self.y.shape[:4]:
            return
        self.set_finish(rule, bias, factors, low, high)
        self.zero = np.zeros(max(1, x.shape[3] // groups * 2), np.uint8)
        set_window(g, <const uint8_t *>&x[0, 0, 0, 0] if x.size else NULL, x.strides[0], x.strides[1], x.strides[2],
                   x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // groups * 2, &self.zero[0], filter)
        set_output(&p.output, <char *>&y[0, 0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1],
                   y.strides[2])
        set_sizes(p, slots, y.shape[3], groups, g.fh * g.fw * g.length // 2, wide)
        p.finish, p.w = self.finish, &w[0, 0] if w.size else NULL
        self.fn = <kernel_fn>conv16


cdef int conv16(Conv16 self, pl_pool *pool) noexcept nogil:
    return run_product(&self.state, pool)
