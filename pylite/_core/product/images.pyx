"""The base of convolutions and fully connected layers: products whose rows are windows of images."""
from pylite._core.product.division cimport set_output
from pylite._core.product.product cimport IN_PLACE, LINES, TAPS, Product
from pylite._core.product.window cimport set_window
from pylite._core.run.kernel cimport kernel_fn, nothing, set_strided


cdef class ImageProduct(Kernel):
    """A product whose rows are windows of images; a matrix product has images of 1 x 1 pixels.

    x: (n, h, w, c) and y: (n, oh, ow, k), with any strides, but contiguous channels.
    filter: (fh, fw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w).  Volumes have an axis d, before h; then
    filter has a number for d before each for h.

    A constructor calls start(), sets product.groups and all else that does not depend on shapes, and calls plan(), as
    moved() does for new shapes.
    moved() copies only this class's attributes: plan() sets every attribute that a subclass adds.
    """
    ARRAYS, SIZES = (0, 1), ("filter",)

    cdef bint start(self, Images *images, x, y, Py_ssize_t item, Py_ssize_t y_item, int ndim=4) except -1:
        """Describe x and y in `images`; False if there is nothing to compute.

        item, y_item: the bytes of their elements, 0 for any; ndim: the rank of both.
        """
        set_strided(&images.x, x, ndim, item)
        set_strided(&images.y, y, ndim, y_item, True)
        images.arrays[0], images.arrays[1] = &images.x, &images.y
        self.memory = x, y
        return images.y.nbytes != 0

    cdef int set_images(self, const Strided *x, const Strided *y, filter) except -1:
        """Set the images of the product."""
        set_window(&self.product.window, x, y, self.product.groups, filter)
        set_output(&self.product.output, y)
        return 0

    cdef int plan(self, const Strided **arrays, filter) except -1:
        """Set all that depends on shapes: the images, the sizes of the product, where rows come from, `fn`.

        arrays: as ARRAYS, the first two of which are the images x and y.
        """
        raise NotImplementedError

    cdef str source(self):
        """Where rows come from, in words for `pylite inspect`."""
        cdef const Product *p = &self.product
        if p.rows.bytes.single != NULL:
            return "a single row"
        if p.rows.source == IN_PLACE or (p.rows.source == LINES and p.rows.bytes.in_place):
            return "rows as they lie in memory"
        if p.rows.source == LINES:
            return "lines, each packed once"
        return ("taps gathered into packed panels" if p.rows.source == TAPS
                else "gathered in pieces, too long for one packed panel")

    cdef bint suits(self, const Strided **arrays):
        """Do these arrays have the channels of the weights?"""
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        return (x != NULL and y != NULL
                and x.shape[x.ndim - 1] * x.item == self.product.window.length * self.product.groups
                and y.shape[y.ndim - 1] == self.product.columns * self.product.groups)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef ImageProduct copy
        if self.fn == <kernel_fn>nothing or self.one_shape or not self.suits(arrays) or arrays[1].nbytes == 0:
            return None
        copy = <ImageProduct>self.base_copy()
        copy.owners, copy.product = self.owners, self.product
        copy.plan(arrays, sizes[0])
        return copy
