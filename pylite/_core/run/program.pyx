"""Bound graphs: Program, a flat list of kernels with the loop that runs them, and what belongs to a Program.

Callee, IOBytes     what a calling kernel knows of a Program, and the memory of its inputs and outputs
Memory              the memory of a tensor, as set_tensor() and get_tensor() copy it
Segment             the base of BoundProgram, and ExecutorBase of Executor: the attributes that a run needs
ShapeCache          the programs of an Executor by input shapes; ReshaperBase makes them

The loop itself is run_steps(), near the end.
"""
from cpython.buffer cimport PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pylite._core.run.kernel cimport FLUSH, PRESERVE, IRRELEVANT, Bytes, Kernel, bytes_of
from pylite._core.simd cimport Pool, pl_pool


cdef extern from "x86/subnormals.h" nogil:
    const unsigned int PL_FLUSH_BITS
    unsigned int pl_float_mode()
    void pl_set_float_mode(unsigned int mode)


cdef enum:
    GIL_COPY_BYTES = 1 << 16        # from this size on, a copy takes longer than releasing the GIL


cdef extern from "<time.h>" nogil:      # Python.h does not include it since 3.13; posix.time includes <sys/time.h>
    pass


from numpy import empty, ndarray


cdef class Program:
    """Kernels in execution order, run by one nogil loop.

    kernels: list of Kernel; pool: the worker threads, or None to run on the caller alone.
    """
    def __cinit__(self, list kernels, Pool pool=None):
        cdef Kernel kernel
        cdef Py_ssize_t i
        self.size = len(kernels)
        self.kernels = kernels
        self.pool = pool
        self.steps = <Step *>malloc(max(1, self.size) * sizeof(Step))
        if self.steps == NULL:
            raise MemoryError(f"no memory for a program of {self.size} steps")
        for i in range(self.size):
            kernel = kernels[i]
            self.steps[i].fn = kernel.fn
            self.steps[i].self = <void *>kernel
            self.steps[i].subnormals = kernel.subnormals

    def __dealloc__(self):
        free(self.steps)

    def run(self, Py_ssize_t start=0, Py_ssize_t stop=-1):
        """Run kernels start..stop-1 (-1: to the end) without the GIL.

        Returns (index, status) of the kernel that failed, or None.
        """
        cdef Py_ssize_t position = start
        cdef int status
        if stop < 0:
            stop = self.size
        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"steps {start}:{stop} of a program of {self.size}")
        status = run_without_gil(self, &position, stop)
        return (position, status) if status else None

    def profile(self, int64_t[:, ::1] clock):
        """Run all kernels, as run() does, once for each row of `clock`.

        clock: (runs, size + 2), set to nanoseconds of CLOCK_MONOTONIC: two readings before the first kernel, whose
        difference is the cost of a reading, and one after each kernel.
        """
        cdef Py_ssize_t row
        cdef Py_ssize_t i = 0
        cdef int status = 0
        cdef bint flushing
        cdef unsigned int mode = 0
        cdef pl_pool *pool = NULL if self.pool is None else self.pool.ptr
        if clock.shape[1] != self.size + 2:
            raise ValueError(f"room for {clock.shape[1]} readings of the clock, and {self.size} steps need "
                             f"{self.size + 2}")
        with nogil:
            for row in range(clock.shape[0]):
                clock[row, 0] = nanoseconds()
                clock[row, 1] = nanoseconds()
                i, flushing = 0, False
                while i < self.size and status == 0:
                    set_subnormals(self.steps[i].subnormals, &flushing, &mode)
                    status = self.steps[i].fn(self.steps[i].self, pool)
                    clock[row, i + 2] = nanoseconds()
                    i += 1
                set_subnormals(PRESERVE, &flushing, &mode)
                if status != 0:
                    i -= 1
                    break
        if status != 0:
            return i, status
        return None


cdef class IOBytes:
    """The bytes of a subgraph's inputs and outputs, or of a caller's arrays for them.  owner: keeps them alive."""
    def __cinit__(self, Py_ssize_t count):
        self.count = count
        self.items = <Bytes *>malloc(max(1, count) * sizeof(Bytes))
        if self.items == NULL:
            raise MemoryError(f"no memory for {count} inputs and outputs")

    def __dealloc__(self):
        free(self.items)

    cpdef Callee callee(self, Segment segment, Py_ssize_t inputs, list absent):
        """The Callee that runs `segment` on these bytes.  absent: the inputs that callers do not copy."""
        cdef Callee callee = Callee.__new__(Callee)
        cdef IOBytes io = self
        if absent:
            io = IOBytes(self.count)
            io.owner = self.owner
            memcpy(io.items, self.items, self.count * sizeof(Bytes))
            for position in absent:
                io.items[position].n = -1
        callee.program, callee.failure, callee.segment = segment.program, segment.failure, segment
        callee.inputs, callee.io = inputs, io
        return callee


