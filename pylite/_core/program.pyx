"""A bound graph: a flat list of kernels, the loop that runs them, and the short way of a steady caller to it."""
from cpython.buffer cimport PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
    WAIT_LOCK,
)
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pylite._core.kernel cimport Kernel
from pylite._core.simd cimport Pool, pl_pool

from numpy import empty


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

    def __dealloc__(self):
        free(self.steps)

    def run(self, Py_ssize_t start=0, Py_ssize_t stop=-1):
        """Run kernels start..stop-1 (-1: to the end) without the GIL.

        Returns (index, status) of the kernel that failed, or None.
        """
        cdef Py_ssize_t i
        cdef int status = 0
        cdef pl_pool *pool = NULL
        if stop < 0:
            stop = self.size
        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"steps {start}:{stop} of a program of {self.size}")
        if self.pool is not None:
            pool = self.pool.ptr
        i = start
        with nogil:
            status = run_steps(self, pool, &i, stop)
        if status != 0:
            return i, status
        return None

    def profile(self, int64_t[::1] nanoseconds):
        """Run every kernel once, as run() does, and note how long each one took: (size,)."""
        cdef Py_ssize_t i = 0
        cdef int status = 0
        cdef timespec begin, end
        cdef pl_pool *pool = NULL if self.pool is None else self.pool.ptr
        if nanoseconds.shape[0] != self.size:
            raise ValueError(f"times of {nanoseconds.shape[0]} steps for a program of {self.size}")
        with nogil:
            clock_gettime(CLOCK_MONOTONIC, &begin)
            while i < self.size:
                status = self.steps[i].fn(self.steps[i].self, pool)
                if status != 0:
                    break
                clock_gettime(CLOCK_MONOTONIC, &end)
                nanoseconds[i] = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec
                begin = end
                i += 1
        if status != 0:
            return i, status
        return None


cdef class Memory:
    """A tensor's memory, which arrays of the same type and shape are copied from and to."""
    cdef object array, dtype, empty
    cdef tuple alike
    cdef bint held
    cdef Py_buffer view

    def __init__(self, array):
        self.array, self.dtype, self.alike, self.empty = array, array.dtype, (array.shape, array.dtype), empty
        PyObject_GetBuffer(array, &self.view, PyBUF_ND)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef copy(self):
        cdef Py_buffer to
        array = self.empty(*self.alike)
        if pl_data(<PyObject *>self.array) == self.view.buf:
            memcpy(pl_data(<PyObject *>array), self.view.buf, self.view.len)
        else:
            PyObject_GetBuffer(array, &to, PyBUF_ND)
            memcpy(to.buf, self.view.buf, self.view.len)
            PyBuffer_Release(&to)
        return array

    cdef bint take(self, value) except -1:
        """Copy `value` if that is all that there is to do; else returns False."""
        cdef Py_buffer given
        cdef bint same
        if type(value) is not type(self.array) or value.dtype is not self.dtype:
            return False
        try:
            PyObject_GetBuffer(value, &given, PyBUF_ND)
        except (BufferError, ValueError):       # not contiguous
            return False
        same = given.ndim == self.view.ndim and (
            given.ndim == 0 or memcmp(given.shape, self.view.shape, given.ndim * sizeof(Py_ssize_t)) == 0)
        if same:
            if given.len < 1 << 16:
                memmove(self.view.buf, given.buf, given.len)
            else:
                with nogil:
                    memmove(self.view.buf, given.buf, given.len)
        PyBuffer_Release(&given)
        return same


cdef extern from *:
    """
    static inline int pl_swap(int *at, int value) { return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL); }
    static inline int pl_take(int *at) {
      int none = 0;
      return __atomic_compare_exchange_n(at, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    /* ndarray's first field, as numpy's own macros read it */
    static inline void *pl_data(void *array) { return *(void **)((char *)array + sizeof(PyObject)); }
    """
    int pl_swap(int *at, int value)
    int pl_take(int *at)
    void *pl_data(PyObject *array)


