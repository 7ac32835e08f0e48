"""The base class of kernels (one computation bound to its memory), and functions on the arguments of calls."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_INCREF

from pylite._core.simd cimport Pool, memory_of, pl_pool

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type kind, object args, void *keywords)
    int Py_tp_new
    unsigned long PyType_GetFlags(type kind)
    unsigned long Py_TPFLAGS_HEAPTYPE
    void *PyType_GetSlot(type kind, int slot)


cdef class Kernel:
    """One computation bound to its arrays.

    A subclass takes its arrays and parameters in `__init__`, keeps them as typed memoryviews, and sets `fn` to its
    nogil function.  A subclass with nothing to compute does not set `fn`.  The function does not raise: it returns 0,
    or a status that explain() turns into a message, by default from ERRORS, {status: message}.  It neither allocates
    memory nor takes the GIL, with four exceptions, which turn Python's exceptions into a status: ops in Python,
    plug-ins in C, variables that get a new shape, and WHILE, which looks for signals.

    OWNED: does the kernel keep objects of one interpreter, such as variables or Python functions?  Then no other
    interpreter may use the calls that construct it.
    PYTHON: does the kernel run a Python function, which may keep references to its arguments?
    ARRAYS, SIZES: the arguments that moved() takes, by position or name, at most MAX_ARRAYS arrays; empty if each set
    of shapes needs a constructor call.
    """
    ERRORS = {}
    OWNED = PYTHON = False
    ARRAYS = SIZES = ()

    cdef Kernel base_copy(self):
        """For moved(): a new kernel of the same class, with the attributes of this base class, except for `memory`."""
        cdef Kernel copy = (<newfunc>PyType_GetSlot(type(self), Py_tp_new))(type(self), (), NULL)
        copy.fn, copy.subnormals, copy.algorithm = self.fn, self.subnormals, self.algorithm
        return copy

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        """A copy of this kernel for other shapes, with the same weights; None if the constructor must make it.

        arrays: the arguments ARRAYS, NULL for each that has not moved; sizes: the arguments SIZES, None for each that
        the call omits.  The caller sets `memory`.
        """
        return None

    cdef Kernel calling(self, list callees, const Bytes *arrays, Py_ssize_t count):
        """A copy of this kernel that calls other Callees; None if the constructor must make it.

        arrays: the `count` arguments after the callees.  The caller sets `memory`.
        """
        return None

    def __cinit__(self):
        self.fn = <kernel_fn>nothing
        if PyType_GetFlags(Kernel) & Py_TPFLAGS_HEAPTYPE and not PyType_GetFlags(type(self)) & Py_TPFLAGS_HEAPTYPE:
            Py_INCREF(type(self))   # Kernel's tp_dealloc() drops a reference, which objects of static types do not have

    def explain(self, int status):
        """The message for a status other than 0.  May raise an exception if the kernel itself did not fail."""
        return self.ERRORS.get(status, f"status {status}")

    def cause(self):
        """The plug-in's exception behind the last status, returned once; or None."""
        return None

    @property
    def computes(self):
        """Is there a function to run?"""
        return self.fn != <kernel_fn>nothing

    def run(self, Pool pool=None):
        """Run once; returns the status (0: done).  For tests: a Program runs kernels without Python."""
        cdef pl_pool *p = NULL
        if pool is not None:
            p = pool.ptr
        cdef int status
        with nogil:
            status = self.fn(<void *>self, p)
        return status


cdef tuple outside_arena(tuple owners, const Strided **arrays):
    cdef list kept = list(owners)
    cdef Py_ssize_t i
    for i in range(len(kept)):
        if arrays[i] != NULL:
            kept[i] = None
    return tuple(kept)


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef Bytes bytes_of(array) except *:
    cdef Py_buffer view
    cdef Bytes result = Bytes(NULL, -1)
    if array is not None:
        PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
        result = Bytes(<char *>view.buf, view.len)
        PyBuffer_Release(&view)
    return result


cdef int set_strided(Strided *s, array, int ndim=0, Py_ssize_t item=0, bint written=False) except -1:
    cdef Py_buffer view
    cdef int i
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES | (PyBUF_WRITABLE if written else 0))
    try:
        if view.ndim > MAX_DIMS or (ndim and view.ndim != ndim):
            raise ValueError(f"an array of {view.ndim} dimensions where kernels take {ndim or MAX_DIMS}")
        if item and view.itemsize != item:
            raise ValueError(f"an array with elements of {view.itemsize} bytes where kernels take {item}")
        s.data, s.ndim, s.item, s.nbytes = <char *>view.buf, view.ndim, view.itemsize, view.len
        for i in range(view.ndim):
            s.shape[i], s.strides[i] = view.shape[i], view.strides[i]
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int set_contiguous(Strided *s, array, int ndim, Py_ssize_t item, bint written) except -1:
    set_strided(s, array, ndim, item, written)
    memory_of(array, s.nbytes)      # raises if it is not contiguous
    return 0


cdef int describe(tuple memory, tuple forms, Strided *operands, const Strided **arrays,
                  bint contiguous=False) except -1:
    cdef int i
    for i, (ndim, item, written) in enumerate(forms):
        arrays[i] = NULL
        if i < len(memory) and memory[i] is not None:
            set_strided(&operands[i], memory[i], ndim, item, written)
            if contiguous:
                memory_of(memory[i], operands[i].nbytes)
            arrays[i] = &operands[i]
    return 0


# Compiled, because calls have about thirty arguments: these loops take a third of the time of Python's.
def of_types(tuple args, types):
    """The args whose type is in the set `types`, in order."""
    cdef list selected = []
    for arg in args:
        if type(arg) in types:
            selected.append(arg)
    return selected


def construct(make, args, names):
    """A kernel of the class `make`.  names: the names of the last args, or None."""
    if names is None:
        return make(*args)
    cdef Py_ssize_t first = len(args) - len(names)
    return make(*args[:first], **dict(zip(names, args[first:])))
