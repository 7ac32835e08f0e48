# Included by program.pyx: the lock of an interpreter, and the fast path of set_tensor, invoke and get_tensor.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    static inline int pl_swap(int *at, int value) { return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL); }
    static inline int pl_take(int *at) {
      int none = 0;
      return __atomic_compare_exchange_n(at, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    #else       /* every access holds the GIL */
    static inline int pl_swap(int *at, int value) { int held = *at; *at = value; return held; }
    static inline int pl_take(int *at) { return !*at && (*at = 1); }
    #endif
    """
    int pl_swap(int *at, int value)
    int pl_take(int *at)


cdef class Lock:
    """threading.RLock in a fifth of the time where no thread waits."""
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
                    pl_swap(&self.open, 0)
            self.owner = thread
        self.count += 1

    cdef void release(self) noexcept:
        self.count -= 1
        if self.count == 0:
            self.owner = 0
            # Without the GIL, a thread may hold it in state 2 that has not waited, while the one that is to go through
            # the gate is not there yet.
            if pl_swap(&self.state, 0) == 2 and pl_swap(&self.open, 1) == 0:
                PyThread_release_lock(self.gate)

    def reset(self):
        """Free it in the child of a fork, whichever thread held it."""
        self.state = self.count = self.owner = self.busy = self.open = 0
        PyThread_acquire_lock(self.gate, NOWAIT_LOCK)

    def check_idle(self):
        """Raise ExecutionError within run(): an op or a delegate calls the interpreter that runs it."""
        if self.busy:
            raise errors.ExecutionError(
                "the interpreter is running: an op or a delegate that it runs cannot run, allocate, resize, set or "
                "close it. Use another Interpreter with the same model, Interpreter(model=...)")

    def run(self, action):
        """action(), a method of an Executor, under this lock.  ExecutionError if it leads here again."""
        self.check_idle()
        self.busy = True
        try:
            action()
            if lost[0]:
                action.__self__.check_file()
        finally:
            self.busy = False

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


cdef class FastPath:
    """The base of Interpreter: set_tensor, invoke and get_tensor without the checks that earlier calls passed.

    install_fast_path() sets these functions before the methods in Python, which handle all other cases.
    """
    cdef Lock lock
    cdef ExecutorBase executor
    cdef set views

    def _use_fast_path(self, Lock lock, ExecutorBase executor, set views):
        """executor: an Executor, used under the lock; views: the set of views of tensors, which forbid invoke()."""
        self.lock, self.executor, self.views = lock, executor, views


cdef extern from *:
    """
    static PyMethodDef pl_fast[] = {{"invoke", NULL, METH_NOARGS, NULL},
                                     {"set_tensor", NULL, METH_FASTCALL | METH_KEYWORDS, NULL},
                                     {"get_tensor", NULL, METH_FASTCALL | METH_KEYWORDS, NULL}};
    static PyObject *pl_full_methods[3];      /* the methods in Python, which handle every case */
    static PyObject *pl_full_method(int method, PyObject *self, PyObject *const *args, Py_ssize_t count,
                                    PyObject *names) {
      PyObject *given = PyTuple_New(count + 1), *named = PyDict_New(), *result = NULL;
      Py_ssize_t i, n = names ? PyTuple_Size(names) : 0;
      int bad = !given || !named;
      for (i = 0; i <= count && !bad; i++) {
        PyObject *arg = i ? args[i - 1] : self;
        Py_INCREF(arg);
        bad = PyTuple_SetItem(given, i, arg);
      }
      for (i = 0; i < n && !bad; i++) bad = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[count + i]);
      if (!bad) result = PyObject_Call(pl_full_methods[method], given, named);
      Py_XDECREF(given);
      Py_XDECREF(named);
      return result;
    }
    """
    struct PyMethodDef:
        void *ml_meth
        const char *ml_doc
    PyMethodDef pl_fast[3]
    PyObject *pl_full_methods[3]
    object pl_full_method(int method, object self, PyObject *const *args, Py_ssize_t count, PyObject *names)
    object PyDescr_NewMethod(PyTypeObject *type, PyMethodDef *method)


cdef set_tensor(FastPath self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef PyObject *memory
    cdef bint done = False
    if count == 2 and names == NULL and self.executor is not None and type(<object>args[0]) is int:
        self.lock.acquire()
        try:
            memory = PyDict_GetItem(self.executor.writable, <object>args[0])
            if memory != NULL and not self.lock.busy:
                done = (<Memory>memory).assign(<object>args[1])
        finally:
            self.lock.release()
    return None if done else pl_full_method(1, self, args, count, names)


cdef get_tensor(FastPath self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef PyObject *memory
    array = None
    if count == 1 and names == NULL and self.executor is not None and type(<object>args[0]) is int:
        self.lock.acquire()
        try:
            memory = PyDict_GetItem(self.executor.readable, <object>args[0])
            if memory != NULL:
                array = (<Memory>memory).copy()
        finally:
            self.lock.release()
    return pl_full_method(2, self, args, count, names) if array is None else array


cdef invoke(FastPath self, PyObject *none):
    cdef ExecutorBase executor = self.executor
    cdef Program program
    cdef Py_ssize_t i = 0
    cdef int status
    cdef pl_pool *pool
    if executor is None:
        return pl_full_method(0, self, NULL, 0, NULL)
    self.lock.acquire()
    program = executor.fast_program
    if self.views or self.lock.busy or (program is None and executor.first_segment is None):
        self.lock.release()
        return pl_full_method(0, self, NULL, 0, NULL)
    self.lock.busy = True
    try:
        if program is None:
            executor.run(executor.first_segment)
            if lost[0]:
                (<object>executor).check_file()
            return
        pool = NULL if program.pool is None else program.pool.ptr
        with nogil:
            status = run_steps(program, pool, &i, program.size)
        if status != 0:
            raise (<object>executor).current.failure(i, status)
        if lost[0]:
            (<object>executor).check_file()
    finally:
        self.lock.busy = False
        self.lock.release()


def install_fast_path(cls, documents):
    """Let three methods of `cls`, a class derived from FastPath, try the fast path first.

    Its methods in Python handle all other cases.  documents: {name: "(arguments)"} of invoke, set_tensor and
    get_tensor, in this order.
    """
    cdef PyMethodDef *method = pl_fast
    cdef PyObject **full = pl_full_methods
    pl_fast[0].ml_meth, pl_fast[1].ml_meth, pl_fast[2].ml_meth = (
        <void *>invoke, <void *>set_tensor, <void *>get_tensor)
    for name, arguments in documents.items():
        python = getattr(cls, name)
        document = f"{name}{arguments}\n--\n\n{python.__doc__}".encode()
        Py_INCREF(document)     # the type keeps pointers to these two
        Py_INCREF(python)
        full[0], method.ml_doc = <PyObject *>python, document
        setattr(cls, name, PyDescr_NewMethod(<PyTypeObject *>cls, method))
        full += 1
        method += 1
