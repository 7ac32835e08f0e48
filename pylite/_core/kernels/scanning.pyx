"""Kernels that go along an axis in order, or along a stream of random bits."""
from libc.math cimport exp, isfinite, sqrtf
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn


cdef extern from "scanning.h" nogil:
    ctypedef struct pl_ranked:
        int64_t key, index
    void pl_cumsum(int type, size_t n, size_t inner, ptrdiff_t step, bint exclusive, const void *x, void *y)
    void pl_top_k(int type, size_t n, size_t k, const void *x, pl_ranked *heap)
    void pl_local_response(size_t n, ptrdiff_t radius, float bias, float alpha, float beta, const float *x, float *y)
    void pl_philox(const uint32_t *key, const uint32_t *counter, uint32_t *out)
    void pl_threefry(const uint32_t *key, const uint32_t *counter, uint32_t *out)
    void pl_skip(uint32_t *counter, uint64_t count)
    float pl_unit_f32(uint32_t bits)
    double pl_unit_f64(uint32_t high, uint32_t low)
    void pl_normal(uint32_t a, uint32_t b, float *out)

SUMS = {"float32": 0, "int32": 1, "int64": 2}
KEYS = {"float32": 0, "int8": 1, "uint8": 2, "int16": 3, "int32": 4, "int64": 5}


# ---- along an axis -----------------------------------------------------------------------------------------
cdef class CumSum(Kernel):
    """y[o, i, j] = the sum of x[o, k, j] for k <= i, or k < i if `exclusive`; from the end if `reverse`.

    shape: (outer, n, inner); x, y: bytes.
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef Py_ssize_t outer, n, inner, item
    cdef int type
    cdef bint exclusive, reverse

    def __init__(self, str dtype, tuple shape, const uint8_t[::1] x, uint8_t[::1] y, bint exclusive, bint reverse):
        self.x, self.y, self.exclusive, self.reverse = x, y, exclusive, reverse
        self.outer, self.n, self.inner = shape
        self.type, self.item = SUMS[dtype], 8 if dtype == "int64" else 4
        self.fn = <kernel_fn>cumsum


cdef int cumsum(CumSum self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i, at, step = self.inner
    if self.x.shape[0] == 0:
        return 0
    for i in range(self.outer):
        at = i * self.n * self.inner
        if self.reverse:
            at += (self.n - 1) * self.inner
        pl_cumsum(self.type, self.n, self.inner, -step if self.reverse else step, self.exclusive,
                  &self.x[0] + at * self.item, &self.y[0] + at * self.item)
    return 0


cdef class TopK(Kernel):
    """The k largest elements of each row of x, in falling order, and their indices; of equals the first comes first.

    x, values, indices: bytes; rows, n: x's shape; width: bytes of an index; heap: (k, 2) int64.
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] values, indices
    cdef int64_t[:, ::1] heap
    cdef Py_ssize_t rows, n, k, item, width
    cdef int type

    def __init__(self, str dtype, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t k, Py_ssize_t item, Py_ssize_t width,
                 const uint8_t[::1] x, uint8_t[::1] values, uint8_t[::1] indices, int64_t[:, ::1] heap):
        self.x, self.values, self.indices, self.heap = x, values, indices, heap
        self.rows, self.n, self.k, self.item, self.width, self.type = rows, n, k, item, width, KEYS[dtype]
        self.fn = <kernel_fn>top_k


