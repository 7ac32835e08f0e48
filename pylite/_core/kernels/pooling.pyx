"""Pooling kernels."""
from libc.stdint cimport uint8_t
from libc.string cimport memmove

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_window, slots

OPERATIONS = ("average", "max", "l2")
TYPES = ("float32", "int8", "uint8", "int16")

cdef enum:
    LITTLE = 32768      # joined elements: less is not shared with another thread


cdef class Pool(Kernel):
    """y = the average, maximum or root mean square of the taps of each window that lie inside the image.

    x, y: the bytes of NHWC arrays of `dtype` and shapes `x_shape`, `y_shape`; window, stride, before: (rows, cols),
    `before` being the padding at the top and left.  Every window has a tap inside.  Results are clamped to [low, high].
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef pl_window window
    cdef ptrdiff_t h, out_h, out_w, rows, stride_h, top, left, item
    cdef ptrdiff_t lines, grain     # of y; of a thread, at least
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
        if (self.out_w == 1 and w.cols == w.width and self.left == 0
                and self.out_h * w.channels * self.rows * w.cols <= LITTLE):
            # windows are as wide as the image, which is one line then
            self.stride_h, w.stride, self.top, self.left = 1, self.stride_h * w.width, 0, self.top * w.width
            self.h, w.width, self.rows, w.cols = 1, self.h * w.width, 1, self.rows * w.cols
            self.out_h, self.out_w = 1, self.out_h
        w.row_stride = w.width * w.channels
        if dtype == "float32":
            w.low_f, w.high_f = low, high
        else:
            w.low, w.high = low, high
        cdef ptrdiff_t width = self.out_w * w.channels
        if self.y.shape[0]:
            self.lines = self.y.shape[0] // (width * self.item)
            self.grain = 1 + LITTLE // (width * self.rows * w.cols)
        self.fn = <kernel_fn>pool


cdef void pool_rows(Pool self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Output rows [begin, end), counted over the batch."""
    cdef pl_window window
    cdef ptrdiff_t in_width = self.window.row_stride * self.item
    cdef ptrdiff_t out_width = self.out_w * self.window.channels * self.item
    cdef ptrdiff_t image = begin // self.out_h if begin else 0, row = begin - image * self.out_h, at, first
    cdef const uint8_t *x = &self.x[0] + image * self.h * in_width
    cdef uint8_t *y = &self.y[0] + begin * out_width
    memmove(&window, &self.window, sizeof(window))
    while begin < end:
        at = row * self.stride_h - self.top
        first = max(at, 0)
        window.rows = min(at + self.rows, self.h) - first
        slots.pool_row(self.kind, &window, x + first * in_width, self.left, self.out_w, y)
        y += out_width
        begin += 1
        row += 1
        if row == self.out_h:
            row = 0
            x += self.h * in_width


cdef int pool(Pool self, pl_pool *threads) noexcept nogil:
    if self.lines:
        parallel_for(threads, self.lines, self.grain, <pl_range_fn>pool_rows, <void *>self)
    return 0
