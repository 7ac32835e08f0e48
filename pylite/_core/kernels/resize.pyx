"""Resizing kernels: rows and columns come as indices and weights computed when the model is lowered."""
from libc.stdint cimport int16_t, int32_t, int8_t, uint8_t
from libc.string cimport memcpy

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, slots

TYPES = ("float32", "uint8", "int8", "int16")


cdef class Bilinear(Kernel):
    """y = the blend of the four pixels of x around each output pixel.

    x, y: the bytes of NHWC arrays of `dtype` and shapes `x_shape`, `y_shape`; rows, cols: (low, high, fraction) for
    each output row and column: indices into x, int32, and the weight of the higher one, float32 or, for the signed
    integers, int32 in units of 1/1024.
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef const int32_t[::1] row_low
    cdef const int32_t[::1] row_high
    cdef const int32_t[::1] col_low
    cdef const int32_t[::1] col_high
    cdef const float[::1] row_fraction
    cdef const float[::1] col_fraction
    cdef const int32_t[::1] row_units
    cdef const int32_t[::1] col_units
    cdef ptrdiff_t h, w, c, out_h, out_w, item
    cdef int type

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str dtype, x_shape, y_shape, rows, cols):
        self.x, self.y = x, y
        self.type = TYPES.index(dtype)
        self.item = (4, 1, 1, 2)[self.type]
        _, self.h, self.w, self.c = x_shape
        _, self.out_h, self.out_w, _ = y_shape
        self.row_low, self.row_high, fraction = rows
        self.col_low, self.col_high, fraction_x = cols
        if self.type < 2:
            self.row_fraction, self.col_fraction = fraction, fraction_x
        else:
            self.row_units, self.col_units = fraction, fraction_x
        self.fn = <kernel_fn>bilinear


cdef void bilinear_rows(Bilinear self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Output rows [begin, end), counted over the batch."""
    cdef ptrdiff_t row, i, width = self.w * self.c * self.item, out_width = self.out_w * self.c * self.item
    cdef const uint8_t *image
    cdef const uint8_t *top
    cdef const uint8_t *bottom
    cdef const int32_t *low = &self.col_low[0]
    cdef const int32_t *high = &self.col_high[0]
    cdef uint8_t *y
    cdef size_t n = self.out_w, c = self.c
    for row in range(begin, end):
        i = row % self.out_h
        image = &self.x[0] + row // self.out_h * self.h * width
        top = image + self.row_low[i] * width
        bottom = image + self.row_high[i] * width
        y = &self.y[0] + row * out_width
        if self.type == 0:
            slots.bilinear_f32(n, c, <const float *>top, <const float *>bottom, low, high, &self.col_fraction[0],
                               self.row_fraction[i], <float *>y)
        elif self.type == 1:
            slots.bilinear_u8(n, c, top, bottom, low, high, &self.col_fraction[0], self.row_fraction[i], y)
        elif self.type == 2:
            slots.bilinear_s8(n, c, <const int8_t *>top, <const int8_t *>bottom, low, high, &self.col_units[0],
                              self.row_units[i], <int8_t *>y)
        else:
            slots.bilinear_s16(n, c, <const int16_t *>top, <const int16_t *>bottom, low, high, &self.col_units[0],
                               self.row_units[i], <int16_t *>y)


cdef int bilinear(Bilinear self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t width = self.out_w * self.c
    if self.y.shape[0]:
        parallel_for(pool, self.y.shape[0] // (width * self.item), 1 + 8192 // width,
                     <pl_range_fn>bilinear_rows, <void *>self)
    return 0


cdef class Nearest(Kernel):
    """y[n, i, j] = x[n, rows[i], cols[j]], pixels being bytes.  x: (n, h, w, bytes), y: (n, out_h, out_w, bytes)."""
    cdef const uint8_t[:, :, :, ::1] x
    cdef uint8_t[:, :, :, ::1] y
    cdef const int32_t[::1] rows
    cdef const int32_t[::1] cols

    def __init__(self, const uint8_t[:, :, :, ::1] x, uint8_t[:, :, :, ::1] y, const int32_t[::1] rows,
                 const int32_t[::1] cols):
        self.x, self.y, self.rows, self.cols = x, y, rows, cols
        self.fn = <kernel_fn>nearest


cdef void nearest_rows(Nearest self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Output rows [begin, end), counted over the batch; a repeated row is copied from the one above."""
    cdef ptrdiff_t row, n, i, width = self.y.shape[2] * self.y.shape[3]
    cdef uint8_t *y = &self.y[0, 0, 0, 0] + begin * width
    for row in range(begin, end):
        n = row // self.y.shape[1]
        i = row % self.y.shape[1]
        if row > begin and i and self.rows[i] == self.rows[i - 1]:
            memcpy(y, y - width, width)
        else:
            slots.gather_pixels(self.y.shape[2], self.y.shape[3], &self.cols[0], &self.x[n, self.rows[i], 0, 0], y)
        y += width


cdef int nearest(Nearest self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t width = self.y.shape[2] * self.y.shape[3]
    if self.y.shape[0] * self.y.shape[1] * width:
        parallel_for(pool, self.y.shape[0] * self.y.shape[1], 1 + 16384 // width,
                     <pl_range_fn>nearest_rows, <void *>self)
    return 0
