"""float32 convolutions, in two and three dimensions, and matrix products; in two dimensions also in float16."""
from libc.stdint cimport uint8_t

from pylite._core.product.floats cimport HALF_DEPTH, pack_panels, plan_rows, rounded, run_product, set_sizes
from pylite._core.product.images cimport ImageProduct, Images
from pylite._core.product.product cimport Product
from pylite._core.product.window cimport taps_of
from pylite._core.run.kernel cimport FLUSH, Strided, kernel_fn
from pylite._core.simd cimport memory_of, pl_pool


cdef class ConvF32(ImageProduct):
    """float32 convolution: y = sum w x + b, clamped to limits, (low, high).

    x, y, filter: as in ImageProduct, also of volumes; panels: from pack_f32, or None to pack `weights` (k, depth) into
    `scratch` at each run; bias: (k,) or None; half: computed in float16, with panels from pack_f16, and images and
    results of float16 or float32; results of float16 have up to DEEPEST_HALF products.
    """
    DEEPEST_HALF = HALF_DEPTH   # most products in one float16 result

    cdef const float *weights   # weights to pack at each run, or NULL

    def __init__(self, x, y, panels, const float[::1] bias, *, filter, ptrdiff_t groups=1, limits,
                 const float[:, ::1] weights=None, float[::1] scratch=None, bint half=False):
        cdef Product *p = &self.product
        cdef Images images
        cdef Py_ssize_t item = 0 if half else 4         # 0: any
        cdef int axes = len(filter) // 4        # of the filter
        if not self.start(&images, x, y, item, item, axes + 2):
            return
        zero = bytes(<ptrdiff_t>filter[axes - 1] * images.x.shape[axes + 1] // groups * 4)
        if half:
            bias, limits = rounded(bias), rounded(limits)
        self.owners = panels, bias, weights, scratch, zero
        p.window.zero = <const uint8_t *>memory_of(zero, len(zero))
        p.float32.low, p.float32.high = limits
        p.float32.bias = &bias[0] if bias is not None else NULL
        self.one_shape = panels is None
        if self.one_shape:
            self.weights, p.panels = &weights[0, 0], <const uint8_t *>&scratch[0]
        else:
            p.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        p.half, p.groups = half, groups
        self.plan(images.arrays, filter)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[1]
        cdef str in_float16 = ", in float16" if p.half else ""
        self.fn, self.subnormals = <kernel_fn>conv_f32, FLUSH
        self.set_images(arrays[0], y, filter)
        set_sizes(p, y.shape[y.ndim - 1], p.groups, taps_of(&p.window) * p.window.length // arrays[0].item)
        p.x_item, p.y_item = <int>arrays[0].item, <int>y.item
        plan_rows(p)
        self.algorithm = self.source() + in_float16
        return 0


cdef int conv_f32(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    if self.weights != NULL:
        pack_panels(&p.tile, <const uint8_t *>self.weights, p.columns, p.depth, <uint8_t *>p.panels)
    return run_product(p, pool)
