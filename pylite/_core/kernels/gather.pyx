# build: -O2
"""Kernels that gather elements along one axis."""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from pylite._core.kernels.index cimport load_index
from pylite._core.run.kernel cimport (
    COPY_GRAIN_BYTES,
    Kernel,
    Strided,
    kernel_fn,
    outside_arena,
    placed,
    set_strided,
)
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, slots

cdef enum:
    SHORT_RUN = 128         # bytes; longer runs are copied one by one
    DEQUANTIZED = 256       # elements of a table's row that are dequantized at once


cdef class Gather(Kernel):
    """y[b, o, i] = x[b, o, indices[b, i]], where each element is a run of bytes.

    x: (batches, outer, size, run), indices: (batches, count) of `width` bytes each, y: (batches, outer, count, run),
    all given as their bytes, uint8.
    """
    ERRORS = {1: "an index lies outside the axis that is gathered from"}
    ARRAYS, SIZES = (0, 1, 2), ("size", "count", "run", "batches", "outer")
    cdef const uint8_t *x
    cdef const uint8_t *indices
    cdef uint8_t *y
    cdef tuple owners       # x and indices; None if they are in the arena
    cdef Py_ssize_t width, batches, outer, size, count, run

    def __init__(self, x, indices, y, *, Py_ssize_t width, Py_ssize_t size, Py_ssize_t count, Py_ssize_t run,
                 Py_ssize_t batches=1, Py_ssize_t outer=1):
        cdef Strided operands[3]
        cdef const Strided *arrays[3]
        cdef int i
        self.memory, self.owners, self.width = y, (x, indices), width
        for i, array in enumerate((x, indices, y)):
            set_strided(&operands[i], array, 1, 1, i == 2)
            arrays[i] = &operands[i]
        self.arrange(arrays, size, count, run, batches, outer)
        if (operands[0].nbytes != batches * outer * size * run or operands[1].nbytes != batches * count * width
                or operands[2].nbytes != batches * outer * count * run):
            raise ValueError("the arrays do not have the sizes given")

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Gather copy
        size, count, run, batches, outer = sizes
        if arrays[2] == NULL:
            return None
        copy = <Gather>self.base_copy()
        copy.width, copy.x, copy.indices = self.width, self.x, self.indices
        copy.owners = outside_arena(self.owners, arrays)
        copy.arrange(arrays, size, count, run, 1 if batches is None else batches, 1 if outer is None else outer)
        return copy

    cdef void arrange(self, const Strided **arrays, Py_ssize_t size, Py_ssize_t count, Py_ssize_t run,
                      Py_ssize_t batches, Py_ssize_t outer) noexcept:
        self.x, self.y = <const uint8_t *>placed(arrays[0], self.x), <uint8_t *>arrays[2].data
        self.indices = <const uint8_t *>placed(arrays[1], self.indices)
        self.size, self.count, self.run, self.batches, self.outer = size, count, run, batches, outer
        self.fn = <kernel_fn>gather


cdef bint outside(const uint8_t *indices, Py_ssize_t n, Py_ssize_t width, Py_ssize_t size) noexcept nogil:
    """Is one of n indices outside 0 to size - 1?  Without early exit, so that the loop vectorizes."""
    cdef const int32_t *indices32 = <const int32_t *>indices
    cdef bint any_outside = False
    cdef int64_t index
    cdef Py_ssize_t i
    if width == 4:
        for i in range(n):
            any_outside |= <int64_t>indices32[i] < 0 or <int64_t>indices32[i] >= size
        return any_outside
    for i in range(n):
        index = load_index(indices + i * width, width)
        any_outside |= index < 0 or index >= size
    return any_outside


cdef int gather(Gather self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t n = self.batches * self.count
    if n and outside(self.indices, n, self.width, self.size):
        return 1
    if n * self.outer * self.run:
        parallel_for(pool, n * self.outer, max(1, COPY_GRAIN_BYTES // self.run), <pl_range_fn>gather_runs, <void *>self)
    return 0


cdef void gather_runs(Gather self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Copy runs begin to end - 1 of y."""
    cdef Py_ssize_t row, i, run = self.run, width = self.width
    cdef const uint8_t *indices
    cdef const uint8_t *x
    cdef uint8_t *y = self.y + begin * run
    cdef int64_t index
    cdef Py_ssize_t count
    row, i = begin // self.count, begin % self.count            # row: of batches and outer together
    while begin < end:
        x, indices = self.x + row * self.size * run, self.indices
        if self.batches > 1:            # a division takes as long as copying a short row
            indices += row // self.outer * self.count * width
        count = min(self.count - i, end - begin)
        begin += count
        row += 1
        if width == 4 and run <= SHORT_RUN and count > 2:
            slots.gather_pixels(count, run, <const int32_t *>indices + i, x, y, run)
            y += count * run
            i = 0
            continue
        for i in range(i, i + count):
            index = load_index(indices + i * width, width)
            if run == 4:
                memcpy(y, x + index * 4, 4)
            elif run == 1:
                y[0] = x[index]
            else:
                memcpy(y, x + index * run, run)
            y += run
        i = 0


cdef class Lookup(Kernel):
    """y[i] = x[indices[i]], dequantized: EMBEDDING_LOOKUP in a table with a scale for each row or for each block of it.

    x: (rows, blocks, size) int8, as bytes; y: (n, blocks, size) float32, or float16 if `half`, as bytes; scales: (rows,
    blocks), or one for all.
    """
    ERRORS = {1: "an index lies outside the rows of the table"}
    cdef const uint8_t[::1] x
    cdef const int32_t[::1] indices
    cdef uint8_t[::1] y
    cdef const float[::1] scales
    cdef Py_ssize_t rows, blocks, size
    cdef bint half

    def __init__(self, const uint8_t[::1] x, const int32_t[::1] indices, uint8_t[::1] y, const float[::1] scales,
                 Py_ssize_t rows, Py_ssize_t blocks, Py_ssize_t size, bint half):
        self.x, self.indices, self.y, self.scales = x, indices, y, scales
        self.rows, self.blocks, self.size, self.half = rows, blocks, size, half
        self.fn = <kernel_fn>lookup


cdef int lookup(Lookup self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i, b, row, j, k, n, run = self.blocks * self.size, item = 2 if self.half else 4
    cdef float values[DEQUANTIZED]
    cdef const int8_t *x
    cdef char *y
    cdef float scale
    for i in range(self.indices.shape[0]):
        row = self.indices[i]
        if row < 0 or row >= self.rows:
            return 1
        for b in range(self.blocks if self.y.shape[0] else 0):
            scale = self.scales[row * self.blocks + b if self.scales.shape[0] > 1 else 0]
            x = <const int8_t *>&self.x[row * run + b * self.size]
            y = <char *>&self.y[(i * run + b * self.size) * item]
            k = 0
            while k < self.size:
                n = min(<Py_ssize_t>DEQUANTIZED, self.size - k)
                for j in range(n):
                    values[j] = x[k + j] * scale
                if self.half:
                    slots.float_to_half(n, values, y + k * 2, values)
                else:
                    memcpy(y + k * 4, values, n * 4)
                k += n
    return 0
