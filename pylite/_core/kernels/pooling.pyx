"""Average, maximum and L2 pooling."""
from libc.stdint cimport uint8_t
from libc.string cimport memmove

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, set_strided
from pylite._core.simd cimport parallel_for, pl_pool, pl_pooling_fn, pl_pooling_kernel, pl_range_fn, pl_window, slots

SUFFIXES = {"float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int16": "i16"}

cdef enum:
    GRAIN = 32768       # least number of input elements for a thread


cdef class Pooling(Kernel):
    """y = the average, maximum or root mean square of the taps of each window that are inside the image.

    x: (n, h, w, bytes) and y: (n, oh, ow, bytes), the pixels of `dtype`; any strides, but contiguous channels; window,
    stride, before: (rows, cols), `before` being the padding at the top and left.  Every window has a tap inside the
    image.  Results are clamped to limits, (low, high).
    """
    ARRAYS, SIZES = (0, 1), ("window", "stride", "before")
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef ptrdiff_t x_image, x_line, y_image, y_line     # strides
    cdef pl_window window
    cdef ptrdiff_t h, out_h, out_w, rows, stride_h, top, left, item
    cdef ptrdiff_t lines, grain     # output lines of all images; least number for a thread
    cdef pl_pooling_fn kernel

    def __init__(self, x, y, str operation, str dtype, window, stride, before, limits):
        cdef Strided source, target
        set_strided(&source, x, 4, 1)
        set_strided(&target, y, 4, 1, True)
        self.memory = x, y
        self.kernel = pl_pooling_kernel(slots, f"pool_{operation}_{SUFFIXES[dtype]}".encode())
        if self.kernel == NULL:
            raise ValueError(f"there is no pooling {operation!r} of {dtype}")
        self.item = {"float32": 4, "float16": 2, "int16": 2}.get(dtype, 1)
        cdef pl_window *w = &self.window
        if dtype in ("float32", "float16"):
            w.low_f, w.high_f = limits
        else:
            w.low, w.high = limits
        self.arrange(&source, &target, window, stride, before)
        self.fn = <kernel_fn>pool
        if dtype == "float32" and operation != "max":
            self.subnormals = FLUSH

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Pooling copy
        if arrays[0] == NULL or arrays[1] == NULL:
            return None
        copy = <Pooling>self.base_copy()
        copy.kernel, copy.item, copy.window = self.kernel, self.item, self.window
        copy.arrange(arrays[0], arrays[1], sizes[0], sizes[1], sizes[2])
        return copy

    cdef int arrange(self, const Strided *x, const Strided *y, window, stride, before) except -1:
        """Set sizes, memory and windows."""
        cdef pl_window *w = &self.window
        self.x, self.y = <const uint8_t *>x.data, <uint8_t *>y.data
        self.x_image, self.x_line, self.y_image, self.y_line = x.strides[0], x.strides[1], y.strides[0], y.strides[1]
        self.h, self.out_h, self.out_w = x.shape[1], y.shape[1], y.shape[2]
        w.width, w.channels = x.shape[2], x.shape[3] // self.item
        w.row_stride, w.x_pixel, w.y_pixel = (
            x.strides[1] // self.item, x.strides[2] // self.item, y.strides[2] // self.item)
        self.rows, w.cols = window
        self.stride_h, w.stride = stride
        self.top, self.left = before
        if (self.out_w == 1 and w.cols == w.width and self.left == 0 and w.row_stride == w.width * w.x_pixel
                and <double>self.out_h * w.channels * self.rows * w.cols <= GRAIN):
            # Windows are as wide as the image, so treat the image as a single line.
            self.stride_h, w.stride, self.top, self.left = 1, self.stride_h * w.width, 0, self.top * w.width
            self.h, w.width, self.rows, w.cols = 1, self.h * w.width, 1, self.rows * w.cols
            self.out_h, self.out_w, w.y_pixel = 1, self.out_h, y.strides[1] // self.item
        if y.nbytes:
            self.lines = y.shape[0] * self.out_h
            # A double, because the file's filter may have more taps than an integer can count.
            self.grain = 1 + <ptrdiff_t>(GRAIN / (<double>self.out_w * w.channels * self.rows * w.cols))
        return 0


cdef void pool_rows(Pooling self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute output lines begin to end - 1, counted over the batch."""
    cdef pl_window window
    cdef ptrdiff_t image = begin // self.out_h if begin else 0, row = begin - image * self.out_h, top, first
    memmove(&window, &self.window, sizeof(window))
    while begin < end:
        top = row * self.stride_h - self.top
        first = max(top, 0)
        window.rows = min(top + self.rows, self.h) - first
        self.kernel(&window, self.x + image * self.x_image + first * self.x_line, self.left, self.out_w,
                    self.y + image * self.y_image + row * self.y_line)
        begin += 1
        row += 1
        if row == self.out_h:
            row = 0
            image += 1


cdef int pool(Pooling self, pl_pool *threads) noexcept nogil:
    if self.lines:
        parallel_for(threads, self.lines, self.grain, <pl_range_fn>pool_rows, <void *>self)
    return 0