cdef int top_k(TopK self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t row, i
    cdef const uint8_t *x
    cdef pl_ranked *heap
    if self.values.shape[0] == 0:
        return 0
    heap = <pl_ranked *>&self.heap[0, 0]
    for row in range(self.rows):
        x = &self.x[0] + row * self.n * self.item
        pl_top_k(self.type, self.n, self.k, x, heap)
        for i in range(self.k):
            memcpy(&self.values[0] + (row * self.k + i) * self.item, x + heap[i].index * self.item, self.item)
            if self.width == 2:
                (<int16_t *>&self.indices[0])[row * self.k + i] = <int16_t>heap[i].index
            else:
                (<int32_t *>&self.indices[0])[row * self.k + i] = <int32_t>heap[i].index
    return 0


cdef class LocalResponse(Kernel):
    """y = x / (bias + alpha s)^beta, s: the sum of squares of 2 radius + 1 neighbouring channels.  (rows, n)."""
    cdef const float[:, ::1] x
    cdef float[:, ::1] y
    cdef Py_ssize_t radius
    cdef float bias, alpha, beta

    def __init__(self, const float[:, ::1] x, float[:, ::1] y, Py_ssize_t radius, float bias, float alpha, float beta):
        self.x, self.y, self.radius, self.bias, self.alpha, self.beta = x, y, radius, bias, alpha, beta
        self.fn = <kernel_fn>local_response


cdef int local_response(LocalResponse self, pl_pool *pool) noexcept nogil:
    if self.x.shape[1]:
        parallel_for(pool, self.x.shape[0], 1 + 2048 // self.x.shape[1], <pl_range_fn>local_rows, <void *>self)
    return 0


cdef void local_rows(LocalResponse self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        pl_local_response(self.x.shape[1], self.radius, self.bias, self.alpha, self.beta, &self.x[i, 0], &self.y[i, 0])


cdef class ReverseSequence(Kernel):
    """y[o, p, m, q, i] = x with the first lengths[b] elements along one of the axes p and q turned round, b being the
    index along the other.

    shape: (outer, p, middle, q, inner bytes); first: p is the one that is turned round; width: bytes of a length.
    """
    ERRORS = {1: "a length is negative or longer than the axis that is reversed"}
    cdef const uint8_t[::1] x, lengths
    cdef uint8_t[::1] y
    cdef Py_ssize_t outer, p, middle, q, inner, width
    cdef bint first

    def __init__(self, tuple shape, bint first, Py_ssize_t width, const uint8_t[::1] x, const uint8_t[::1] lengths,
                 uint8_t[::1] y):
        self.outer, self.p, self.middle, self.q, self.inner = shape
        self.first, self.width, self.x, self.lengths, self.y = first, width, x, lengths, y
        self.fn = <kernel_fn>reverse_sequence


cdef int reverse_sequence(ReverseSequence self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t o, p, m, q, p_from, q_from, row
    cdef int64_t length
    if self.x.shape[0] == 0:
        return 0
    for o in range(self.outer):
        for p in range(self.p):
            for m in range(self.middle):
                for q in range(self.q):
                    if self.width == 4:
                        length = (<const int32_t *>&self.lengths[0])[q if self.first else p]
                    else:
                        length = (<const int64_t *>&self.lengths[0])[q if self.first else p]
                    if length < 0 or length > (self.p if self.first else self.q):
                        return 1
                    p_from = length - 1 - p if self.first and p < length else p
                    q_from = length - 1 - q if not self.first and q < length else q
                    row = o * self.p
                    memcpy(&self.y[0] + (((row + p) * self.middle + m) * self.q + q) * self.inner,
                           &self.x[0] + (((row + p_from) * self.middle + m) * self.q + q_from) * self.inner, self.inner)
    return 0


# ---- random numbers ----------------------------------------------------------------------------------------
cdef class Uniform(Kernel):
    """y: float32 in [0, 1), or with `normal` of the standard normal distribution.

    state: (6,) uint32, key and counter of Philox, which go on from run to run.
    """
    cdef uint32_t[::1] state
    cdef float[::1] y
    cdef bint normal

    def __init__(self, uint32_t[::1] state, float[::1] y, bint normal):
        self.state, self.y, self.normal = state, y, normal
        self.fn = <kernel_fn>uniform


cdef int uniform(Uniform self, pl_pool *pool) noexcept nogil:
    cdef uint32_t bits[4]
    cdef float pair[2]
    cdef Py_ssize_t i, j, n = self.y.shape[0]
    for i in range(0, n, 4):
        pl_philox(&self.state[0], &self.state[2], bits)
        pl_skip(&self.state[2], 1)
        for j in range(min(<Py_ssize_t>4, n - i)):
            if not self.normal:
                self.y[i + j] = pl_unit_f32(bits[j])
            else:
                if j % 2 == 0:
                    pl_normal(bits[j], bits[j + 1], pair)
                self.y[i + j] = pair[j % 2]
    return 0


cdef class Multinomial(Kernel):
    """y[b, i] = a class drawn with the probabilities whose logarithms are logits[b], up to a constant.

    state: as for Uniform; logits: (batches, classes) float32; y: (batches, samples) as bytes, of int32 or int64;
    sums: (classes,) float64.
    """
    cdef uint32_t[::1] state
    cdef const float[:, ::1] logits
    cdef uint8_t[::1] y
    cdef double[::1] sums
    cdef Py_ssize_t samples
    cdef bint wide

    def __init__(self, uint32_t[::1] state, const float[:, ::1] logits, uint8_t[::1] y, double[::1] sums,
                 Py_ssize_t samples, bint wide):
        self.state = state
        self.logits, self.y, self.sums, self.samples, self.wide = logits, y, sums, samples, wide
        self.fn = <kernel_fn>multinomial


cdef int multinomial(Multinomial self, pl_pool *pool) noexcept nogil:
    cdef uint32_t counter[4]
    cdef uint32_t bits[4]
    cdef Py_ssize_t b, i, used = 4, classes = self.logits.shape[1], low, high, middle
    cdef double total, wanted, most
    memcpy(counter, &self.state[2], sizeof(counter))
    pl_skip(&self.state[2], <uint64_t>self.logits.shape[0] * ((self.samples + 3) // 4 * 4) * 2 * 256)
    for b in range(self.logits.shape[0]):
        most = -3.4028234663852886e38
        for i in range(classes):
            if isfinite(self.logits[b, i]) and self.logits[b, i] > most:
                most = self.logits[b, i]
        total = 0
        for i in range(classes):
            if isfinite(self.logits[b, i]):
                total += exp(self.logits[b, i] - most)
            self.sums[i] = total
        for i in range(self.samples):
            if used == 4:
                pl_philox(&self.state[0], counter, bits)
                pl_skip(counter, 1)
                used = 0
            wanted = pl_unit_f64(bits[used], bits[used + 1]) * total
            used += 2
            low, high = 0, classes
            while low < high:
                middle = (low + high) // 2
                if wanted < self.sums[middle]:
                    high = middle
                else:
                    low = middle + 1
            if self.wide:
                (<int64_t *>&self.y[0])[b * self.samples + i] = low
            else:
                (<int32_t *>&self.y[0])[b * self.samples + i] = <int32_t>low
    return 0


cdef class RandomBits(Kernel):
    """bits: uint32 that follow from the state, which goes on in `later`; state, later: 4 or 6 uint32."""
    cdef const uint32_t[::1] state
    cdef uint32_t[::1] later, bits
    cdef bint threefry

    def __init__(self, const uint32_t[::1] state, uint32_t[::1] later, uint32_t[::1] bits, bint threefry):
        self.state, self.later, self.bits, self.threefry = state, later, bits, threefry
        self.fn = <kernel_fn>random_bits


cdef int random_bits(RandomBits self, pl_pool *pool) noexcept nogil:
    cdef uint32_t key[2]
    cdef uint32_t counter[4]
    cdef uint32_t out[4]
    cdef Py_ssize_t i, j, width = 2 if self.threefry else 4, n = self.bits.shape[0]
    key[0], key[1], counter[0], counter[1] = self.state[0], self.state[1], self.state[2], self.state[3]
    i = 4 if self.state.shape[0] == 6 else 0
    counter[2], counter[3] = self.state[i], self.state[i + 1]
    for i in range(self.state.shape[0]):
        self.later[i] = self.state[i]
    i = 0
    while i < n:
        if self.threefry:
            pl_threefry(key, counter, out)
        else:
            pl_philox(key, counter, out)
        for j in range(min(width, n - i)):
            self.bits[i + j] = out[j]
        i += width
        counter[0] += 1
        if counter[0] == 0:
            counter[1] += 1
    self.later[2], self.later[3] = counter[0], counter[1]
    return 0


# ---- sound, and rotations ------------------------------------------------------------------------------------
cdef class Project(Kernel):
    """y[r, j] = sum w[j, i] x[r, i], added up in float64.  x: (rows, n), y: (rows, m) float32; w: (m, n) float64."""
    cdef const float[:, ::1] x
    cdef const double[:, ::1] w
    cdef float[:, ::1] y

    def __init__(self, const float[:, ::1] x, const double[:, ::1] w, float[:, ::1] y):
        self.x, self.w, self.y = x, w, y
        self.fn = <kernel_fn>project


cdef int project(Project self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t r, i, j
    cdef double total
    for r in range(self.y.shape[0]):
        for j in range(self.y.shape[1]):
            total = 0
            for i in range(self.w.shape[1]):
                total += self.w[j, i] * self.x[r, i]
            self.y[r, j] = <float>total
    return 0


cdef class Hadamard(Kernel):
    """Each row of y by the Hadamard matrix of its length n, a power of two, over sqrt(n).  y: (rows, n) float32."""
    cdef float[:, ::1] y

    def __init__(self, float[:, ::1] y):
        self.y = y
        self.fn = <kernel_fn>hadamard


cdef int hadamard(Hadamard self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t r, i, j, half, n = self.y.shape[1]
    cdef float a, b, share = 1 / sqrtf(<float>n)
    cdef float *row
    for r in range(self.y.shape[0]):
        row = &self.y[r, 0]
        half = 1
        while half < n:
            i = 0
            while i < n:
                for j in range(i, i + half):
                    a, b = row[j], row[j + half]
                    row[j], row[j + half] = a + b, a - b
                i += 2 * half
            half *= 2
        for j in range(n):
            row[j] *= share
    return 0


cdef class RequireWithin(Kernel):
    """Fails when the magnitude of an element of x, float32, is above `most`."""
    ERRORS = {1: "a difference is larger than the tolerance"}
    cdef const float[::1] x
    cdef float most

    def __init__(self, const float[::1] x, float most):
        self.x, self.most = x, most
        self.fn = <kernel_fn>require_within


cdef int require_within(RequireWithin self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(self.x.shape[0]):
        if self.x[i] > self.most or self.x[i] < -self.most:
            return 1
    return 0
