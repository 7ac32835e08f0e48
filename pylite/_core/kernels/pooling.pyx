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
    cdef ptrdiff_t h, w, c, out_h, out_w, rows, cols, stride_h, stride_w, top, left, item
    cdef int kind

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str operation, str dtype, x_shape, y_shape, window,
                 stride, before, low, high):
        self.x, self.y = x, y
        self.kind = 4 * OPERATIONS.index(operation) + TYPES.index(dtype)
        _, self.h, self.w, self.c = x_shape
        _, self.out_h, self.out_w, _ = y_shape
        self.rows, self.cols = window
        self.stride_h, self.stride_w = stride
        self.top, self.left = before
        self.item = {"float32": 4, "int16": 2}.get(dtype, 1)
        self.window.channels = self.window.col_stride = self.c
        self.window.row_stride = self.w * self.c
        if dtype == "float32":
            self.window.low_f, self.window.high_f = low, high
        else:
            self.window.low, self.window.high = low, high
        self.fn = <kernel_fn>pool


cdef void pool_rows(Pool self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Output rows [begin, end), counted over the batch."""
    cdef pl_window window = self.window
    cdef ptrdiff_t pixel = self.c * self.item, row, j, at_y, at_x, low_y, low_x
    cdef const uint8_t *image
    cdef uint8_t *y = &self.y[0] + begin * self.out_w * pixel
    for row in range(begin, end):
        image = &self.x[0] + row // self.out_h * self.h * self.w * pixel
        at_y = row % self.out_h * self.stride_h - self.top
        low_y = max(at_y, 0)
        window.rows = min(at_y + self.rows, self.h) - low_y
        for j in range(self.out_w):
            at_x = j * self.stride_w - self.left
            low_x = max(at_x, 0)
            window.cols = min(at_x + self.cols, self.w) - low_x
            slots.pool_pixel(self.kind, &window, image + (low_y * self.w + low_x) * pixel, y)
            y += pixel


cdef int pool(Pool self, pl_pool *threads) noexcept nogil:
    cdef ptrdiff_t pixels = self.y.shape[0] // max(self.c * self.item, 1)
    if pixels == 0:
        return 0
    parallel_for(threads, pixels // self.out_w, 1 + 32768 // (self.out_w * self.c * self.rows * self.cols),
                 <pl_range_fn>pool_rows, <void *>self)
    return 0
