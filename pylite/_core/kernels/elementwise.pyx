"""Element-wise kernels: functions of one operand, of two operands with broadcasting, and chains of them.

Each calls micro-kernels by name (simd/elementwise.h).  Binary has most of the code: it computes broadcast rows one by
one, or copies short ones side by side first.

This file is longer than others because chains run functions of both kinds and share their limits.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t
from libc.string cimport memmove, memset

from pylite._core.run.kernel cimport FLUSH, MAX_ARRAYS, Kernel, Strided, kernel_fn, outside_arena
from pylite._core.simd cimport (
    PL_REPEAT_SLACK,
    binary_kernel,
    kernel_parameters,
    parallel_for,
    pl_binary_fn,
    pl_pool,
    pl_range_fn,
    pl_unary_fn,
    slots,
    unary_kernel,
)

cdef enum:
    MAX_OUTER = 7           # most dimensions of a broadcast outside the row
    PARALLEL_ELEMENTS = 16384       # fewer finish before another thread starts
    GRAIN = 4096            # least number of elements for a thread
    MIN_LINES8 = 4096       # least number of elements for which analysing a look-up table for lines8 pays
    BLOCK = 8192            # bytes of a block, to which short rows are copied side by side
    SHORT = 511             # most bytes of a short row of bytes, whose micro-kernels have more to set up
    SHORT_WIDE = 128        # most bytes of a short row of wider elements
    REPEATED = BLOCK // 3   # most bytes of a short row if an operand is a single row that is repeated
    REPETITIONS = 8         # least number of times that it is repeated
    CHAIN_ARRAYS = MAX_ARRAYS - 1   # a chain's arrays, besides y, that Kernel.moved() can replace
    MAX_CHAIN = 16          # most functions of a chain; passes read it as CHAIN_LENGTH
cdef uint8_t no_bytes = 0       # the address of empty arrays
CHAIN_LENGTH = MAX_CHAIN
# float32 functions that flush subnormal numbers; so does a chain of them and of SIMPLE functions.
ARITHMETIC = frozenset(name + "_f32" for name in (
    "add", "div", "elu", "exp", "gelu", "gelu_tanh", "hard_swish", "leaky_relu", "logistic", "mul", "prelu", "square",
    "squared_difference", "sub", "tanh"))
SIMPLE = frozenset(("abs_f32", "clamp_f32", "maximum_f32", "minimum_f32", "neg_f32"))


cdef uint8_t *first_byte(array, Py_ssize_t *size, int flags=PyBUF_SIMPLE) except NULL:
    """The first byte of a contiguous array; size: set to its bytes.  Not NULL even for an empty array.

    The kernel keeps the array alive.  A memoryview would take six times as long.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, flags)
    cdef uint8_t *first = <uint8_t *>view.buf
    size[0] = view.len
    PyBuffer_Release(&view)
    return first if size[0] else &no_bytes


cdef const void *pointer(const uint8_t[::1] array) noexcept:
    """The first byte of an array; not NULL even for an empty one."""
    return <const void *>&array[0] if array.shape[0] else <const void *>&no_bytes


# ---- one operand -------------------------------------------------------------------------------------------
cdef struct UnaryLoop:
    pl_unary_fn kernel
    const uint8_t *x
    uint8_t *y
    const void *p           # parameters
    ptrdiff_t n, x_size, y_size     # elements; bytes of each


cdef class Unary(Kernel):
    """y[i] = f(x[i]), f being the micro-kernel `name` (PL_UNARY_SLOTS in elementwise.h).

    n: number of elements; x, y: their bytes, (n * item size,) uint8; may be the same memory; p: parameters of f, bytes
    or an array of uint8, see simd.kernel_parameters.
    """
    ARRAYS, SIZES = (2, 3), (1,)
    cdef UnaryLoop loop
    cdef const uint8_t[::1] p

    def __init__(self, str name, ptrdiff_t n, x, y, p=b""):
        cdef Py_ssize_t x_bytes, y_bytes
        if (name == "lut8" and n >= MIN_LINES8 and slots.lines8 != slots.lut8
                and kernel_parameters("lines8", p) is not None):
            name = "lines8"
        self.memory, self.p = (x, y), kernel_parameters(name, p)
        self.loop.kernel = unary_kernel(name)
        self.loop.n, self.loop.p = n, pointer(self.p)
        self.loop.x, self.loop.y = first_byte(x, &x_bytes), first_byte(y, &y_bytes, PyBUF_WRITABLE)
        self.loop.x_size, self.loop.y_size = x_bytes // max(n, 1), y_bytes // max(n, 1)
        self.fn = <kernel_fn>run_unary
        if name in ARITHMETIC:
            self.subnormals = FLUSH

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef ptrdiff_t n = sizes[0]
        cdef Unary copy
        if (arrays[0] == NULL or arrays[1] == NULL or n * self.loop.n == 0
                or (n >= MIN_LINES8) != (self.loop.n >= MIN_LINES8)):
            return None
        copy = <Unary>self.base_copy()
        copy.p, copy.loop = self.p, self.loop
        copy.loop.n, copy.loop.x, copy.loop.y = n, <const uint8_t *>arrays[0].data, <uint8_t *>arrays[1].data
        return copy


