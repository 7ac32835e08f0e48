"""Kernels that copy elements of any type."""
from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memmove, memset

from pylite._core.run.kernel cimport IRRELEVANT, MAX_DIMS, Kernel, Strided, kernel_fn, set_strided
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, slots

cdef enum:
    RUN_GRAIN = 1 << 15     # bytes of a single long run that a thread copies at a time
    FEW = 8                 # with fewer rows than this, a longer dimension becomes the rows
    PARALLEL_BYTES = 1 << 17    # fewer are copied before another thread starts
    GRAIN = 1 << 14         # least number of bytes for a thread
    ROW_COST = 64           # of advancing to a row: the number of bytes that are copied in the same time

cdef enum Inner:            # what the micro-kernel does in the two innermost dimensions:
    RUNS                    # copy rows of bytes: x and y are contiguous along the last one
    TRANSPOSED              # transpose: y is contiguous along the last one, x along the one before
    STRIDED                 # copy element by element


cdef class Copy(Kernel):
    """y[...] = x[...] for arrays of equal shape and element size; any strides, also 0 in x.

    Dimensions are sorted so that y is written in the order of its memory, and merged if x allows it.  A micro-kernel
    takes the last two (rows, columns); there are loops over the others.
    """
    ARRAYS = (0, 1)
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef Py_ssize_t shape[MAX_DIMS]
    cdef Py_ssize_t xs[MAX_DIMS]    # strides in bytes
    cdef Py_ssize_t ys[MAX_DIMS]
    cdef Py_ssize_t item, total     # bytes of an element; rows of all dimensions
    cdef Py_ssize_t cost            # of a row, in bytes
    cdef int n                      # dimensions
    cdef Inner inner
    cdef bint repeats               # is y one run of elements, all equal to the one of x?

    def __init__(self, x, y):
        cdef Strided source, target
        set_strided(&source, x)
        set_strided(&target, y, 0, 0, True)
        if not arrange(self, &source, &target):
            raise ValueError(f"cannot copy {x.dtype}{x.shape} to {y.dtype}{y.shape}")
        self.memory = x, y

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Copy result = <Copy>self.base_copy()
        if arrays[0] == NULL or arrays[1] == NULL or not arrange(result, arrays[0], arrays[1]):
            return None
        return result


cdef bint arrange(Copy self, const Strided *x, const Strided *y) noexcept:
    """Set up the loops; False if shapes or element sizes differ."""
    cdef int i
    if x.ndim != y.ndim or x.item != y.item:
        return False
    for i in range(x.ndim):
        if x.shape[i] != y.shape[i]:
            return False
    sort_dimensions(self, x, y)
    choose_micro_kernel(self)
    self.algorithm = "runs of bytes" if self.inner == RUNS else "transposed in tiles" if self.inner == TRANSPOSED \
        else "element by element"
    self.total = 1
    for i in range(self.n - 1):
        self.total *= self.shape[i]
    if y.nbytes == 0:
        self.total = 0
    self.repeats = (self.inner == STRIDED and self.total == 1 and self.xs[self.n - 1] == 0
                    and self.ys[self.n - 1] == self.item)
    self.cost = max(ROW_COST, self.shape[self.n - 1] * (1 if self.inner == RUNS else self.item))
    self.fn, self.subnormals = <kernel_fn>copy, IRRELEVANT
    return True


cdef void sort_dimensions(Copy self, const Strided *x, const Strided *y) noexcept:
    """Set the dimensions: those of size 1 dropped, strides of y made positive and descending, neighbours merged."""
    cdef Py_ssize_t n, xs, ys
    cdef int i, j, count = 0
    self.x, self.y, self.item = <const uint8_t *>x.data, <uint8_t *>y.data, y.item
    for i in range(y.ndim):
        n, xs, ys = y.shape[i], x.strides[i], y.strides[i]
        if n == 1:
            continue
        if ys < 0:
            self.x += (n - 1) * xs
            self.y += (n - 1) * ys
            xs, ys = -xs, -ys
        j = count
        while j > 0 and self.ys[j - 1] < ys:
            self.shape[j], self.xs[j], self.ys[j] = self.shape[j - 1], self.xs[j - 1], self.ys[j - 1]
            j -= 1
        self.shape[j], self.xs[j], self.ys[j] = n, xs, ys
        count += 1
    j = 0
    for i in range(1, count):
        if self.xs[j] == self.shape[i] * self.xs[i] and self.ys[j] == self.shape[i] * self.ys[i]:
            self.shape[j] *= self.shape[i]
        else:
            j += 1
            self.shape[j] = self.shape[i]
        self.xs[j], self.ys[j] = self.xs[i], self.ys[i]
    self.n = min(count, j + 1)