cdef class Lock:
    """What threading.RLock is, in a fifth of the time where nobody waits."""
    cdef int state          # 0: free; 1: held; 2: held, and others may wait at the gate
    cdef PyThread_type_lock gate
    cdef unsigned long owner    # 0, which is no thread, while it is free: no thread can take an old value for itself
    cdef int count

    def __cinit__(self):
        self.gate = PyThread_allocate_lock()
        if self.gate == NULL:
            raise MemoryError("no memory for a lock")
        PyThread_acquire_lock(self.gate, NOWAIT_LOCK)

    def __dealloc__(self):
        PyThread_free_lock(self.gate)

    cdef void acquire(self) noexcept:
        cdef unsigned long thread = <unsigned long>PyThread_get_thread_ident()
        if self.owner != thread:
            if not pl_take(&self.state):
                while pl_swap(&self.state, 2) != 0:
                    with nogil:
                        PyThread_acquire_lock(self.gate, WAIT_LOCK)
            self.owner = thread
        self.count += 1

    cdef void release(self) noexcept:
        self.count -= 1
        if self.count == 0:
            self.owner = 0
            if pl_swap(&self.state, 0) == 2:
                PyThread_release_lock(self.gate)

    def reset(self):
        """Free it in the child of a fork, whoever held it."""
        self.state = self.count = self.owner = 0

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


cdef class Steady:
    """What a caller does over and over, without looking at anything twice: set, run and get, under the lock.

    executor: an Executor; views: the set of what keeps invoke() from running.  Each method returns a false value where
    there is more to be seen to, and has done nothing then.  set() and get() find their memory alike, each by itself: a
    function for both would add a tenth to their time.
    """
    cdef Lock lock
    cdef object executor
    cdef set views
    cdef dict targets, sources

    def __init__(self, Lock lock, executor, set views):
        self.lock, self.executor, self.views = lock, executor, views
        self.forget()

    def forget(self):
        """Let go of memory that was set and got before."""
        self.targets, self.sources = {}, {}

    def set(self, index, value):
        """Copy an array to a tensor that was set before."""
        cdef Memory target
        cdef dict arrays
        self.lock.acquire()
        try:
            arrays = self.executor.writable
            array = arrays.get(index)
            if array is None:
                return False
            target = self.targets.get(index)
            if target is None or target.array is not array:
                if array.dtype.hasobject:
                    return False
                self.targets[index] = target = Memory(array)
            return target.take(value)
        except TypeError:       # not an index at all
            return False
        finally:
            self.lock.release()

    def get(self, index):
        """A copy of a tensor that was got before, or None."""
        cdef Memory source
        cdef dict arrays
        self.lock.acquire()
        try:
            arrays = self.executor.readable
            array = arrays.get(index)
            if array is None:
                return None
            source = self.sources.get(index)
            if source is None or source.array is not array:
                if array.dtype.hasobject:
                    return None
                self.sources[index] = source = Memory(array)
            return source.copy()
        except TypeError:
            return None
        finally:
            self.lock.release()

    def run(self):
        """Run the model."""
        cdef Program program
        cdef Py_ssize_t i = 0
        cdef int status
        cdef pl_pool *pool
        self.lock.acquire()
        try:
            program = self.executor.steady
            if program is None or self.views:
                return False
            pool = NULL if program.pool is None else program.pool.ptr
            with nogil:
                status = run_steps(program, pool, &i, program.size)
            if status != 0:
                raise self.executor.current.failure(i, status)
            return True
        finally:
            self.lock.release()


cdef int run_steps(Program program, pl_pool *pool, Py_ssize_t *at, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i = at[0]
    cdef int status = 0
    while i < stop:
        status = program.steps[i].fn(program.steps[i].self, pool)
        if status != 0:
            break
        i += 1
    at[0] = i
    return status
