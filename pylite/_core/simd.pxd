# What the kernels cimport: the micro-kernels of the ISA level in use, the worker pool, deferred packing.
# simd/declarations.py makes the file below from the C headers, when pylite is built.
include "simd_declarations.pxi"


# The dispatch table of the ISA level in use, which use() changes.  Packed weights have the form of one level, so a
# kernel that has some calls the table that it was made for (Product.slots, Layer.slots and others).  Through `slots`,
# kernels that run only call micro-kernels on plain rows.
cdef const pl_slots *slots
cdef pl_unary_fn unary_kernel(str name) except NULL
cdef pl_binary_fn binary_kernel(str name) except NULL
cpdef kernel_parameters(str name, p)
cdef int pool_threads(const pl_pool *pool) noexcept nogil
cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil
cdef void *memory_of(array, Py_ssize_t nbytes) except? NULL
cdef void defer_packing(pl_packing_job *job, ptrdiff_t nbytes, owner, ptrdiff_t copied=*)


cdef class Pool:
    cdef pl_pool *ptr
    cdef object rows        # of record()