cdef void choose_micro_kernel(Copy self) noexcept:
    """Choose the innermost two dimensions and their micro-kernel."""
    cdef Py_ssize_t n, xs, ys
    cdef int i, rows, last
    find_runs(self)
    last = self.n - 1
    rows = last - 1
    if self.inner == STRIDED and self.ys[last] == self.item:
        for i in range(last):
            if self.xs[i] == self.item and self.shape[i] > 1:
                self.inner = TRANSPOSED
                rows = i
    if self.inner != TRANSPOSED and self.shape[rows] < FEW:
        for i in range(last):
            if self.shape[i] > self.shape[rows]:
                rows = i
    n, xs, ys = self.shape[rows], self.xs[rows], self.ys[rows]
    for i in range(rows, last - 1):
        self.shape[i], self.xs[i], self.ys[i] = self.shape[i + 1], self.xs[i + 1], self.ys[i + 1]
    self.shape[last - 1], self.xs[last - 1], self.ys[last - 1] = n, xs, ys


cdef void find_runs(Copy self) noexcept:
    """Set `inner` to RUNS or STRIDED, and add dimensions of size 1 in front until there are two.

    With RUNS, the last dimension counts bytes.  A run of few bytes becomes a single element instead.
    """
    cdef Py_ssize_t n
    cdef int i, last = self.n - 1
    self.inner = STRIDED
    if self.n == 0 or (self.xs[last] == self.item and self.ys[last] == self.item):
        n = self.item if self.n == 0 else self.shape[last] * self.item
        if self.n > 0 and (n == 2 or n == 4 or n == 8 or n == 16):
            self.item = n
            self.n -= 1
        else:
            self.inner = RUNS
            if self.n == 0:
                self.n = 1
            self.shape[self.n - 1] = n
    while self.n < 2:
        for i in range(self.n, 0, -1):
            self.shape[i], self.xs[i], self.ys[i] = self.shape[i - 1], self.xs[i - 1], self.ys[i - 1]
        self.shape[0], self.xs[0], self.ys[0] = 1, 0, 0
        self.n += 1


