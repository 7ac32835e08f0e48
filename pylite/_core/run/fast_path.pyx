"""The lock of an interpreter, and fast versions of set_tensor, invoke and get_tensor, which skip repeated checks."""
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    WAIT_LOCK,
)

from pylite._core.run.program cimport ExecutorBase, Memory, Program, run_without_gil

from pylite import errors
from pylite._core.run.memory import lost_pages

cdef const int *lost = <const int *><size_t>lost_pages()    # pages of mapped files


cdef class Lock:
    """A threading.RLock that takes a third of the time, and knows whether its owner is in run()."""
    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        PyThread_free_lock(self.lock)

    cdef void acquire(self) noexcept:
        cdef unsigned long thread = <unsigned long>PyThread_get_thread_ident()
        if self.owner != thread:        # read without the lock: no other thread stores this one's number
            if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
                with nogil:
                    PyThread_acquire_lock(self.lock, WAIT_LOCK)
            self.owner = thread
        self.count += 1

    cdef void release(self) noexcept:
        self.count -= 1
        if self.count == 0:
            self.owner = 0
            PyThread_release_lock(self.lock)

    def reset(self):
        """Free the lock in the child of a fork, no matter which thread held it."""
        self.count = self.owner = self.busy = 0
        PyThread_acquire_lock(self.lock, NOWAIT_LOCK)
        PyThread_release_lock(self.lock)

    def check_idle(self):
        """Raise ExecutionError if called within run(), that is, by an op or a delegate that the interpreter runs."""
        if self.busy:
            raise errors.ExecutionError(
                "the interpreter is running: an op or a delegate that it runs cannot run, allocate, resize, set or "
                "close it. Use another Interpreter with the same model, Interpreter(model=...)")

    def run(self, action, *args):
        """Call action(*args), a method of an Executor, under this lock.  Nested calls raise ExecutionError."""
        self.check_idle()
        self.busy = True
        try:
            action(*args)
            if lost[0]:
                action.__self__.check_file()
        finally:
            self.busy = False

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


cdef int run_bound(ExecutorBase executor) except -1:
    """Run the Executor's bound program.  The caller holds its lock, marked as busy."""
    cdef Program program = executor.fast_program
    cdef Py_ssize_t position = 0
    cdef int status
    if program is None:
        executor.run(executor.first_segment)
    else:
        status = run_without_gil(program, &position, program.size)
        if status != 0:
            raise (<object>executor).current.failure(position, status)
    if lost[0]:
        (<object>executor).check_file()
    return 0


cdef class FastPath:
    """The base of Interpreter: fast paths that its methods try before they check their arguments.

    executor: an Executor, used under the lock; views: the live views of tensors, which forbid invoke().  invoke() is
    defined here and falls back to _invoke_checked() of the derived class, because a Python method in front of it would
    add 0.05 us, 3 % of the smallest models' time.
    """
    cdef Lock lock
    cdef ExecutorBase executor
    cdef set views

    def _use_fast_path(self, Lock lock, ExecutorBase executor, set views):
        self.lock, self.executor, self.views = lock, executor, views

    def _set_again(self, index, value):
        """Set a tensor that was set before to an array of its type and shape; returns whether it was set."""
        cdef PyObject *memory
        cdef bint done = False
        if self.executor is not None and type(index) is int:
            self.lock.acquire()
            try:
                memory = PyDict_GetItem(self.executor.writable, index)
                if memory != NULL and not self.lock.busy:
                    done = (<Memory>memory).assign(value)
            finally:
                self.lock.release()
        return done

    def _get_again(self, index):
        """A copy of a tensor that was read before; None in all other cases."""
        cdef PyObject *memory
        array = None
        if self.executor is not None and type(index) is int:
            self.lock.acquire()
            try:
                memory = PyDict_GetItem(self.executor.readable, index)
                if memory != NULL:
                    array = (<Memory>memory).copy()
            except MemoryError:
                pass                # get_tensor() then raises it with a message
            finally:
                self.lock.release()
        return array

    def invoke(self):
        """invoke($self, /)
--

Run the model once on its inputs.  RuntimeError before allocate_tensors() or when a node fails."""
        cdef ExecutorBase executor = self.executor
        if executor is None:
            return self._invoke_checked()
        self.lock.acquire()
        if self.views or self.lock.busy or (executor.fast_program is None and executor.first_segment is None):
            self.lock.release()
            return self._invoke_checked()
        self.lock.busy = True
        try:
            run_bound(executor)
        finally:
            self.lock.busy = False
            self.lock.release()
