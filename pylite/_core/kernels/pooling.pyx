"""Pooling kernels."""
from libc.stdint cimport uint8_t

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_window, slots

OPERATIONS = ("average", "max", "l2")
TYPES = ("float32", "int8", "uint8", "int16")


cdef class Pool(Kernel):
    """y = the average, maximum or root mean square of the taps of each window that lie inside the image.

    x, y: the bytes of NHWC arrays of `dtype` and shapes `x_shape`, `y_shape`; window, stride, before: (rows, cols),
    `before` being the padding at the top and left.  Every window has a tap inside.  Results are clamped to [low, high].
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef pl_window window
    cdef ptrdiff_t h, out_h, out_w, rows, stride_h, top, left, item
    cdef int kind

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str operation, str dtype, x_shape, y_shape, window,
                 stride, before, low, high):
        self.x, self.y = x, y
        self.kind = 4 * OPERATIONS.index(operation) + TYPES.index(dtype)
        self.item = {"float32": 4, "int16": 2}.get(dtype, 1)
        cdef pl_window *w = &self.window
        _, self.h, w.width, w.channels = x_shape
        _, self.out_h, self.out_w, _ = y_shape
        self.rows, w.cols = window
        self.stride_h, w.stride = stride
        self.top, self.left = before
        w.row_stride = w.width * w.channels
        if dtype == "float32":
            w.low_f, w.high_f = low, high
        else:
            w.low, w.high = low, high
        self.fn = <kernel_fn>pool


cdef void pool_rows(Pool self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Output rows [begin, end), counted over the batch."""
    cdef pl_window window = self.window
    cdef ptrdiff_t in_width = window.row_stride * self.item, out_width = self.out_w * window.channels * self.item
    cdef ptrdiff_t row, at, first
    for row in range(begin, end):
        at = row % self.out_h * self.stride_h - self.top
        first = max(at, 0)
        window.rows = min(at + self.rows, self.h) - first
        slots.pool_row(self.kind, &window, &self.x[0] + (row // self.out_h * self.h + first) * in_width, self.left,
                       self.out_w, &self.y[0] + row * out_width)


cdef int pool(Pool self, pl_pool *threads) noexcept nogil:
    cdef ptrdiff_t width = self.out_w * self.window.channels
    if self.y.shape[0]:
        parallel_for(threads, self.y.shape[0] // (width * self.item),
                     1 + 32768 // (width * self.rows * self.window.cols), <pl_range_fn>pool_rows, <void *>self)
    return 0
