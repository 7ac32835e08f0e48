"""The ISA level in use, the worker pool, and deferred packing."""
import functools
import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free
from libc.string cimport memcpy, memset


cdef pl_slots tables[PL_MAX_ISA_LEVELS]     # each filled on first use of its level; kernels keep pointers to them
cdef bint usable[PL_MAX_ISA_LEVELS]         # does this CPU have the level?
cdef int level_count = 0
current = ""


cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil:
    """Call fn(ctx, begin, end, thread) for disjoint ranges that cover [0, n).

    All ranges but the last are multiples of `grain`.  If n is at most `grain`, or pool is NULL, the caller runs
    everything.
    """
    if pool != NULL:
        pl_for(pool, n, grain, fn, ctx)
    elif n > 0:
        fn(ctx, 0, n, 0)


cdef pl_unary_fn unary_kernel(str name) except NULL:
    """The one-operand micro-kernel `name` of the ISA level in use (PL_UNARY_SLOTS in elementwise.h)."""
    cdef pl_unary_fn kernel = pl_unary_kernel(slots, name.encode())
    if kernel == NULL:
        raise ValueError(f"there is no one-operand micro-kernel {name!r}")
    return kernel


cdef pl_binary_fn binary_kernel(str name) except NULL:
    """The two-operand micro-kernel `name` of the ISA level in use (PL_BINARY_SLOTS in elementwise.h)."""
    cdef pl_binary_fn kernel = pl_binary_kernel(slots, name.encode())
    if kernel == NULL:
        raise ValueError(f"there is no two-operand micro-kernel {name!r}")
    return kernel


@functools.lru_cache(1024)
def _fitted(str name, bytes p):
    """Parameters of sum_q8 or mul_q8, with the fit of simd/fitted.h if it exists; parameters of lines8, or None."""
    cdef pl_fitted_sum s
    cdef pl_fitted_product m
    cdef pl_lines8 lines
    cdef const char *data = p
    if name == "lines8":
        memset(&lines, 0, sizeof(lines))
        memcpy(&lines, data, min(<Py_ssize_t>sizeof(lines.table), len(p)))
        return (<char *>&lines)[:sizeof(lines)] if pl_fit_lines(&lines) else None
    if name == "sum_q8":
        memset(&s, 0, sizeof(s))
        memcpy(&s, data, min(<Py_ssize_t>sizeof(sum_q_p), len(p)))
        pl_fit_sum(&s)
        return (<char *>&s)[:sizeof(s)]
    memset(&m, 0, sizeof(m))
    memcpy(&m, data, min(<Py_ssize_t>sizeof(m), len(p)))
    pl_fit_product(&m)
    return (<char *>&m)[:sizeof(m)]


cpdef kernel_parameters(str name, p):
    """The parameters p in the form that the element-wise micro-kernel `name` reads; for most kernels, p itself.

    wide_unary and wide_binary take b"op x_type y_type", which is parsed here, once per kernel.  For sum_q8 and mul_q8,
    this searches for a faster computation with the same results, see simd/fitted.h.  lines8 takes the table of lut8;
    the result is None if the table is neither one line nor the maximum of two.
    """
    cdef int32_t numbers[3]
    if name == "sum_q8" or name == "mul_q8" or name == "lines8":
        return _fitted(name, bytes(p))
    if name == "wide_unary" or name == "wide_binary":
        if not pl_wide_parameters(1 if name == "wide_unary" else 2, p, numbers):
            raise ValueError(f"{name} has no {p!r}")
        return (<char *>numbers)[:sizeof(numbers)]
    return p


cdef int pool_threads(const pl_pool *pool) noexcept nogil:
    """Number of threads that parallel_for uses, the caller included."""
    return pl_pool_threads(pool)


