"""Kernels that run other subgraphs (CALL_ONCE, IF, WHILE), and resource variables.

A callee is (program, failure, ins, outs): a Program; a function from a failed step and its status to the exception;
the bytes of its inputs (None for an unused one) and of its outputs.  The caller's arrays are bytes, too: inputs, then
outputs, None for absent ones.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.run.program cimport Program, nanoseconds, run_steps
from pylite._core.simd cimport memory_of, pl_pool


cdef void *address(array) except? NULL:
    """The first byte of a contiguous array."""
    return memory_of(array, array.nbytes)


cdef enum:
    MAX_DIMS = 16
    CHECK_NS = 50_000_000       # about how often a loop checks for signals


cdef struct Move:
    void *to
    const void *source
    size_t n


cdef class Moves:
    """A list of copies.  pairs: [(to, source)], uint8 arrays of equal sizes; pairs with a None are skipped."""
    cdef Move *moves
    cdef Py_ssize_t count
    cdef list pairs         # keeps the arrays alive

    def __cinit__(self, pairs):
        self.pairs = [(t, s) for t, s in pairs if t is not None and s is not None and t.size]
        self.moves = <Move *>malloc(max(1, len(self.pairs)) * sizeof(Move))
        if self.moves == NULL:
            raise MemoryError("no memory for a list of copies")
        cdef Py_ssize_t n
        for to, source in self.pairs:
            n = to.nbytes
            self.moves[self.count] = Move(memory_of(to, n), memory_of(source, n), n)
            self.count += 1

    def __dealloc__(self):
        free(self.moves)


cdef void move(Moves self) noexcept nogil:
    """Do all copies, in order."""
    cdef Py_ssize_t i
    for i in range(self.count):
        memmove(self.moves[i].to, self.moves[i].source, self.moves[i].n)


cdef class Block(Kernel):
    """Copies inputs to a callee, runs it, and copies its outputs back."""
    OWNED = True
    cdef Program program
    cdef object failure, error
    cdef Moves before, after
    cdef Py_ssize_t step            # the step that runs, or failed

    def __init__(self, callee, *arrays):
        self.program, self.failure, ins, outs = callee
        self.before = Moves(zip(ins, arrays[:len(ins)], strict=True))
        self.after = Moves(zip(arrays[len(ins):], outs, strict=True))
        self.fn = <kernel_fn>run_block

    def explain(self, int status):
        error = self.failure(self.step, status)
        self.error = error.__cause__
        return str(error)

    def cause(self):
        error, self.error = self.error, None
        return error


cdef int run_block(Block self, pl_pool *pool) noexcept nogil:
    cdef int status
    move(self.before)
    self.step = 0
    status = run_steps(self.program, pool, &self.step, self.program.size)
    if status == 0:
        move(self.after)
    return status


cdef class Nested(Kernel):
    """The base of kernels that run several blocks.  blocks: all of them; ran: index of the last one that ran."""
    OWNED = True
    cdef tuple blocks
    cdef int ran

    def explain(self, int status):
        return self.blocks[self.ran].explain(status)

    def cause(self):
        return self.blocks[self.ran].cause()


cdef class Branch(Nested):
    """Runs one of the callees.

    which: (1,) bool: true for the first callee, false for the second; or (1,) int32: the index of the callee, the last
    one if it is out of range.
    """
    cdef void **table
    cdef int count
    cdef const int *number
    cdef const uint8_t *flag
    cdef object which

    def __init__(self, callees, which, *arrays):
        self.blocks = tuple([Block(callee, *arrays) for callee in callees])
        self.count = len(self.blocks)
        self.table = <void **>malloc(max(1, self.count) * sizeof(void *))
        if self.table == NULL:
            raise MemoryError("no memory for a list of branches")
        for i, block in enumerate(self.blocks):
            self.table[i] = <void *>block
        self.which = which
        if which.itemsize == 1:
            self.flag = <const uint8_t *>address(which)
        else:
            self.number = <const int *>address(which)
        self.fn = <kernel_fn>run_branch

    def __dealloc__(self):
        free(self.table)


cdef int run_branch(Branch self, pl_pool *pool) noexcept nogil:
    if self.flag != NULL:
        self.ran = 0 if self.flag[0] else 1
    else:
        self.ran = self.number[0] if 0 <= self.number[0] < self.count else self.count - 1
    return run_block(<Block>self.table[self.ran], pool)


cdef class While(Nested):
    """Runs `body` while `test` returns true.  The memory of the body's inputs holds the loop variables."""
    cdef Moves enter, leave         # loop variables: from the caller's inputs, to its outputs
    cdef Moves saved, back          # after an iteration: outputs to copies, outputs to inputs
    cdef Block test, body
    cdef const uint8_t *go_on
    cdef object flag, interrupt     # flag: the array of go_on
    cdef int64_t checked            # time of the last check for signals
    cdef size_t left, interval      # iterations until the clock is read again, and between two readings

    def __init__(self, test, body, *arrays):
        ins, outs = body[2:]
        n = len(ins)
        self.enter = Moves(zip(ins, arrays[:n], strict=True))
        self.leave = Moves(zip(arrays[n:], ins, strict=True))
        self.test = Block((*test[:3], []), *ins)
        self.body = Block((*body[:2], [], []))
        self.blocks = self.test, self.body
        places = {<size_t>address(x) for x in ins if x is not None and x.size}
        saved, back = [], []
        for x, y in zip(ins, outs, strict=True):
            if x is not None and x.size and <size_t>address(y) != <size_t>address(x):
                if <size_t>address(y) in places:    # y is another input's memory: copy it before that is overwritten
                    saved.append((y.copy(), y))
                    y = saved[-1][0]
                back.append((x, y))
        self.saved, self.back = Moves(saved), Moves(back)
        self.flag = test[3][0]
        self.go_on = <const uint8_t *>address(self.flag)
        self.fn = <kernel_fn>run_while

    def explain(self, int status):
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            raise interrupt         # not a failure of the model
        return Nested.explain(self, status)


