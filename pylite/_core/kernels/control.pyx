"""Kernels that run other subgraphs: CALL_ONCE, IF, WHILE (docs/decisions/subgraph-calls-and-state.md).

An Invocation copies the caller's arrays into a Callee, runs its Program, and copies the results out.  Branch, While and
Once, the kernels of the three ops, choose and repeat Invocations.  Kernels take the Callees and the caller's arrays of
bytes: inputs, then outputs, None for absent ones.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from pylite._core.run.kernel cimport Bytes, Kernel, kernel_fn
from pylite._core.run.program cimport Callee, IOBytes, Program, io_bytes_of, nanoseconds, run_steps
from pylite._core.simd cimport pl_pool


cdef enum:
    CHECK_NS = 50_000_000       # about this long between a loop's checks for signals


cdef struct Move:
    void *to
    const void *source
    size_t n


cdef class Moves:
    """A list of up to `room` copies."""
    cdef Move *moves
    cdef Py_ssize_t count, room

    def __cinit__(self, Py_ssize_t room):
        self.room = room
        self.moves = <Move *>malloc(max(1, room) * sizeof(Move))
        if self.moves == NULL:
            raise MemoryError("no memory for a list of copies")

    def __dealloc__(self):
        free(self.moves)


cdef int add(Moves self, Bytes to, Bytes source) except -1 nogil:
    """Copy `source` to `to`, of equal sizes, unless one is absent or both are empty."""
    if to.n <= 0 or source.n < 0:
        return 0
    if to.n != source.n:
        raise ValueError(f"{source.n} bytes to copy into {to.n}")
    if self.count == self.room:
        raise IndexError(f"more than {self.room} copies")
    self.moves[self.count] = Move(to.data, source.data, to.n)
    self.count += 1
    return 0


cdef void move(Moves self) noexcept nogil:
    """Do all copies, in order.  None is an empty list."""
    cdef Py_ssize_t i
    if self is None:
        return
    for i in range(self.count):
        memmove(self.moves[i].to, self.moves[i].source, self.moves[i].n)


cdef class Caller(Kernel):
    """The base of kernels that call subgraphs.  io: the bytes of the caller's arrays, which stay alive with them."""
    OWNED = True
    cdef object io

    cdef int start(self, list callees, const Bytes *arrays, Py_ssize_t count) except -1:
        """Set everything that depends on the callees and the arrays."""
        return 0

    cdef int construct(self, list callees, tuple arrays) except -1:
        """start() with arrays."""
        cdef IOBytes bytes = io_bytes_of(arrays)
        self.io = bytes
        return self.start(callees, bytes.items, bytes.count)

    cdef Kernel calling(self, list callees, const Bytes *arrays, Py_ssize_t count):
        cdef Caller other = type(self).__new__(type(self))
        other.start(callees, arrays, count)
        return other


cdef class Invocation(Caller):
    """Copies inputs to a callee, runs it, and copies its outputs back."""
    cdef Callee callee
    cdef Program program
    cdef object error
    cdef Moves before, after
    cdef Py_ssize_t step            # the step that runs, or failed

    def __init__(self, callee, *arrays):
        self.construct([callee], arrays)

    cdef int start(self, list callees, const Bytes *arrays, Py_ssize_t count) except -1:
        cdef Callee callee = callees[0]
        cdef Py_ssize_t i
        cdef const Bytes *io = callee.io.items
        if count != callee.io.count:
            raise ValueError(f"{count} arrays for {callee.io.count} inputs and outputs")
        self.enter(callee)
        self.before, self.after = Moves(callee.inputs), Moves(count - callee.inputs)
        for i in range(callee.inputs):
            add(self.before, io[i], arrays[i])
        for i in range(callee.inputs, count):
            add(self.after, arrays[i], io[i])
        return 0

    cdef int enter(self, Callee callee) except -1:
        """Run `callee`, without copies."""
        self.callee, self.program = callee, callee.program
        self.fn = <kernel_fn>run_invocation
        return 0

    def explain(self, int status):
        error = self.callee.failure(self.step, status)
        self.error = error.__cause__
        return str(error)

    def cause(self):
        error, self.error = self.error, None
        return error


cdef int run_invocation(Invocation self, pl_pool *pool) noexcept nogil:
    cdef int status
    move(self.before)
    self.step = 0
    status = run_steps(self.program, pool, &self.step, self.program.size)
    if status == 0:
        move(self.after)
    return status


cdef class Nested(Caller):
    """The base of kernels that have several Invocations, `invocations`; ran: index of the last one that ran."""
    cdef tuple invocations
    cdef int ran

    def explain(self, int status):
        return self.invocations[self.ran].explain(status)

    def cause(self):
        return self.invocations[self.ran].cause()


