"""One kernel class for sequential and rare ops, each of which is a C function of scanning.h."""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport strcmp

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport memory_of, parallel_for, pl_pool, pl_range_fn, pl_slots, slots

import numpy as np


cdef extern from "scanning.h" nogil:
    ctypedef struct pl_row_arguments:
        const pl_slots *slots
        void **p
        int64_t *n
        double *f
        int status
    ctypedef void (*pl_row_fn)(pl_row_arguments *t, ptrdiff_t begin, ptrdiff_t end) noexcept nogil
    ctypedef struct pl_row_function:
        const char *name
        pl_row_fn run
        int arrays, numbers, reals
    const pl_row_function pl_row_functions[]
    const char *const pl_type_names[]
    enum: PL_MAX_RANK
    int64_t pl_count(int64_t n, const uint8_t *x)
    void pl_write_indices(int64_t rank, const int64_t *shape, const uint8_t *x, int64_t *y)

cdef uint8_t empty = 0


cdef int64_t type_number(str dtype) except -1:
    """The index of a type in pl_type_names."""
    cdef bytes wanted = dtype.encode()
    cdef int64_t i = 0
    while pl_type_names[i] != NULL:
        if not strcmp(pl_type_names[i], wanted):
            return i
        i += 1
    raise ValueError(f"no row function takes {dtype}")


cdef const pl_row_function *find(str name) except NULL:
    cdef bytes wanted = name.encode()
    cdef const pl_row_function *function = pl_row_functions
    while function.name != NULL:
        if not strcmp(function.name, wanted):
            return function
        function += 1
    raise ValueError(f"there is no row function {name!r}")


cdef class RowFunction(Kernel):
    """Runs the function `name` of pl_row_functions (scanning.h) over `rows` rows.

    numbers, arrays, reals: the function's n (a type by its name), p (the bytes of arrays, or None) and f, in its order;
    grain: least number of rows for a thread, 0 if one thread must take all.
    """
    ERRORS = {1: "a length is negative or longer than the axis that is reversed",
              2: "the two shapes cannot be broadcast together", 3: "a difference is larger than the tolerance"}
    cdef pl_row_arguments arguments
    cdef pl_row_fn row_function
    cdef Py_ssize_t rows, grain
    cdef tuple arrays

    def __init__(self, str name, Py_ssize_t rows, Py_ssize_t grain, tuple numbers, *arrays, tuple reals=()):
        cdef const pl_row_function *function = find(name)
        cdef const uint8_t[::1] view
        cdef Py_ssize_t i
        if len(arrays) != function.arrays or len(numbers) != function.numbers or len(reals) != function.reals:
            raise TypeError(f"the row function {name!r} takes another number of arrays, numbers or reals")
        self.arguments.slots = slots
        self.arrays, self.rows, self.grain = arrays, rows, grain or rows + 1
        for i, view in enumerate(arrays):
            if view is not None:
                self.arguments.p[i] = <void *>&view[0] if view.shape[0] else <void *>&empty
        for i, value in enumerate(numbers):
            self.arguments.n[i] = type_number(value) if isinstance(value, str) else value
        for i, value in enumerate(reals):
            self.arguments.f[i] = value
        self.row_function, self.fn = function.run, <kernel_fn>run


cdef int run(RowFunction self, pl_pool *pool) noexcept nogil:
    self.arguments.status = 0
    parallel_for(pool, self.rows, self.grain, <pl_range_fn>run_range, <void *>self)
    return self.arguments.status


cdef void run_range(RowFunction self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    self.row_function(&self.arguments, begin, end)


def indices_of(mask, check_memory):
    """The indices of the elements of a contiguous array of bool that are true: (found, dimensions) int64.

    check_memory: a function that is called with the bytes needed, before they are allocated.
    """
    cdef int64_t sizes[PL_MAX_RANK]
    cdef tuple shape = mask.shape
    cdef Py_ssize_t rank = len(shape), n = mask.nbytes, rows, i
    cdef const uint8_t *elements = <const uint8_t *>memory_of(mask, n)
    if not 0 < rank <= PL_MAX_RANK:
        raise ValueError(f"{rank} dimensions; 1 to {PL_MAX_RANK} can be searched")
    for i in range(rank):
        sizes[i] = shape[i]
    rows = pl_count(n, elements) + 1
    check_memory(8 * rank * rows)
    found = np.empty((rows, rank), np.int64)
    if n:
        pl_write_indices(rank, sizes, elements, <int64_t *>memory_of(found, 8 * rank * rows))
    return found[:-1]
