# The rest of elementwise.pyx: several functions in sequence, block by block.
cdef struct Step:
    pl_unary_fn unary           # or
    pl_binary_fn binary
    const uint8_t *a            # NULL: the result of the previous step
    const uint8_t *b
    const void *p
    ptrdiff_t a_size, b_size    # bytes from one element to the next; 0 for a single element
    ptrdiff_t size              # of an element of the result


cdef class Chain(Kernel):
    """Functions of one or two operands, each applied to the result of the previous one, a block at a time.

    n: number of elements.  steps: (micro-kernel, operands, p, size) of each.  operands: pairs of an index of `arrays`
    and the bytes of an element, 0 for a single element; index -1 is the result of the step before.  p: the index of
    its parameters.  size: bytes of an element of the result.  y: bytes; may be the memory of an operand with elements
    of that size.
    """
    cdef Step steps[LONGEST]
    cdef ptrdiff_t n, block
    cdef int count
    cdef list held
    cdef uint8_t[::1] y

    def __init__(self, ptrdiff_t n, tuple steps, uint8_t[::1] y, *arrays):
        cdef Step *step
        cdef ptrdiff_t largest = 1
        self.held, self.y, self.n = [], y, n
        if len(steps) > LONGEST:
            raise ValueError(f"a chain of {len(steps)} functions; at most {LONGEST} can follow one another")
        for name, operands, p, size in steps:
            step = &self.steps[self.count]
            if len(operands) == 1:
                step.unary = unary_kernel(name)
            else:
                step.binary = binary_kernel(name)
                step.b, step.b_size = self.operand(arrays, operands[1][0]), operands[1][1]
            step.a, step.a_size = self.operand(arrays, operands[0][0]), operands[0][1]
            step.p, step.size = self.held_pointer(kernel_parameters(name, arrays[p])), size
            largest = max(largest, step.size)
            self.count += 1
        self.block = BLOCK // largest
        self.fn, self.path = <kernel_fn>run_chain, f"{self.count} functions, block by block"
        names = {name for name, *_ in steps}
        if names & ARITHMETIC and names <= ARITHMETIC | SIMPLE:
            self.subnormals = FLUSHED

    cdef const uint8_t *operand(self, tuple arrays, ptrdiff_t i) except? NULL:
        if i < 0:
            return NULL
        return self.held_pointer(arrays[i])

    cdef const uint8_t *held_pointer(self, array) except NULL:
        cdef const uint8_t[::1] view = array
        self.held.append(view)
        return <const uint8_t *>pointer(view)


cdef int run_chain(Chain self, pl_pool *pool) noexcept nogil:
    parallel_for(pool if self.n * self.count > PARALLEL_THRESHOLD else NULL, self.n, PIECE // self.count,
                 <pl_range_fn>chain_range, <void *>self)
    return 0


cdef void chain_range(Chain self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef uint8_t blocks[2][BLOCK]
    cdef const uint8_t *a
    cdef const uint8_t *b
    cdef const uint8_t *before = NULL
    cdef uint8_t *y
    cdef const Step *step
    cdef ptrdiff_t n, size = 0
    cdef int i, at = 0
    while begin < end:
        n = min(self.block, end - begin)
        for i in range(self.count):
            step = &self.steps[i]
            a = before if step.a == NULL else step.a + begin * step.a_size
            b = before if step.b == NULL else step.b + begin * step.b_size
            if i and size != step.size:         # else the step overwrites its operand
                at = 1 - at
            if i < self.count - 1:
                y = blocks[at]
            else:
                y = &self.y[0] + begin * step.size
            if step.unary != NULL:
                step.unary(n, a, y, step.p)
            else:
                step.binary(n, a, step.a_size != 0, b, step.b_size != 0, y, step.p)
            before, size = y, step.size
        begin += n
