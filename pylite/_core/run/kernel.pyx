"""The base class of every kernel, one computation bound to its memory; and functions for the arguments of calls."""
from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from pylite._core.simd cimport Pool, pl_pool


cdef class Kernel:
    """One computation bound to its arrays.

    A subclass takes its arrays and parameters in `__init__`, keeps them as typed memoryviews, and sets `fn` to its
    nogil function.  That function neither allocates memory nor takes the GIL nor raises: it returns 0, or a status that
    the class attribute ERRORS explains.  A subclass that has nothing to compute leaves `fn` as it is.

    OWNED: does the kernel keep objects of one interpreter, such as variables or functions in Python?  Then no other
    interpreter may use the calls that construct it.
    PYTHON: does the kernel run a function in Python, which may keep whatever it was made from?
    ARRAYS, SIZES: the arguments that moved() takes, positions, or names where calls name them; empty where a kernel
    is constructed for each set of shapes.
    """
    ERRORS = {}
    OWNED = PYTHON = False
    ARRAYS = SIZES = ()

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        """A kernel like this one for other shapes, with the same weights, or None where one must be constructed.

        arrays: the arguments ARRAYS, NULL for those that stay; sizes: the arguments SIZES, None for those that the call
        leaves out.  The caller sets `memory`.
        """
        return None

    def __cinit__(self):
        self.fn = <kernel_fn>nothing

    def explain(self, int status):
        """The meaning of a status other than 0; may raise an exception that is not a failure of the kernel."""
        return self.ERRORS.get(status, f"status {status}")

    def cause(self):
        """The exception of a plug-in that led to the last status, returned once; or None."""
        return None

    def run(self, Pool pool=None):
        """Run once; returns the status (0: done).  For tests: a Program runs kernels without Python."""
        cdef pl_pool *p = NULL
        if pool is not None:
            p = pool.ptr
        cdef int status
        with nogil:
            status = self.fn(<void *>self, p)
        return status


cdef tuple outside_arena(tuple operands, const Strided **arrays):
    cdef list kept = list(operands)
    cdef Py_ssize_t i
    for i in range(len(kept)):
        if arrays[i] != NULL:
            kept[i] = None
    return tuple(kept)


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int set_strided(Strided *s, array, int ndim=0, Py_ssize_t item=0, bint written=False) except -1:
    cdef Py_buffer view
    cdef int i
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES | (PyBUF_WRITABLE if written else 0))
    try:
        if view.ndim > MOST_DIMS or (ndim and view.ndim != ndim):
            raise ValueError(f"an array of {view.ndim} dimensions where kernels take {ndim or MOST_DIMS}")
        if item and view.itemsize != item:
            raise ValueError(f"an array with elements of {view.itemsize} bytes where kernels take {item}")
        s.at, s.ndim, s.item, s.nbytes = <char *>view.buf, view.ndim, view.itemsize, view.len
        for i in range(view.ndim):
            s.shape[i], s.strides[i] = view.shape[i], view.strides[i]
    finally:
        PyBuffer_Release(&view)
    return 0


# Calls have about thirty arguments, most of them numbers: loops over these take a third of the time here.
def of_types(tuple args, types):
    """The args whose type is in the set `types`, in order."""
    cdef list selected = []
    for arg in args:
        if type(arg) in types:
            selected.append(arg)
    return selected


def substituted(tuple args, dict makers):
    """The args, each replaced by makers[type](arg) where `makers`, {type: function}, has its type."""
    cdef list made = list(args)
    cdef Py_ssize_t i
    for i in range(len(made)):
        maker = makers.get(type(made[i]))
        if maker is not None:
            made[i] = maker(made[i])
    return made


def construct(make, args, names):
    """The kernel that its class `make` constructs from `args`; `names`: of the last args, or None."""
    if names is None:
        return make(*args)
    cdef Py_ssize_t first = len(args) - len(names)
    return make(*args[:first], **dict(zip(names, args[first:])))
