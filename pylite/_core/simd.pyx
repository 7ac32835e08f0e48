"""Run-time choice of the instruction set, the worker pool, and work that is put off."""
import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free


cdef extern from "simd.h" nogil:
    ctypedef struct pl_isa:
        const char *name
        int (*usable)() noexcept nogil
        void (*rows)(pl_slots *s) noexcept nogil
        void (*hand)(pl_slots *s) noexcept nogil
    const pl_isa pl_ladder[]
    enum: PL_MOST_RUNGS
    pl_unary_fn pl_unary_row(const pl_slots *s, const char *name)
    pl_binary_fn pl_binary_row(const pl_slots *s, const char *name)
    pl_pool *pl_pool_create(int threads)
    void pl_pool_destroy(pl_pool *pool)
    int pl_pool_threads(const pl_pool *pool)
    void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx)
    void pl_jobs_open()
    bint pl_later(pl_job *job)
    pl_job *pl_jobs_close()


cdef pl_slots tables[PL_MOST_RUNGS]     # filled when a rung is first used; kernels that were made keep theirs
cdef bint usable[PL_MOST_RUNGS]         # does this CPU have the rung?
cdef int rungs = 0
current = ""


cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil:
    """Call fn(ctx, begin, end, thread) over disjoint ranges covering [0, n).

    Each is a multiple of `grain` items, but for the last; the caller does them all where there are no more than that.
    """
    if pool != NULL:
        pl_for(pool, n, grain, fn, ctx)
    elif n > 0:
        fn(ctx, 0, n, 0)


cdef pl_unary_fn unary_row(str name) except NULL:
    """The one-operand row `name` of the rung in use (PL_UNARY_SLOTS in simd.h)."""
    cdef pl_unary_fn row = pl_unary_row(slots, name.encode())
    if row == NULL:
        raise ValueError(f"there is no one-operand row {name!r}")
    return row


cdef pl_binary_fn binary_row(str name) except NULL:
    """The two-operand row `name` of the rung in use (PL_BINARY_SLOTS in simd.h)."""
    cdef pl_binary_fn row = pl_binary_row(slots, name.encode())
    if row == NULL:
        raise ValueError(f"there is no two-operand row {name!r}")
    return row


cdef int pool_threads(const pl_pool *pool) noexcept nogil:
    """Number of threads that parallel_for uses, the caller included."""
    return pl_pool_threads(pool)


cdef void *memory_of(array, Py_ssize_t nbytes) except? NULL:
    """Where the `nbytes` bytes of a contiguous array are, which whoever asks keeps alive.

    It takes a sixth of a memoryview's time.  Raises ValueError when it has another size or is not contiguous.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    cdef void *at = view.buf
    cdef Py_ssize_t size = view.len
    PyBuffer_Release(&view)
    if size != nbytes:
        raise ValueError(f"an array of {size} bytes instead of {nbytes}")
    return at


cdef void put_off(pl_job *job, ptrdiff_t nbytes, held):
    """Do `job`, which malloc made and nobody else frees, by the next close_jobs(); now, unless open_jobs() was called.

    nbytes: how much work it is; held: owns all the memory that it reads and writes.
    """
    cdef bint waits
    job.held, job.bytes, job.slots = <void *>held, nbytes, slots
    Py_INCREF(held)
    with nogil:
        waits = pl_later(job)
    if not waits:
        Py_DECREF(held)
        free(job)


def open_jobs():
    """What this thread puts off may wait for close_jobs(); another thread begins on it meanwhile.  Can be nested."""
    pl_jobs_open()


def close_jobs():
    """Wait for all that was put off."""
    cdef pl_job *job
    cdef pl_job *following
    with nogil:
        job = pl_jobs_close()
    while job != NULL:
        following = job.next
        Py_DECREF(<object>job.held)
        free(job)
        job = following


def available():
    """Names of the rungs that this CPU has, weakest first."""
    return [pl_ladder[i].name.decode() for i in range(rungs) if usable[i]]


def use(str name):
    """Select the rung `name` for everything that is lowered from now on.

    Interpreters made before keep weights packed for another rung: make new ones.
    Raises ValueError when the CPU lacks the rung.
    """
    global current, slots
    if name not in available():
        raise ValueError(f"instruction set {name!r} is not available here; PYLITE_ISA takes one of "
                         f"{', '.join(available())}")
    cdef int chosen = 0, i
    while pl_ladder[chosen].name.decode() != name:
        chosen += 1
    cdef pl_slots *table = &tables[chosen]
    if table.q8.nr == 0:
        pl_ladder[chosen].rows(table)
        for i in range(chosen + 1):
            if pl_ladder[i].hand != NULL and usable[i]:
                pl_ladder[i].hand(table)
    slots = table
    current = name


cdef class Pool:
    """Worker threads for one interpreter: `threads` counts the calling thread."""
    def __cinit__(self, int threads):
        if threads < 1:
            raise ValueError(f"num_threads is {threads}; it must be at least 1")
        self.ptr = pl_pool_create(threads)
        if self.ptr == NULL:
            raise MemoryError(f"could not start {threads} worker threads")

    def __dealloc__(self):
        pl_pool_destroy(self.ptr)

    @property
    def threads(self):
        return pl_pool_threads(self.ptr)


while pl_ladder[rungs].name != NULL:        # once: asking the CPU takes microseconds on a virtual machine
    usable[rungs] = pl_ladder[rungs].usable()
    rungs += 1
use(os.environ.get("PYLITE_ISA") or available()[-1])