cdef int copy(Copy self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t row = self.shape[self.n - 1], pieces
    if self.repeats and all_alike(self.x, self.item):
        pieces = (row * self.item + RUN_GRAIN - 1) // RUN_GRAIN
        parallel_for(pool if row * self.item > PARALLEL_BYTES else NULL, pieces, 1, <pl_range_fn>fill_run, <void *>self)
    elif self.total == 1 and self.inner == RUNS and row <= RUN_GRAIN:
        memmove(self.y, self.x, row)
    elif self.total == 1 and self.inner == RUNS:
        parallel_for(pool if row > PARALLEL_BYTES else NULL, (row + RUN_GRAIN - 1) // RUN_GRAIN, 1,
                     <pl_range_fn>copy_run, <void *>self)
    elif 0 < self.total <= PARALLEL_BYTES // self.cost:
        copy_rows(self, 0, self.total, 0)
    elif self.total > 0:
        parallel_for(pool, self.total, 1 + GRAIN // self.cost, <pl_range_fn>copy_rows, <void *>self)
    return 0


cdef inline bint all_alike(const uint8_t *x, Py_ssize_t n) noexcept nogil:
    """Are all bytes of the element x equal?"""
    cdef Py_ssize_t i
    for i in range(1, n):
        if x[i] != x[0]:
            return False
    return True


cdef void fill_run(Copy self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t bytes = min(end * RUN_GRAIN, self.shape[self.n - 1] * self.item) - begin * RUN_GRAIN
    memset(self.y + begin * RUN_GRAIN, self.x[0], bytes)


cdef void copy_run(Copy self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t bytes = min(end * RUN_GRAIN, self.shape[self.n - 1]) - begin * RUN_GRAIN
    memmove(self.y + begin * RUN_GRAIN, self.x + begin * RUN_GRAIN, bytes)


cdef void copy_rows(Copy self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Copy rows begin to end - 1, counted over all outer dimensions."""
    cdef Py_ssize_t index[MAX_DIMS]
    cdef const uint8_t *x = self.x
    cdef uint8_t *y = self.y
    cdef int i, r = self.n - 2
    cdef Py_ssize_t left = begin, rows, cols = self.shape[r + 1]
    for i in range(r, -1, -1):
        index[i] = 0
        if left:                        # avoid divisions: they take longer than small copies
            index[i] = left % self.shape[i]
            left //= self.shape[i]
            x += index[i] * self.xs[i]
            y += index[i] * self.ys[i]
    while begin < end:
        rows = min(end - begin, self.shape[r] - index[r])
        if self.inner == RUNS:
            slots.copy_runs(rows, cols, x, self.xs[r], y, self.ys[r])
        elif self.inner == TRANSPOSED:
            slots.copy_transposed(self.item, rows, cols, x, self.xs[r + 1], y, self.ys[r])
        else:
            slots.copy_strided(self.item, rows, cols, x, self.xs[r], self.xs[r + 1], y, self.ys[r], self.ys[r + 1])
        begin += rows
        x -= index[r] * self.xs[r]
        y -= index[r] * self.ys[r]
        index[r] = 0
        i = r - 1
        while i >= 0:
            index[i] += 1
            x += self.xs[i]
            y += self.ys[i]
            if index[i] < self.shape[i]:
                break
            x -= self.shape[i] * self.xs[i]
            y -= self.shape[i] * self.ys[i]
            index[i] = 0
            i -= 1


cdef class CopyFrom(Copy):
    """Copy of a slice whose start is computed at run time.  x: the slice that starts at 0.

    begin: the start, (n,) int32 or int64; axes: (n, 3) int64: the stride in bytes, the largest valid start, and the
    size of the axis if negative starts count from its end, else 0; whole: all bytes of x's tensor, (nbytes,), since a
    plan stores what kernels are given.
    """
    ERRORS = {1: "the part to copy begins outside the tensor"}
    ARRAYS = ()
    cdef Py_buffer begin_buffer
    cdef const int64_t[:, ::1] axes
    cdef const uint8_t *origin      # of the slice that starts at 0

    def __init__(self, x, y, begin, const int64_t[:, ::1] axes, const uint8_t[::1] whole):
        super().__init__(x, y)
        PyObject_GetBuffer(begin, &self.begin_buffer, PyBUF_STRIDES)
        self.axes, self.origin = axes, &whole[0] if whole.shape[0] else self.x
        self.fn = <kernel_fn>copy_from

    def __dealloc__(self):
        PyBuffer_Release(&self.begin_buffer)


cdef int copy_from(CopyFrom self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t start
    self.x = self.origin
    for i in range(self.axes.shape[0]):
        if self.begin_buffer.itemsize == 4:
            start = (<const int32_t *>self.begin_buffer.buf)[i]
        else:
            start = (<const int64_t *>self.begin_buffer.buf)[i]
        if self.axes[i, 2] and start < 0:
            start = max(0, start + self.axes[i, 2])
        if self.axes[i, 0]:
            if start < 0 or start > self.axes[i, 1]:
                return 1
            self.x += start * self.axes[i, 0]
    return copy(self, pool)


cdef class LookUpRows(Kernel):
    """y[r, c] = table[x[r, c]] for bytes.  x, y: (rows, cols) uint8, contiguous columns; table: (256,) uint8."""
    cdef const uint8_t[:, ::1] x
    cdef const uint8_t[::1] table
    cdef uint8_t[:, :] y

    def __init__(self, const uint8_t[:, ::1] x, const uint8_t[::1] table, uint8_t[:, :] y):
        self.x, self.table, self.y = x, table, y
        self.fn = <kernel_fn>look_up_rows


cdef int look_up_rows(LookUpRows self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t r
    if self.x.shape[1]:
        for r in range(self.x.shape[0]):
            slots.lut8(self.x.shape[1], &self.x[r, 0], &self.y[r, 0], &self.table[0])
    return 0