cdef IOBytes io_bytes_of(arrays):
    cdef IOBytes io = IOBytes(len(arrays))
    cdef Py_ssize_t i
    io.owner = arrays
    for i in range(io.count):
        io.items[i] = bytes_of(arrays[i])
    return io


cdef class Callee:
    """A subgraph, bound to memory, for the kernels that call it.

    failure(step, status): returns the exception for a failed step; inputs: number of inputs, which come first in `io`;
    arrays: the inputs and outputs, None if a Rebinder has laid them out; segment: the BoundProgram, None if `program`
    is a plan's.
    """
    def __init__(self, Program program not None, failure, list inputs, list outputs, Segment segment=None):
        """inputs, outputs: arrays of bytes; None for an input that callers do not copy."""
        self.program, self.failure, self.segment, self.inputs = program, failure, segment, len(inputs)
        self.arrays = inputs + outputs
        self.io = io_bytes_of(self.arrays)


cdef int64_t nanoseconds() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec * <int64_t>1000000000 + time.tv_nsec


cdef class Memory:
    """A tensor's memory, for copies from and to arrays of its type and shape."""
    def __init__(self, array):
        self.array, self.dtype, self.empty, self.shape_and_dtype = array, array.dtype, empty, (array.shape, array.dtype)
        plain = array.dtype.isbuiltin == 1 and not array.dtype.hasobject    # numpy has no bfloat16 of its own
        if array.flags.c_contiguous and array.flags.writeable and plain:
            PyObject_GetBuffer(array, &self.view, PyBUF_ND | PyBUF_WRITABLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef copy(self):
        """A copy of the array."""
        cdef Py_buffer target
        if self.view.buf == NULL or self.view.ndim == 0:
            return self.array.copy() if self.array.ndim or self.dtype.hasobject else self.array[()]     # as tf.lite
        array = self.empty(*self.shape_and_dtype)
        PyObject_GetBuffer(array, &target, PyBUF_SIMPLE)
        memmove(target.buf, self.view.buf, self.view.len)
        PyBuffer_Release(&target)
        return array

    cdef bint assign(self, value) except -1:
        """Copy an array of the same type and shape into this memory; returns False for any other value."""
        cdef Py_buffer source
        cdef bint same
        if type(value) is not ndarray or value.dtype is not self.dtype or self.view.buf == NULL:
            return False
        try:
            PyObject_GetBuffer(value, &source, PyBUF_ND)
        except (BufferError, ValueError):       # not contiguous
            return False
        same = source.ndim == self.view.ndim and (
            source.ndim == 0 or memcmp(source.shape, self.view.shape, source.ndim * sizeof(Py_ssize_t)) == 0)
        if same:
            if source.len < GIL_COPY_BYTES:
                memmove(self.view.buf, source.buf, source.len)
            else:
                with nogil:
                    memmove(self.view.buf, source.buf, source.len)
        PyBuffer_Release(&source)
        return same


cdef class Segment:
    """The base of BoundProgram: the attributes that a run needs."""
    def start(self, program, arena, boundary=None):
        """Set all attributes."""
        self.begin(program, arena)
        self.boundary = boundary

    # The Reshaper calls this one directly; a method that Python may override is looked up at each call.
    cdef int begin(self, program, arena) except -1:
        self.program, self.arena = program, arena
        self.readable, self.writable = {}, {}       # memory of tensors that were accessed before
        self.next, self.evaluated = {}, ()
        self.used = True        # since the cache was last searched for a segment to drop
        self.iterations = {}    # {(Executor, operator index) of a loop: its LoopIteration}
        return 0


cdef class ExecutorBase:
    """The base of Executor: the attributes that the fast path needs.

    readable, writable: {index: Memory} of the tensors accessed since the last allocate(); fast_program: the Program if
    invoke() runs nothing else, or None; first_segment: the first segment of a model whose shapes depend on data, or
    None; dynamic_shapes: the module that lowers the other segments; segments: the segments of the last run.  The
    Executor adds `current`, `ready` and `guard`; its segments are BoundPrograms, which add failure() and run_guarded().
    """
    def enter(self, Segment bound not None):
        """Make invoke() run `bound`."""
        self.use(bound)

    cdef int use(self, Segment bound) except -1:
        executor = <object>self
        executor.current, executor.ready = bound, True
        self.segments, self.readable, self.writable = [bound], bound.readable, bound.writable
        if not self.guard:
            self.fast_program, self.first_segment = (bound.program, None) if bound.boundary is None else (None, bound)
        return 0

    def run(self, Segment segment not None):
        """Run `segment` and the segments after it; each is lowered when the data that its shapes need exists."""
        cdef Segment following
        run_segment(self, segment)
        if segment.boundary is None:
            return
        self.segments = segments = [segment]
        self.readable, self.writable = {}, {}
        while segment.boundary is not None:
            if segment.watched is None:
                self.dynamic_shapes.watch(self, segment)
            if segment.evaluate is None:
                key = segment.watched.tobytes()
                following = segment.next.get(key) or self.dynamic_shapes.follow(self, segment, key)
            else:
                results = self.dynamic_shapes.evaluated(segment)
                key = results[0].shape if len(results) == 1 else tuple([r.shape for r in results])
                following = segment.next.get(key) or self.dynamic_shapes.follow(self, segment, key)
                for array, result in zip(following.evaluated, results):
                    array[...] = result
            following.used = True
            segments.append(following)
            segment = following
            run_segment(self, segment)
        self.readable, self.writable = segment.readable, segment.writable


cdef int run_segment(ExecutorBase executor, segment) except -1:
    cdef Program program
    cdef Py_ssize_t position = 0
    cdef int status
    runs = (<Segment>segment).program
    if executor.guard or type(runs) is not Program:
        failed = segment.run_guarded() if executor.guard else runs.run()
        if failed is not None:
            raise segment.failure(*failed)
        return 0
    program = runs
    status = run_without_gil(program, &position, program.size)
    if status != 0:
        raise segment.failure(position, status)
    return 0


cdef class ReshaperBase:
    """The base of Reshaper, in reshaping.pyx."""
    cdef bint activate(self, ExecutorBase executor, ShapeCache cache) except -1:
        """Make `executor` run the program for its input shapes, from `cache` or new; False if there is none."""
        return False

    cdef bint activate_unchecked(self, ExecutorBase executor, ShapeCache cache) except -1:
        """activate() for a caller that has checked that all ops are pylite's own, and that no inputs are known."""
        return False


cdef class ShapeCache:
    """The programs of an Executor, bound as Segments, by input shapes, the most recently used last.

    capacity: number of programs to keep; reshaper: the Reshaper of the recording used last, or None.  Its module,
    reshaping.pyx, is imported for the second set of shapes.  ProgramCache adds drop(), which frees segments.
    """
    def __init__(self, Py_ssize_t capacity):
        self.capacity, self.segments, self.arenas = capacity, {}, {}

    def clear(self):
        """Drop all programs, and break the reference cycles of their loops."""
        cdef Segment segment
        for segment in self.segments.values():
            segment.iterations.clear()
        self.segments, self.arenas, self.nbytes, self.reshaper = {}, {}, 0, None

    def get(self, key):
        """find() for Python."""
        return self.find(key)

    cdef Segment find(self, key):
        """The program for a set of input shapes, or None."""
        segment = self.segments.pop(key, None)
        if segment is not None:
            self.segments[key] = segment
        return segment

    def add(self, key, Segment segment not None):
        """Keep a program.

        Drops the least recently used programs beyond the capacity, or while outgrown arenas take more than the current
        one.
        """
        if key in self.segments:
            self.pop(key)
        self.keep(key, segment)

    cdef int keep(self, key, Segment segment) except -1:
        """add() of a key that is not in the cache."""
        cdef list usage             # of the program's arena: [its bytes, number of programs in it]
        self.segments[key] = segment
        cdef int64_t nbytes = segment.arena.nbytes
        usage = self.arenas.get(id(segment.arena))
        if usage is None:
            usage = self.arenas[id(segment.arena)] = [nbytes, 0]
            self.nbytes += nbytes
        usage[1] += 1
        while len(self.segments) > 1 and (len(self.segments) > self.capacity or self.nbytes > 2 * nbytes):
            old = self.pop(next(iter(self.segments)))
            if old.boundary is not None:        # segments follow
                self.drop([old])
        return 0

    cdef Segment pop(self, key):
        """Remove a program."""
        cdef Segment old = self.segments.pop(key)
        cdef list usage = self.arenas[id(old.arena)]
        usage[1] -= 1
        if not usage[1]:
            self.nbytes -= usage[0]
            del self.arenas[id(old.arena)]
        return old

    def activate(self, ExecutorBase executor not None):
        """Make `executor` run the program for its input shapes; False if a Reshaper cannot provide one."""
        return self.reshaper is not None and self.reshaper.activate(executor, self)


cdef int run_steps(Program program, pl_pool *pool, Py_ssize_t *position, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i = position[0]
    cdef int status = 0
    cdef bint flushing = False
    cdef unsigned int mode = 0
    while i < stop:
        set_subnormals(program.steps[i].subnormals, &flushing, &mode)
        status = program.steps[i].fn(program.steps[i].self, pool)
        if status != 0:
            break
        i += 1
    set_subnormals(PRESERVE, &flushing, &mode)
    position[0] = i
    return status


cdef inline void set_subnormals(int subnormals, bint *flushing, unsigned int *mode) noexcept nogil:
    """Set how this thread treats subnormal floats, for the next kernel; mode: keeps the caller's setting."""
    if PL_FLUSH_BITS == 0 or subnormals == IRRELEVANT or (subnormals == FLUSH) == flushing[0]:
        return
    if flushing[0]:
        pl_set_float_mode(mode[0])
    else:
        mode[0] = pl_float_mode()
        pl_set_float_mode(mode[0] | PL_FLUSH_BITS)
    flushing[0] = not flushing[0]