cdef class Branch(Nested):
    """Runs one of the callees.

    which: (1,) bool: true for the first callee, false for the second; or (1,) int32: the index of the callee, the last
    one if it is out of range.
    """
    cdef void **table
    cdef int count
    cdef const int *number
    cdef const uint8_t *flag

    def __init__(self, callees, which, *arrays):
        self.construct(callees, (which, *arrays))

    cdef int start(self, list callees, const Bytes *arrays, Py_ssize_t count) except -1:
        cdef Invocation invocation
        cdef list invocations = []
        cdef int i
        self.count = len(callees)
        self.table = <void **>malloc(max(1, self.count) * sizeof(void *))
        if self.table == NULL:
            raise MemoryError("no memory for a list of branches")
        for i in range(self.count):
            invocation = Invocation.__new__(Invocation)
            invocation.start([callees[i]], arrays + 1, count - 1)
            invocations.append(invocation)
            self.table[i] = <void *>invocation
        self.invocations = tuple(invocations)
        if arrays[0].n == 1:
            self.flag = <const uint8_t *>arrays[0].data
        else:
            self.number = <const int *>arrays[0].data
        self.fn = <kernel_fn>run_branch
        return 0

    def __dealloc__(self):
        free(self.table)


cdef int run_branch(Branch self, pl_pool *pool) noexcept nogil:
    if self.flag != NULL:
        self.ran = 0 if self.flag[0] else 1
    else:
        self.ran = self.number[0] if 0 <= self.number[0] < self.count else self.count - 1
    return run_invocation(<Invocation>self.table[self.ran], pool)


cdef class While(Nested):
    """Runs `body` while `test` returns true.  The memory of the body's inputs holds the loop variables."""
    cdef Moves enter, leave         # loop variables: from the caller's inputs, to its outputs
    cdef Moves saved, back          # after an iteration: outputs to copies, outputs to inputs
    cdef list copies                # the memory of these copies
    cdef Invocation test, body
    cdef const uint8_t *go_on
    cdef object interrupt
    cdef int64_t checked            # time of the last check for signals
    cdef size_t left, interval      # iterations until the clock is read again, and between two readings

    def __init__(self, test, body, *arrays):
        self.construct([test, body], arrays)

    cdef int start(self, list callees, const Bytes *arrays, Py_ssize_t count) except -1:
        cdef Callee test = callees[0], body = callees[1]
        cdef Py_ssize_t i, n = body.inputs
        cdef const Bytes *inputs = body.io.items
        cdef const Bytes *tested = test.io.items
        cdef Bytes x, y
        if (count != 2 * n or body.io.count != 2 * n or test.inputs != n or test.io.count != n + 1
                or tested[n].n != 1):
            raise ValueError(f"{count} arrays for a loop of {n} variables, whose condition has {test.inputs} inputs")
        self.enter, self.leave, self.back = Moves(n), Moves(n), Moves(n)
        self.test, self.body, self.copies = Invocation.__new__(Invocation), Invocation.__new__(Invocation), []
        self.test.enter(test)
        self.test.before = Moves(n)
        self.body.enter(body)
        self.invocations = self.test, self.body
        for i in range(n):
            x, y = inputs[i], inputs[n + i]
            add(self.enter, x, arrays[i])
            add(self.leave, arrays[n + i], x)
            add(self.test.before, tested[i], x)
            if x.n > 0 and y.data != x.data:
                if is_among(inputs, n, y):      # copy it before that input is overwritten
                    y = self.copied(y, n)
                add(self.back, x, y)
        self.go_on = <const uint8_t *>tested[n].data
        self.fn = <kernel_fn>run_while
        return 0

    cdef Bytes copied(self, Bytes y, Py_ssize_t room) except *:
        """Memory to which each iteration copies the output `y`.  room: the most copies."""
        cdef bytearray memory = bytearray(y.n)
        cdef Bytes copy = Bytes(<char *>memory, y.n)
        if self.saved is None:
            self.saved = Moves(room)
        self.copies.append(memory)
        add(self.saved, copy, y)
        return copy

    def explain(self, int status):
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            raise interrupt         # not a failure of the model
        return Nested.explain(self, status)


cdef bint is_among(const Bytes *arrays, Py_ssize_t count, Bytes y) noexcept nogil:
    """Does `y` lie in the memory of one of these arrays?"""
    cdef Py_ssize_t i
    for i in range(count):
        if arrays[i].n > 0 and arrays[i].data == y.data:
            return True
    return False


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
        status = run_invocation(self.test, pool)
        if status:
            return status
        if not self.go_on[0]:
            break
        self.ran = 1
        status = run_invocation(self.body, pool)
        if status:
            return status
        move(self.saved)
        move(self.back)
    move(self.leave)
    return 0


cdef class Once(Nested):
    """Runs the callee if flag[0] is 0, then sets it to 1.  flag: (1,) uint8."""
    cdef Invocation invocation
    cdef uint8_t *flag

    def __init__(self, callee, flag):
        self.construct([callee], (flag,))

    cdef int start(self, list callees, const Bytes *arrays, Py_ssize_t count) except -1:
        self.invocation = Invocation.__new__(Invocation)
        self.invocation.start(callees, NULL, 0)
        self.invocations = (self.invocation,)
        self.flag, self.fn = <uint8_t *>arrays[0].data, <kernel_fn>run_once
        return 0


cdef int run_once(Once self, pl_pool *pool) noexcept nogil:
    cdef int status
    if self.flag[0]:
        return 0
    status = run_invocation(self.invocation, pool)
    if status == 0:
        self.flag[0] = 1
    return status
