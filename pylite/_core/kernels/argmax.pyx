"""ARG_MAX and ARG_MIN."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from pylite._core.run.kernel cimport COPY_GRAIN_BYTES, Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, slots

cdef enum:
    BLOCK = 16              # results of one micro-kernel call


cdef class ArgMax(Kernel):
    """y[o, i] = the first a at which x[o, a, i] is largest.  x: (outer, size, inner), y: (outer, inner), as bytes.

    kind: "f" for float32, "i" for int32, "b" for bytes; y: int32 or int64, as its length tells.  Elements are XORed
    with flip before they are compared as signed numbers: 0 finds their maximum, all ones their minimum.
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef Py_ssize_t outer, size, inner, item, index_bytes
    cdef uint32_t flip
    cdef bint is_float

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str kind, uint32_t flip, Py_ssize_t outer,
                 Py_ssize_t size, Py_ssize_t inner):
        self.x, self.y = x, y
        self.flip, self.outer, self.size, self.inner = flip, outer, size, inner
        self.is_float = kind == "f"
        self.item = 1 if kind == "b" else 4
        self.index_bytes = y.shape[0] // max(1, outer * inner)
        if x.shape[0] != outer * size * inner * self.item or y.shape[0] not in (outer * inner * 4, outer * inner * 8):
            raise ValueError("the arrays do not have the sizes given")
        self.fn = <kernel_fn>arg_max


cdef int arg_max(ArgMax self, pl_pool *pool) noexcept nogil:
    if self.y.shape[0]:
        parallel_for(pool, blocks(self.outer, self.inner), max(1, COPY_GRAIN_BYTES // (self.size * BLOCK * self.item)),
                     <pl_range_fn>arg_max_blocks, <void *>self)
    return 0


cdef inline Py_ssize_t blocks(Py_ssize_t outer, Py_ssize_t inner) noexcept nogil:
    """Number of blocks: of neighbouring rows if the axis is the last one, else of neighbouring columns."""
    return (outer + BLOCK - 1) // BLOCK if inner == 1 else outer * ((inner + BLOCK - 1) // BLOCK)


cdef void arg_max_blocks(ArgMax self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t across = (self.inner + BLOCK - 1) // BLOCK
    cdef Py_ssize_t start, first, count, next, i
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef int32_t best[BLOCK]
    while begin < end:
        if self.inner == 1:
            first = begin * BLOCK
            count, next, start = min(BLOCK, self.outer - first), self.size, first * self.size
        else:
            first = begin % across * BLOCK
            count, next, start = min(BLOCK, self.inner - first), 1, begin // across * self.size * self.inner + first
            first += begin // across * self.inner
        x = &self.x[start * self.item]
        y = &self.y[first * self.index_bytes]
        if self.is_float:
            slots.arg_max_f32(self.size, count, self.inner, next, x, self.flip, best)
        elif self.item == 4:
            slots.arg_max_s32(self.size, count, self.inner, next, x, self.flip, best)
        else:
            slots.arg_max_s8(self.size, count, self.inner, next, x, self.flip, best)
        for i in range(count):
            if self.index_bytes == 4:
                (<int32_t *>y)[i] = best[i]
            else:
                (<int64_t *>y)[i] = best[i]
        begin += 1
