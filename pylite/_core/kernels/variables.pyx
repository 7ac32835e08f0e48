"""Resource variables, and the kernels that read and assign them."""
from libc.string cimport memmove

from pylite._core.run.kernel cimport MAX_DIMS, Kernel, kernel_fn
from pylite._core.simd cimport memory_of, pl_pool

cdef struct Form:               # shape and type of an array; equal forms allow copying bytes
    Py_ssize_t kind, ndim, nbytes       # kind: numpy's number of the type
    Py_ssize_t shape[MAX_DIMS]


cdef Form form_of(array) except *:
    cdef Form form
    cdef Py_ssize_t i
    if array.ndim > MAX_DIMS:
        raise ValueError(f"{array.ndim} dimensions; a variable has at most {MAX_DIMS}")
    form.kind, form.ndim, form.nbytes = array.dtype.num, array.ndim, array.nbytes
    for i in range(form.ndim):
        form.shape[i] = array.shape[i]
    return form


cdef bint same(Form *a, Form *b) noexcept nogil:
    cdef Py_ssize_t i
    if a.kind != b.kind or a.ndim != b.ndim:
        return False
    for i in range(a.ndim):
        if a.shape[i] != b.shape[i]:
            return False
    return True


cdef class Variable:
    """A resource variable.

    array: its contents, None before the first assignment; expected: the shape that lowering assumed, or None; varying:
    were several shapes assigned?  Then readers check it in each run; reserved: bytes that it may take.
    """
    KIND = "variable"
    cdef readonly object array
    cdef public object expected
    cdef public bint varying
    cdef public Py_ssize_t reserved
    cdef Form form
    cdef void *data

    def __cinit__(self):
        self.form.kind = -1

    def assign(self, array):
        """Store a copy of `array`, in new memory."""
        array = array.copy()
        self.form, self.data, self.array = form_of(array), memory_of(array, array.nbytes), array


cdef class Access(Kernel):
    """The base of Read and Assign: a variable, and the array that it is copied to or from."""
    OWNED = True
    cdef Variable variable
    cdef object array
    cdef Form form
    cdef void *data

    def __cinit__(self, Variable variable, array):
        self.variable, self.array = variable, array
        self.form, self.data = form_of(array), memory_of(array, array.nbytes)


cdef class Read(Access):
    """array[...] = the contents of the variable, which must have the same shape and type."""

    def __init__(self, variable, array):
        self.fn = <kernel_fn>read

    def explain(self, int status):
        array = self.variable.array
        if array is None:
            return "the variable is read before anything was assigned to it"
        return f"the variable holds {array.dtype}{list(array.shape)}, not {self.array.dtype}{list(self.array.shape)}"


cdef int read(Read self, pl_pool *pool) noexcept nogil:
    if not same(&self.form, &self.variable.form):
        return 1
    memmove(self.data, self.variable.data, self.form.nbytes)
    return 0


cdef class Assign(Access):
    """The contents of the variable = array."""
    ERRORS = {1: "no memory for the variable"}

    def __init__(self, variable, array):
        self.fn = <kernel_fn>assign


cdef int assign(Assign self, pl_pool *pool) noexcept nogil:
    if not same(&self.form, &self.variable.form):
        with gil:
            try:
                self.variable.assign(self.array)
            except MemoryError:
                return 1
    else:
        memmove(self.variable.data, self.data, self.form.nbytes)
    return 0
