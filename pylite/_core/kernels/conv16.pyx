"""int16 convolutions and matrix products: exact sums, rounded once."""
import numpy as np

from libc.stdint cimport int16_t, uint8_t

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn, nothing, set_strided
from pylite._core.product.tasks cimport set_output
from pylite._core.product.window cimport set_window
from pylite._core.product.words cimport ProductS16, run_product, set_finish, set_sizes
from pylite._core.simd cimport memory_of, pl_pool, slots

from pylite._core.kernels.packing import arranged


def pack_s16(w, layout=None):
    """8- or 16-bit weights (columns, ...) as int16 (columns, depth); layout: see packing.arranged."""
    w = arranged(w, layout)
    return np.ascontiguousarray(w.reshape(w.shape[0], w.size // w.shape[0] if w.size else 0), np.int16)


cdef class Conv16(Kernel):
    """int16 2-D convolution with zero points 0.

    x: (n, h, w, c) and y: (n, oh, ow, k); any strides, but contiguous channels; w: from pack_s16; wide: do weights need
    more than 8 bits? filter and groups: as in conv.ConvQ8; finish: see words.set_finish.
    """
    ARRAYS, SIZES = (0, 1), ("filter",)
    cdef object owners      # of the other memory that state points to
    cdef ProductS16 state

    def __init__(self, x, y, const int16_t[:, ::1] w, *, bint wide=False, filter, ptrdiff_t groups=1, finish):
        cdef ProductS16 *p = &self.state
        cdef Strided source, target
        set_strided(&source, x, 4, 2)
        set_strided(&target, y, 4, 2, True)
        self.memory = x, y
        if target.nbytes == 0:
            return
        zero = bytes(max(<ptrdiff_t>2, source.shape[3] // groups * 2))
        self.owners = w, zero, set_finish(&p.finish, finish)
        p.w, p.window.zero = &w[0, 0] if w.size else NULL, <const uint8_t *>memory_of(zero, len(zero))
        self.arrange(&source, &target, filter, groups, wide)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const ProductS16 *original = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef Conv16 copy
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or y.nbytes == 0
                or x.shape[3] * 2 != original.window.length * original.groups
                or y.shape[3] != original.columns * original.groups):
            return None
        copy = Conv16.__new__(Conv16)
        copy.owners, copy.state = self.owners, self.state
        copy.arrange(x, y, sizes[0], original.groups, original.chunk == 1)
        return copy

    cdef int arrange(self, const Strided *x, const Strided *y, filter, ptrdiff_t groups, bint wide) except -1:
        """Set the sizes of the product and the memory of x and y."""
        cdef ProductS16 *p = &self.state
        set_window(&p.window, <const uint8_t *>x.at if x.nbytes else NULL, x.strides[0], x.strides[1], x.strides[2],
                   x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // groups * 2, p.window.zero, filter)
        set_output(&p.output, y.at, y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1], y.strides[2])
        set_sizes(p, slots, y.shape[3], groups, p.window.fh * p.window.fw * p.window.length // 2, wide)
        self.fn = <kernel_fn>conv16
        return 0


cdef int conv16(Conv16 self, pl_pool *pool) noexcept nogil:
    return run_product(&self.state, pool)
