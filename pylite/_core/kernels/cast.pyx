"""Casts between numbers of any two types."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, strcmp

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool


cdef extern from "casts.h" nogil:
    enum:
        PL_CAST_BLOCK
    ctypedef struct pl_cast_type:
        const char *dtype
        int size, is_float
        void (*load)(size_t n, const void *x, void *wide) noexcept nogil
        void (*from_int)(size_t n, const void *wide, void *y) noexcept nogil
        void (*from_float)(size_t n, const void *wide, void *y) noexcept nogil
    const pl_cast_type pl_cast_types[]


cdef struct Job:
    const pl_cast_type *source
    const pl_cast_type *target
    const uint8_t *x
    uint8_t *y
    ptrdiff_t n


cdef class Cast(Kernel):
    """y[i] = x[i] as another type, for n elements; x, y: their bytes, uint8; dtypes by name."""
    cdef Job job
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y

    def __init__(self, str source, str target, ptrdiff_t n, const uint8_t[::1] x, uint8_t[::1] y):
        self.x, self.y = x, y
        self.job.source, self.job.target = find(source), find(target)
        self.job.n = n
        if n:
            self.job.x, self.job.y = &x[0], &y[0]
        self.fn = <kernel_fn>cast


cdef const pl_cast_type *find(str dtype) except NULL:
    cdef const pl_cast_type *row = pl_cast_types
    cdef bytes name = dtype.encode()
    while row.dtype != NULL:
        if strcmp(row.dtype, name) == 0:
            return row
        row += 1
    raise ValueError(f"there is no cast of {dtype}")


cdef int cast(Cast self, pl_pool *pool) noexcept nogil:
    parallel_for(pool, self.job.n, 16384, cast_range, &self.job)
    return 0


cdef void cast_range(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Job *job = <Job *>ctx
    cdef const pl_cast_type *source = job.source
    cdef const pl_cast_type *target = job.target
    cdef double wide[PL_CAST_BLOCK]
    cdef ptrdiff_t count
    if source == target:        # keeps what a wider type would not: imaginary parts, the bits of NaN
        memcpy(job.y + begin * target.size, job.x + begin * source.size, (end - begin) * source.size)
        return
    while begin < end:
        count = min(<ptrdiff_t>PL_CAST_BLOCK, end - begin)
        source.load(count, job.x + begin * source.size, wide)
        if source.is_float:
            target.from_float(count, wide, job.y + begin * target.size)
        else:
            target.from_int(count, wide, job.y + begin * target.size)
        begin += count
