# A bound graph, for kernels that run one inside another.
from libc.stdint cimport int64_t

from pylite._core.run.kernel cimport Bytes, kernel_fn
from pylite._core.simd cimport Pool, pl_pool


cdef struct Step:
    kernel_fn fn
    void *self
    int subnormals          # as Kernel.subnormals


cdef class Program:
    cdef Step *steps
    cdef readonly Py_ssize_t size
    cdef readonly list kernels      # owns the kernels that `steps` points to
    cdef readonly Pool pool


cdef class IOBytes:
    cdef Bytes *items           # inputs, then outputs
    cdef Py_ssize_t count
    cdef object owner           # keeps their memory alive
    cpdef Callee callee(self, Segment segment, Py_ssize_t inputs, list absent)


cdef class Callee:
    cdef Program program
    cdef object failure
    cdef IOBytes io
    cdef readonly Py_ssize_t inputs
    cdef readonly list arrays
    cdef readonly Segment segment


# The bytes of `arrays`, some of which may be None.
cdef IOBytes io_bytes_of(arrays)


cdef class Memory:
    cdef readonly object array
    cdef object dtype, empty
    cdef tuple shape_and_dtype
    cdef Py_buffer view         # the array's memory; buf is NULL if its bytes cannot be copied as they are
    cdef copy(self)
    cdef bint assign(self, value) except -1


cdef class Segment:
    cdef public object program      # a Program; while `pylite bench` measures nodes, what runs it
    cdef public object arena        # a uint8 array
    cdef public object boundary     # the Value or Node on whose data further shapes depend, or None after the last one
    # Set by dynamic_shapes.watch() before the next segment is looked up: the array of the Value, or the operands of the
    # Node and the function that evaluates it, which is None for a Value.
    cdef public object watched, evaluate
    cdef public object evaluated    # the arrays into which the results of the Node before this segment are copied
    cdef public dict next           # {bytes of the Value, or shapes of the Node's results: the next segment}
    cdef public dict readable, writable, iterations
    cdef public bint used
    cdef int begin(self, program, arena) except -1


cdef class ExecutorBase:
    cdef public dict readable, writable
    cdef public Program fast_program
    cdef public Segment first_segment
    cdef public list segments
    cdef public object dynamic_shapes
    cdef public bint guard
    cdef int use(self, Segment bound) except -1


cdef class ReshaperBase:
    cdef bint activate(self, ExecutorBase executor, ShapeCache cache) except -1
    cdef bint activate_unchecked(self, ExecutorBase executor, ShapeCache cache) except -1


cdef class ShapeCache:
    cdef public Py_ssize_t capacity
    cdef public ReshaperBase reshaper
    cdef dict segments
    cdef dict arenas            # {id of an arena: [its bytes, programs in it]}
    cdef int64_t nbytes         # of all arenas
    cdef Segment find(self, key)
    cdef int keep(self, key, Segment segment) except -1
    cdef Segment pop(self, key)


# Run steps *position..stop-1.  Returns 0, or the status of the step that failed and its number in *position.
cdef int run_steps(Program program, pl_pool *pool, Py_ssize_t *position, Py_ssize_t stop) noexcept nogil


cdef inline int run_without_gil(Program program, Py_ssize_t *position, Py_ssize_t stop) noexcept:
    """run_steps() with the Program's own threads, for callers with the GIL."""
    cdef pl_pool *pool = NULL if program.pool is None else program.pool.ptr
    cdef int status
    with nogil:
        status = run_steps(program, pool, position, stop)
    return status


# The time of CLOCK_MONOTONIC.
cdef int64_t nanoseconds() noexcept nogil
