"""The base of convolutions and fully connected layers: products whose rows are windows of images."""
from pylite._core.product.tasks cimport set_output
from pylite._core.product.window cimport set_window
from pylite._core.run.kernel cimport nothing, kernel_fn, set_strided


cdef class ImageProduct(Kernel):
    """A product whose rows are windows of images; a matrix product has images of 1 x 1 pixels.

    x: (n, h, w, c) and y: (n, oh, ow, k), with any strides, but contiguous channels.
    filter: (fh, fw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w).  Volumes have an axis d, before h; then
    filter has a number for d before each for h.

    A constructor calls start(), sets what does not depend on shapes, and calls plan(), as moved() does for new shapes.
    """
    ARRAYS, SIZES = (0, 1), ("filter",)

    cdef bint start(self, x, y, ptrdiff_t groups, Strided *source, Strided *target, Py_ssize_t item,
                    Py_ssize_t y_item, int ndim=4) except -1:
        """Describe x and y in source and target; False if there is nothing to compute."""
        set_strided(source, x, ndim, item)
        set_strided(target, y, ndim, y_item, True)
        self.memory, self.product.groups = (x, y), groups
        return target.nbytes != 0

    cdef int set_images(self, const Strided *x, const Strided *y, filter) except -1:
        """Set the images of the product."""
        set_window(&self.product.window, x, y, self.product.groups, filter)
        set_output(&self.product.output, y)
        return 0

    cdef int plan(self, const Strided *x, const Strided *y, filter) except -1:
        """Set all that depends on shapes: the images, the sizes of the product, where rows come from, `fn`."""
        raise NotImplementedError

    cdef ImageProduct blank(self):
        """A new object of the same class."""
        raise NotImplementedError

    cdef bint suits(self, const Strided *x, const Strided *y):
        """Do these arrays, which may be NULL, have the channels of the weights?"""
        return (x != NULL and y != NULL and self.fn != <kernel_fn>nothing and not self.one_shape
                and x.shape[x.ndim - 1] * x.item == self.product.window.length * self.product.groups
                and y.shape[y.ndim - 1] == self.product.columns * self.product.groups)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef ImageProduct copy
        if not self.suits(arrays[0], arrays[1]):
            return None
        copy = self.blank()
        copy.owners, copy.product = self.owners, self.product
        if arrays[1].nbytes:
            copy.plan(arrays[0], arrays[1], sizes[0])
        return copy