cdef bint interrupted(While self) noexcept nogil:
    """Has a signal handler raised?  A loop may be endless.  The interval adapts, so that the clock is rarely read."""
    cdef int64_t passed
    self.left -= 1
    if self.left:
        return False
    passed = nanoseconds() - self.checked
    if passed < CHECK_NS // 4:
        self.interval *= 2
    elif passed > CHECK_NS:
        self.interval = max(self.interval // 2, 1)
        self.checked += passed
        with gil:
            try:
                PyErr_CheckSignals()
            except BaseException as interrupt:
                self.interrupt = interrupt
                return True
    self.left = self.interval
    return False


cdef int run_while(While self, pl_pool *pool) noexcept nogil:
    cdef int status
    self.left = self.interval = 1
    self.checked = nanoseconds()
    move(self.enter)
    while True:
        if interrupted(self):
            return 1
        self.ran = 0
        status = run_block(self.test, pool)
        if status:
            return status
        if not self.go_on[0]:
            break
        self.ran = 1
        status = run_block(self.body, pool)
        if status:
            return status
        move(self.saved)
        move(self.back)
    move(self.leave)
    return 0


cdef class Once(Nested):
    """Runs the callee if flag[0] is 0, then sets it to 1.  flag: (1,) uint8."""
    cdef Block block
    cdef uint8_t *flag
    cdef object flag_array

    def __init__(self, callee, flag):
        self.block = Block(callee)
        self.blocks = (self.block,)
        self.flag_array, self.flag = flag, <uint8_t *>address(flag)
        self.fn = <kernel_fn>run_once


cdef int run_once(Once self, pl_pool *pool) noexcept nogil:
    cdef int status
    if self.flag[0]:
        return 0
    status = run_block(self.block, pool)
    if status == 0:
        self.flag[0] = 1
    return status


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
        self.form, self.data, self.array = form_of(array), address(array), array


cdef class Access(Kernel):
    """The base of Read and Assign: a variable, and the array that it is copied to or from."""
    OWNED = True
    cdef Variable variable
    cdef object array
    cdef Form form
    cdef void *data

    def __cinit__(self, Variable variable, array):
        self.variable, self.array = variable, array
        self.form, self.data = form_of(array), address(array)


cdef class Read(Access):
    """array[...] = the contents of the variable, which must have the same shape and type."""

    def __init__(self, variable, array):
        self.fn = <kernel_fn>read

    def explain(self, int status):
        held = self.variable.array
        if held is None:
            return "the variable is read before anything was assigned to it"
        return f"the variable holds {held.dtype}{list(held.shape)}, not {self.array.dtype}{list(self.array.shape)}"


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