cdef int run_unary(Unary self, pl_pool *pool) noexcept nogil:
    parallel_for(pool if self.loop.n > PARALLEL_ELEMENTS else NULL, self.loop.n, GRAIN, unary_range, &self.loop)
    return 0


cdef void unary_range(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef UnaryLoop *loop = <UnaryLoop *>ctx
    loop.kernel(end - begin, loop.x + begin * loop.x_size, loop.y + begin * loop.y_size, loop.p)


# ---- one operand, parameters for each index of an axis -----------------------------------------------------
cdef class UnaryPerAxis(Kernel):
    """y[o, c, i] = f(x[o, c, i]) with parameters for each channel c; f: the micro-kernel `name`.

    shape: (outer, channels, inner); x, y: bytes, as for Unary; p: the parameters of all channels, one after another.
    """
    cdef UnaryLoop loop     # its elements are rows
    cdef ptrdiff_t channels, inner      # inner: elements of a row
    cdef ptrdiff_t p_size   # bytes of a channel's parameters
    cdef const uint8_t[::1] x, p
    cdef uint8_t[::1] y

    def __init__(self, str name, tuple shape, const uint8_t[::1] x, uint8_t[::1] y, const uint8_t[::1] p):
        cdef ptrdiff_t outer, inner
        outer, self.channels, inner = shape
        self.inner = inner
        self.x, self.y, self.p = x, y, p
        self.p_size = p.shape[0] // max(self.channels, 1)
        self.loop.kernel = unary_kernel(name)
        self.loop.n = outer * self.channels
        self.loop.x, self.loop.y, self.loop.p = <const uint8_t *>pointer(x), <uint8_t *>pointer(y), pointer(p)
        self.loop.x_size = inner * (x.shape[0] // max(outer * self.channels * inner, 1))
        self.loop.y_size = inner * (y.shape[0] // max(outer * self.channels * inner, 1))
        self.fn = <kernel_fn>run_unary_per_axis


cdef int run_unary_per_axis(UnaryPerAxis self, pl_pool *pool) noexcept nogil:
    if self.loop.n * self.inner <= PARALLEL_ELEMENTS:
        pool = NULL
    parallel_for(pool, self.loop.n, 1 + GRAIN // max(self.inner, 1), <pl_range_fn>unary_rows, <void *>self)
    return 0


cdef void unary_rows(UnaryPerAxis self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef UnaryLoop *loop = &self.loop
    cdef ptrdiff_t i
    for i in range(begin, end):
        loop.kernel(self.inner, loop.x + i * loop.x_size, loop.y + i * loop.y_size,
                    <const uint8_t *>loop.p + i % self.channels * self.p_size)


# ---- two operands ------------------------------------------------------------------------------------------
cdef struct Operand:
    const uint8_t *x
    ptrdiff_t size                  # bytes of an element
    int step                        # elements between neighbours in a row; 0: one element is repeated
    bint dense                      # is it not broadcast, and strided like y?
    bint single_row                 # is it a single row, used for all rows of y?
    ptrdiff_t strides[MAX_OUTER]    # bytes; 0 along broadcast axes


cdef struct BinaryLoop:
    pl_binary_fn kernel
    Operand a, b
    uint8_t *y
    const void *p
    ptrdiff_t rows, n               # rows of y; elements of a row
    ptrdiff_t y_size                # bytes of an element
    int outer                       # dimensions outside the row
    ptrdiff_t shape[MAX_OUTER]


cdef class Binary(Kernel):
    """y = f(a, b) with broadcasting, f being the micro-kernel `name` (PL_BINARY_SLOTS in elementwise.h).

    shape: of y, collapsed (shapes.collapse); a_strides, b_strides: in elements, 0 along broadcast axes; a, b, y: bytes,
    (elements * item size,) uint8; y may be the memory of an operand of the same size; p: parameters of f, see
    simd.kernel_parameters.
    """
    ARRAYS, SIZES = (2, 3, 4), (1, "a_strides", "b_strides")
    cdef BinaryLoop loop
    cdef object a, b
    cdef const uint8_t[::1] p

    def __init__(self, str name, tuple shape, a, b, y, *, tuple a_strides, tuple b_strides, p=b""):
        cdef BinaryLoop *loop = &self.loop
        cdef Py_ssize_t a_bytes, b_bytes, y_bytes
        self.memory, self.a, self.b, self.p = y, a, b, kernel_parameters(name, p)
        loop.kernel, loop.p = binary_kernel(name), pointer(self.p)
        loop.a.x, loop.b.x = first_byte(a, &a_bytes), first_byte(b, &b_bytes)
        loop.y = first_byte(y, &y_bytes, PyBUF_WRITABLE)
        loop.a.size, loop.b.size = item_size(a_bytes, shape, a_strides), item_size(b_bytes, shape, b_strides)
        self.broadcast(shape, a_strides, b_strides)
        loop.y_size = y_bytes // max(loop.rows * loop.n, 1)
        self.algorithm = self.row_order()
        self.fn = <kernel_fn>run_binary
        if name in ARITHMETIC:
            self.subnormals = FLUSH

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef BinaryLoop *loop
        cdef Binary copy
        if self.loop.rows * self.loop.n == 0 or arrays[2] == NULL:
            return None
        copy = <Binary>self.base_copy()
        copy.p, copy.loop = self.p, self.loop
        loop = &copy.loop
        if arrays[0] == NULL:
            copy.a = self.a
        else:
            loop.a.x = <const uint8_t *>arrays[0].data
        if arrays[1] == NULL:
            copy.b = self.b
        else:
            loop.b.x = <const uint8_t *>arrays[1].data
        loop.y = <uint8_t *>arrays[2].data
        copy.broadcast(sizes[0], sizes[1], sizes[2])
        if loop.rows * loop.n == 0:
            return None
        copy.algorithm = copy.row_order()
        return copy

    cdef str row_order(self):
        """The order in which rows are computed, for `pylite inspect`."""
        return "all in one row" if self.loop.rows == 1 else (
            "rows side by side" if are_side_by_side(&self.loop) else "row by row")

    cdef int broadcast(self, tuple shape, tuple a_strides, tuple b_strides) except -1:
        """Set shape and strides; the sizes of elements are set."""
        cdef BinaryLoop *loop = &self.loop
        cdef Py_ssize_t i
        loop.outer = max(len(shape) - 1, 0)
        if loop.outer > MAX_OUTER:
            raise ValueError(f"{len(shape)} dimensions cannot be broadcast")
        loop.rows, loop.n = 1, shape[-1] if shape else 1
        for i in range(loop.outer):
            loop.shape[i] = shape[i]
            loop.rows *= shape[i]
        set_strides(&loop.a, loop.outer, a_strides)
        set_strides(&loop.b, loop.outer, b_strides)
        return 0


cdef int set_strides(Operand *operand, int outer, tuple strides) except -1:
    """Set the fields that depend on `strides`, in elements; the size of elements is set."""
    cdef Py_ssize_t i
    operand.step = strides[-1] if strides else 1
    operand.dense, operand.single_row = 0 not in strides, True
    for i in range(outer):
        operand.strides[i] = operand.size * <ptrdiff_t>strides[i]
        operand.single_row = operand.single_row and not operand.strides[i]
    return 0


cdef ptrdiff_t item_size(Py_ssize_t nbytes, tuple shape, tuple strides) except -1:
    """Bytes of an element of an operand with `nbytes` bytes in all."""
    cdef ptrdiff_t elements = 1
    cdef Py_ssize_t i
    if len(shape) != len(strides):
        raise ValueError(f"strides {strides} do not fit the shape {shape}")
    for i in range(len(shape)):
        if <ptrdiff_t>strides[i]:
            elements *= <ptrdiff_t>shape[i]
    return nbytes // max(elements, 1)


cdef bint are_side_by_side(const BinaryLoop *loop) noexcept nogil:
    """Are several rows computed by one call of the micro-kernel?"""
    if (loop.rows >= REPETITIONS and (loop.a.dense or loop.a.single_row) and (loop.b.dense or loop.b.single_row)):
        return loop.n * max(loop.a.size, loop.b.size) <= REPEATED
    return loop.rows > 1 and loop.n * loop.y_size <= (SHORT if loop.y_size == 1 else SHORT_WIDE)


cdef int run_binary(Binary self, pl_pool *pool) noexcept nogil:
    cdef BinaryLoop *loop = &self.loop
    parallel_for(pool if loop.rows * loop.n > PARALLEL_ELEMENTS else NULL, loop.rows * loop.n, GRAIN,
                 binary_blocks if are_side_by_side(loop) else binary_range, loop)
    return 0


cdef struct RowPosition:    # of an element of y
    ptrdiff_t index[MAX_OUTER]      # of its row
    ptrdiff_t column
    const uint8_t *a        # the operands' rows
    const uint8_t *b


cdef void seek_row(const BinaryLoop *loop, ptrdiff_t element, RowPosition *at) noexcept nogil:
    cdef ptrdiff_t row = element // loop.n
    cdef int i
    at.column, at.a, at.b = element % loop.n, loop.a.x, loop.b.x
    for i in range(loop.outer - 1, -1, -1):
        at.index[i] = row % loop.shape[i]
        row = row // loop.shape[i]
        at.a += at.index[i] * loop.a.strides[i]
        at.b += at.index[i] * loop.b.strides[i]


cdef void next_row(const BinaryLoop *loop, RowPosition *at) noexcept nogil:
    cdef int i
    at.column = 0
    for i in range(loop.outer - 1, -1, -1):
        at.a += loop.a.strides[i]
        at.b += loop.b.strides[i]
        at.index[i] += 1
        if at.index[i] < loop.shape[i]:
            break
        at.a -= at.index[i] * loop.a.strides[i]
        at.b -= at.index[i] * loop.b.strides[i]
        at.index[i] = 0


cdef inline const uint8_t *element(const Operand *operand, const uint8_t *row, ptrdiff_t column) noexcept nogil:
    return row + column * operand.step * operand.size


cdef void binary_range(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute elements begin to end - 1 of y, row by row; the range may begin and end inside a row."""
    cdef BinaryLoop *loop = <BinaryLoop *>ctx
    cdef ptrdiff_t count
    cdef RowPosition at
    seek_row(loop, begin, &at)
    while begin < end:
        count = min(loop.n - at.column, end - begin)
        loop.kernel(count, element(&loop.a, at.a, at.column), loop.a.step, element(&loop.b, at.b, at.column),
                    loop.b.step, loop.y + begin * loop.y_size, loop.p)
        begin += count
        next_row(loop, &at)


cdef void expand(const Operand *operand, const uint8_t *x, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t stride,
                 uint8_t *to) noexcept nogil:
    """Copy `rows` rows of n elements of an operand, from x on, side by side.  Rows are `stride` bytes apart.

    Up to PL_REPEAT_SLACK bytes past the copy are overwritten.
    """
    cdef ptrdiff_t i, done = n * operand.size, total = rows * done
    if operand.step and stride == done:
        memmove(to, x, total)
    elif operand.step == 0 and stride == operand.size and operand.size <= 8:
        slots.repeat_items(operand.size, rows, n, x, to)
    elif rows > 1 and stride:
        for i in range(rows):
            expand(operand, x + i * stride, n, 1, 0, to + i * done)
    elif operand.step == 0 and operand.size == 1:
        memset(to, x[0], total)
    else:
        if operand.step == 0:
            done = operand.size
        memmove(to, x, done)
        while done < total:             # double the copy
            memmove(to + done, to, min(done, total - done))
            done *= 2


cdef void binary_blocks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """binary_range() for short rows: each call of the micro-kernel computes a block of several rows.

    A dense operand is read in place.  A single row is copied once, as often as a block has rows; then it serves all
    blocks, which begin in the same column because they have whole numbers of rows.  Other operands are copied block by
    block.
    """
    cdef BinaryLoop *loop = <BinaryLoop *>ctx
    cdef uint8_t left[BLOCK + PL_REPEAT_SLACK]
    cdef uint8_t right[BLOCK + PL_REPEAT_SLACK]
    cdef ptrdiff_t rows = BLOCK // max(loop.a.size, loop.b.size) // loop.n, count
    cdef RowPosition at
    seek_row(loop, begin, &at)
    cdef ptrdiff_t column = at.column
    if loop.a.single_row:
        expand(&loop.a, loop.a.x, loop.n, rows, 0, left)
    if loop.b.single_row:
        expand(&loop.b, loop.b.x, loop.n, rows, 0, right)
    while begin < end:
        count = min((rows - 1) * loop.n, end - begin)       # a single row begins at `column`, inside its first copy
        copy_block(loop, &at, count, left, right)
        loop.kernel(count, block_of(&loop.a, begin, column, left), 1, block_of(&loop.b, begin, column, right), 1,
                    loop.y + begin * loop.y_size, loop.p)
        begin += count


cdef inline const uint8_t *block_of(const Operand *operand, ptrdiff_t begin, ptrdiff_t column,
                                    const uint8_t *copied) noexcept nogil:
    """The operand's elements for those of y from `begin` on, which is in `column`."""
    if operand.dense:
        return operand.x + begin * operand.size
    return copied + column * operand.size if operand.single_row else copied


cdef void copy_block(const BinaryLoop *loop, RowPosition *at, ptrdiff_t total, uint8_t *left,
                     uint8_t *right) noexcept nogil:
    """Copy the operands that are neither dense nor single rows, for `total` elements of y; advance `at` past them."""
    cdef ptrdiff_t done = 0, count, rows
    cdef int last = loop.outer - 1
    while done < total:
        count, rows = total - done, 1
        if at.column == 0 and count > loop.n:
            rows = min(count // loop.n, loop.shape[last] - at.index[last])
        count = min(loop.n - at.column, count)
        if not loop.a.dense and not loop.a.single_row:
            expand(&loop.a, element(&loop.a, at.a, at.column), count, rows, loop.a.strides[last],
                   left + done * loop.a.size)
        if not loop.b.dense and not loop.b.single_row:
            expand(&loop.b, element(&loop.b, at.b, at.column), count, rows, loop.b.strides[last],
                   right + done * loop.b.size)
        done += rows * count
        at.column += count
        at.index[last] += rows - 1
        at.a += (rows - 1) * loop.a.strides[last]
        at.b += (rows - 1) * loop.b.strides[last]
        if at.column == loop.n:
            next_row(loop, at)


def tabulate(c, str name, p, bint first):
    """The look-up table of a binary micro-kernel, one operand of which is constant: the single element of c.

    first: is c the first operand?
    """
    all_bytes, table, one = bytes(range(256)), bytearray(256), c.reshape(-1).view("uint8")
    if first:
        Binary(name, (256,), one, all_bytes, table, a_strides=(0,), b_strides=(1,), p=p).run()
    else:
        Binary(name, (256,), all_bytes, one, table, a_strides=(1,), b_strides=(0,), p=p).run()
    return table


def repeat(row, k):
    """The bytes of an array, k times."""
    return bytearray(row.tobytes() * k)


# ---- several functions in sequence ----------------------------------------------------------------------------
cdef struct ChainStep:          # one function of a chain
    pl_unary_fn unary           # either this or
    pl_binary_fn binary         # this is not NULL
    const uint8_t *a            # operands; NULL: the result of the previous step
    const uint8_t *b
    const void *p               # parameters
    ptrdiff_t a_size, b_size    # bytes from one element to the next; 0 for a single element
    int a_index, b_index        # index among the kernel's arrays; -1: the result of the previous step
    ptrdiff_t size              # bytes of an element of the result


cdef inline const uint8_t *moved_operand(const uint8_t *before, int index, const Strided **arrays) noexcept:
    """The address of an operand, which was `before`, after arrays have moved; index: see ChainStep."""
    if before == NULL or index >= CHAIN_ARRAYS or arrays[1 + index] == NULL:
        return before
    return <const uint8_t *>arrays[1 + index].data


cdef class Chain(Kernel):
    """Functions of one or two operands, each applied to the result of the previous one, block by block in cache.

    n: number of elements; y: bytes; may be the memory of an operand with elements of the same size.
    steps: (micro-kernel, operands, p, size) of each function.  operands: one or two pairs of an index in `arrays`, -1
    for the result of the previous step, and the bytes of an element, 0 for a single element; p: the index of the
    parameters in `arrays`; size: bytes of an element of the result.
    """
    ARRAYS, SIZES = tuple(range(2, 3 + CHAIN_ARRAYS)), (0,)
    cdef ChainStep steps[MAX_CHAIN]
    cdef ptrdiff_t n, block
    cdef int count
    cdef list parameters
    cdef tuple owners       # operands and parameters that are not in the arena
    cdef uint8_t *y

    def __init__(self, ptrdiff_t n, tuple steps, y, *arrays):
        cdef ChainStep *step
        cdef ptrdiff_t largest = 1
        cdef Py_ssize_t nbytes
        self.parameters, self.owners, self.memory, self.n = [], arrays, y, n
        self.y = first_byte(y, &nbytes, PyBUF_WRITABLE)
        if len(steps) > MAX_CHAIN:
            raise ValueError(f"a chain of {len(steps)} functions; at most {MAX_CHAIN} can follow one another")
        for name, operands, p, size in steps:
            step = &self.steps[self.count]
            step.a_index, step.b_index = operands[0][0], operands[len(operands) - 1][0]
            if len(operands) == 1:
                step.unary = unary_kernel(name)
            else:
                step.binary = binary_kernel(name)
                step.b, step.b_size = self.operand(arrays, operands[1][0]), operands[1][1]
            step.a, step.a_size = self.operand(arrays, operands[0][0]), operands[0][1]
            step.p, step.size = self.parameter(kernel_parameters(name, arrays[p])), size
            largest = max(largest, step.size)
            self.count += 1
        self.block = BLOCK // largest
        self.fn, self.algorithm = <kernel_fn>run_chain, f"{self.count} functions, block by block"
        names = {name for name, *_ in steps}
        if names & ARITHMETIC and names <= ARITHMETIC | SIMPLE:
            self.subnormals = FLUSH

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Chain copy
        cdef int i
        if arrays[0] == NULL or self.n * <ptrdiff_t>sizes[0] == 0:
            return None
        copy = <Chain>self.base_copy()
        copy.n, copy.block, copy.count, copy.parameters = sizes[0], self.block, self.count, self.parameters
        copy.y = <uint8_t *>arrays[0].data
        for i in range(self.count):
            copy.steps[i] = self.steps[i]
            copy.steps[i].a = moved_operand(self.steps[i].a, self.steps[i].a_index, arrays)
            if self.steps[i].binary != NULL:
                copy.steps[i].b = moved_operand(self.steps[i].b, self.steps[i].b_index, arrays)
        copy.owners = outside_arena(self.owners[:CHAIN_ARRAYS], arrays + 1) + self.owners[CHAIN_ARRAYS:]
        return copy

    cdef const uint8_t *operand(self, tuple arrays, ptrdiff_t i) except? NULL:
        cdef Py_ssize_t nbytes
        return NULL if i < 0 else first_byte(arrays[i], &nbytes)

    cdef const void *parameter(self, array) except NULL:
        cdef const uint8_t[::1] view = array
        self.parameters.append(view)
        return pointer(view)


cdef int run_chain(Chain self, pl_pool *pool) noexcept nogil:
    parallel_for(pool if self.n * self.count > PARALLEL_ELEMENTS else NULL, self.n, GRAIN // self.count,
                 <pl_range_fn>chain_range, <void *>self)
    return 0


cdef void chain_range(Chain self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute elements begin to end - 1, block by block; `blocks` holds the results between steps."""
    cdef uint8_t blocks[2][BLOCK]
    cdef const uint8_t *a
    cdef const uint8_t *b
    cdef const uint8_t *before = NULL
    cdef uint8_t *y
    cdef const ChainStep *step
    cdef ptrdiff_t n, size = 0
    cdef int i, current = 0
    while begin < end:
        n = min(self.block, end - begin)
        for i in range(self.count):
            step = &self.steps[i]
            a = before if step.a == NULL else step.a + begin * step.a_size
            b = before if step.b == NULL else step.b + begin * step.b_size
            if i and size != step.size:         # else the step overwrites its operand
                current = 1 - current
            if i < self.count - 1:
                y = blocks[current]
            else:
                y = self.y + begin * step.size
            if step.unary != NULL:
                step.unary(n, a, y, step.p)
            else:
                step.binary(n, a, step.a_size != 0, b, step.b_size != 0, y, step.p)
            before, size = y, step.size
        begin += n
