# The base of convolutions and fully connected layers.
from pylite._core.product.product cimport Product
from pylite._core.run.kernel cimport Kernel, Strided


cdef struct Images:         # the images of a kernel under construction
    Strided x, y
    const Strided *arrays[2]        # both, as plan() takes them


cdef class ImageProduct(Kernel):
    cdef object owners          # of the memory that `product` points to, except for x and y
    cdef Product product
    cdef bint one_shape         # does a kernel for other shapes need a constructor call?
    cdef bint start(self, Images *images, x, y, Py_ssize_t item, Py_ssize_t y_item, int ndim=*) except -1
    cdef int set_images(self, const Strided *x, const Strided *y, filter) except -1
    cdef int plan(self, const Strided **arrays, filter) except -1
    cdef str source(self)
    cdef bint suits(self, const Strided **arrays)
