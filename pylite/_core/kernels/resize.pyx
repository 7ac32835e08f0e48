"""Resizing of images.  Lowering computes the indices and weights of rows and columns."""
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memmove

from pylite._core.run.memory import private

from pylite._core.run.kernel cimport FLUSH, Kernel, kernel_fn
from pylite._core.simd cimport (
    PL_LONG_PIXEL,
    parallel_for,
    pl_bilinear_fn,
    pl_bilinear_kernel,
    pl_pool,
    pl_range_fn,
    slots,
)

cdef enum:                  # least number of elements that a thread
    BLEND_GRAIN = 8192      # interpolates,
    COPY_GRAIN = 16384      # or copies, in bytes

TYPES = {"float32": ("f32", 4), "uint8": ("u8", 1), "int8": ("i8", 1), "int16": ("i16", 2)}    # suffix, bytes


cdef class Bilinear(Kernel):
    """Bilinear interpolation between four pixels of x.

    x: the bytes of an NHWC array of `dtype` and shape `x_shape`; y: (n, oh, ow, bytes), pixels of the same type; any
    strides, but contiguous channels; rows, cols: (low, high, fraction) of all output rows and columns: int32 indices
    into x, and the weight of `high`, float32 or, for signed integers, int32 in units of 1/1024.  For 8 bits, weights
    that are multiples of 1/16, as of images that become 2, 4 or 8 times as large, are used in such units: the steps in
    float32 are then exact, too.
    gather: use the form for up to 512 channels, with a weight for each channel of each column in `cols`, and contiguous
    y.
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[:, :, :, :] y
    cdef const int32_t[::1] row_low
    cdef const int32_t[::1] row_high
    cdef const int32_t[::1] col_low
    cdef const int32_t[::1] col_high
    cdef const uint8_t[::1] row_fraction    # bytes; weights have four
    cdef const uint8_t[::1] col_fraction
    cdef ptrdiff_t h, w, c, item
    cdef int gather
    cdef pl_bilinear_fn kernel

    def __init__(self, const uint8_t[::1] x, uint8_t[:, :, :, :] y, str dtype, x_shape, rows, cols, bint gather=False):
        self.x, self.y, self.gather = x, y, gather
        suffix, self.item = TYPES[dtype]
        unit = {"int8": 64, "uint8": 0.0625}.get(dtype)
        if unit is not None and not any([(fraction % unit).any() for _, _, fraction in (rows, cols)]):
            suffix += "_narrow"
            rows, cols = [(low, high, (fraction / unit).astype("int32")) for low, high, fraction in (rows, cols)]
        self.kernel = pl_bilinear_kernel(slots, f"bilinear_{suffix}".encode())
        _, self.h, self.w, self.c = x_shape
        low, high, fraction = rows
        self.row_low, self.row_high = private(low), private(high)
        self.row_fraction = fraction.view("uint8")
        low, high, fraction = cols
        self.col_low, self.col_high = private(low), private(high)
        self.col_fraction = fraction.view("uint8")
        self.fn = <kernel_fn>bilinear
        if dtype == "float32":
            self.subnormals = FLUSH


cdef void bilinear_rows(Bilinear self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute output rows begin to end - 1, counted over the batch."""
    cdef ptrdiff_t row, n, i, width = self.w * self.c * self.item
    cdef const uint8_t *image
    for row in range(begin, end):
        n = row // self.y.shape[1]
        i = row % self.y.shape[1]
        image = &self.x[0] + n * self.h * width
        self.kernel(self.y.shape[2], self.c, self.gather, image + self.row_low[i] * width,
                    image + self.row_high[i] * width, &self.col_low[0], &self.col_high[0], &self.col_fraction[0],
                    &self.row_fraction[4 * i], &self.y[n, i, 0, 0], self.y.strides[2] // self.item)


cdef int bilinear(Bilinear self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t width = self.y.shape[2] * self.c
    if self.y.shape[0] * self.y.shape[1] * width:
        parallel_for(pool, self.y.shape[0] * self.y.shape[1], 1 + BLEND_GRAIN // width,
                     <pl_range_fn>bilinear_rows, <void *>self)
    return 0


cdef class Nearest(Kernel):
    """y[n, i, j] = x[n, rows[i], cols[j]].

    x: (n, h, w, bytes), contiguous; y: (n, oh, ow, bytes); any strides, but contiguous channels.
    """
    cdef const uint8_t[:, :, :, ::1] x
    cdef uint8_t[:, :, :, :] y
    cdef const int32_t[::1] rows
    cdef const int32_t[::1] cols

    def __init__(self, const uint8_t[:, :, :, ::1] x, uint8_t[:, :, :, :] y, rows, cols):
        self.x, self.y, self.rows, self.cols = x, y, private(rows), private(cols)
        self.fn = <kernel_fn>nearest


cdef void nearest_rows(Nearest self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute output rows begin to end - 1, counted over the batch; a repeated row of short pixels is copied from the
    row above."""
    cdef ptrdiff_t row, n, i, width = self.y.shape[2] * self.y.shape[3]
    cdef bint repeats = self.y.strides[2] == self.y.shape[3] < PL_LONG_PIXEL
    cdef uint8_t *y
    for row in range(begin, end):
        n = row // self.y.shape[1]
        i = row % self.y.shape[1]
        y = &self.y[n, i, 0, 0]
        if repeats and row > begin and i and self.rows[i] == self.rows[i - 1]:
            memmove(y, y - self.y.strides[1], width)
        else:
            slots.gather_pixels(self.y.shape[2], self.y.shape[3], &self.cols[0], &self.x[n, self.rows[i], 0, 0], y,
                                self.y.strides[2])


cdef int nearest(Nearest self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t width = self.y.shape[2] * self.y.shape[3]
    if self.y.shape[0] * self.y.shape[1] * width:
        parallel_for(pool, self.y.shape[0] * self.y.shape[1], 1 + COPY_GRAIN // width,
                     <pl_range_fn>nearest_rows, <void *>self)
    return 0