cdef void *memory_of(array, Py_ssize_t nbytes) except? NULL:
    """The address of a contiguous array of `nbytes` bytes, which the caller keeps alive.

    It takes a sixth of the time of a memoryview.  Raises ValueError if the array has another size or is not contiguous.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    cdef void *address = view.buf
    cdef Py_ssize_t size = view.len
    PyBuffer_Release(&view)
    if size != nbytes:
        raise ValueError(f"an array of {size} bytes instead of {nbytes}")
    return address


cdef void defer_packing(pl_packing_job *job, ptrdiff_t nbytes, owner, ptrdiff_t copied=0):
    """Run `job` before the next finish_packing() returns, or immediately if begin_packing() was not called.

    The job comes from malloc and is freed after it has run.  nbytes: the amount of work; owner: owns all memory that
    the job reads and writes; copied: bytes that only the job keeps alive.  All waiting jobs run when these add up to
    much.
    """
    cdef int waits
    job.owner, job.bytes, job.slots, job.copied = <void *>owner, nbytes, slots, copied
    Py_INCREF(owner)
    with nogil:
        waits = pl_packing_defer(job)
    if waits == 0:
        Py_DECREF(owner)
        free(job)
    elif waits < 0:
        drain_packing()


cdef void release(pl_packing_job *job):
    """Free finished jobs."""
    cdef pl_packing_job *following
    while job != NULL:
        following = job.next
        Py_DECREF(<object>job.owner)
        free(job)
        job = following


cdef void drain_packing():
    """Wait for all packing deferred so far."""
    cdef pl_packing_job *job
    with nogil:
        job = pl_packing_drain()
    release(job)


def begin_packing():
    """Defer this thread's packing until finish_packing(), while another thread works on it.  Calls may be nested."""
    pl_packing_begin()


def finish_packing():
    """Wait for all deferred packing."""
    cdef pl_packing_job *job
    with nogil:
        job = pl_packing_finish()
    release(job)


def available():
    """Names of the ISA levels that this CPU supports, weakest first."""
    return [pl_isa_levels[i].name.decode() for i in range(level_count) if usable[i]]


def has_float16():
    """Does the CPU, at the ISA level in use, compute in float16?"""
    return slots.has_f16 != 0


def use(str name):
    """Select the ISA level `name` for everything lowered from now on.

    Existing interpreters keep their level, because their weights are packed for it.  Raises ValueError if the CPU lacks
    the level.
    """
    global current, slots
    if name not in available():
        raise ValueError(f"PYLITE_ISA={name!r}: this CPU has {', '.join(available())}; unset it, or set one of these")
    cdef int chosen = 0, i
    while pl_isa_levels[chosen].name.decode() != name:
        chosen += 1
    cdef pl_slots *table = &tables[chosen]
    if table.q8.nr == 0:
        pl_isa_levels[chosen].portable(table)
        for i in range(chosen + 1):
            if usable[i]:
                pl_isa_levels[i].hand_written(table)
    slots = table
    current = name


cdef class Pool:
    """The worker threads of one interpreter.  threads: their number, including the calling thread."""
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

    def record(self, rows):
        """Record which thread runs which range of each parallel loop, until record(None).  No loop may be running.

        rows: (n, 5), one per range: nanoseconds of CLOCK_MONOTONIC at its begin and end, its first item, the item after
        its last, and the thread (0: the caller).
        """
        cdef int64_t[:, ::1] view = rows
        if rows is None:
            pl_pool_record(self.ptr, NULL, 0)
        elif view.shape[0] == 0 or view.shape[1] != 5:
            raise ValueError(f"an array of shape {rows.shape} instead of rows of 5")
        else:
            pl_pool_record(self.ptr, &view[0, 0], view.shape[0])
        self.rows = rows

    @property
    def recorded(self):
        """Number of ranges since record(), including ranges for which there was no row."""
        return pl_pool_recorded(self.ptr)


while pl_isa_levels[level_count].name != NULL:      # probed once, because virtual machines take microseconds for it
    usable[level_count] = pl_isa_levels[level_count].usable()
    level_count += 1
use(os.environ.get("PYLITE_ISA") or available()[-1])
