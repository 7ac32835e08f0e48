"""int16 convolutions and matrix products: exact sums, rounded once."""
import numpy as np

from libc.stdint cimport int16_t, uint8_t

from pylite._core.product.images cimport ImageProduct, Images
from pylite._core.product.product cimport Product
from pylite._core.product.words cimport padded, run_product, set_finish, set_sizes
from pylite._core.run.kernel cimport Strided, kernel_fn
from pylite._core.simd cimport memory_of, pl_pool

from pylite._core.kernels.packing import arranged


def pack_s16(w, layout=None):
    """8- or 16-bit weights (columns, ...) as int16 (columns, padded depth), with zeros beyond the depth.

    layout: see packing.arranged.
    """
    w = arranged(w, layout)
    depth = w.size // w.shape[0] if w.size else 0
    packed = np.zeros((w.shape[0], padded(depth)), np.int16)
    packed[:, :depth] = w.reshape(w.shape[0], depth)
    return packed


cdef class Conv16(ImageProduct):
    """int16 2-D convolution with zero points 0.

    x, y, filter: as in ImageProduct; w: from pack_s16; wide: do weights need more than 8 bits? finish: see
    words.set_finish.
    """
    def __init__(self, x, y, const int16_t[:, ::1] w, *, bint wide=False, filter, ptrdiff_t groups=1, finish):
        cdef Product *p = &self.product
        cdef Images images
        if not self.start(&images, x, y, 2, 2):
            return
        zero = bytes(max(<ptrdiff_t>2, images.x.shape[3] // groups * 2))
        self.owners = w, zero, set_finish(&p.int16, finish)
        p.panels = <const uint8_t *>&w[0, 0] if w.size else NULL
        p.window.zero, p.wide, p.groups = <const uint8_t *>memory_of(zero, len(zero)), wide, groups
        self.plan(images.arrays, filter)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        self.set_images(arrays[0], arrays[1], filter)
        set_sizes(p, arrays[1].shape[3], p.groups, p.window.fh * p.window.fw * p.window.length // 2)
        self.fn = <kernel_fn>conv16
        return 0


cdef int conv16(Conv16 self, pl_pool *pool) noexcept nogil:
    return run_product(&self.product, pool)
