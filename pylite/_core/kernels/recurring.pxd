# Shared by float recurrent layers: products with weights of any kind, activations, normalization.
from libc.math cimport INFINITY, sqrtf
from libc.stdint cimport int8_t, int32_t, uint8_t
from libc.string cimport memset

from pylite._core.kernels.tasks cimport MAX_MR, MAX_NR, padded
from pylite._core.simd cimport PL_SLACK, pl_a_layout, pl_packed_layout, pl_slots, pl_tile

cdef extern from "<math.h>" nogil:
    int signbit(float x)


cdef enum:
    DEPTH = 1024            # elements of a row of bytes that are multiplied at a time

cdef enum Activation:
    CLAMP
    TANH
    SIGN_BIT


cdef struct Matrix:         # weights (columns, depth), or a diagonal
    const char *panels      # NULL: no weights
    const int32_t *sums     # of the columns of integer weights; else NULL
    const float *scales
    const float *diagonal
    ptrdiff_t columns, depth, deep, wide


cdef struct Operand:        # the rows that they are multiplied by
    const float *x
    ptrdiff_t step, depth   # floats from row to row; of a row
    int8_t *q               # the quantized rows, contiguous
    float *scales
    int32_t *zeros


cdef struct Engine:
    const pl_slots *slots
    int asymmetric


cdef inline void quantize(const Engine *e, Operand *x, ptrdiff_t rows) noexcept nogil:
    """Quantize rows (docs/numerics.md section 4)."""
    if x.q != NULL and x.x != NULL:
        e.slots.quantize_rows(rows, x.depth, x.x, x.step, e.asymmetric, 0, <uint8_t *>x.q, x.scales, x.zeros)


cdef inline void add_bytes(const Engine *e, const Matrix *w, const Operand *x, ptrdiff_t row, int rows, ptrdiff_t j,
                           int n, float *y, ptrdiff_t step) noexcept nogil:
    cdef uint8_t a_panel[2 * MAX_MR * DEPTH + 2 * PL_SLACK]
    cdef pl_a_layout shape
    cdef const uint8_t *src[MAX_MR]
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef const pl_tile *t = &e.slots.q8
    cdef ptrdiff_t k = 0, piece, size, width = min(<ptrdiff_t>t.nr, w.wide - j)
    cdef const char *panel = w.panels + j * w.deep
    cdef int r
    memset(acc, 0, rows * MAX_NR * sizeof(int32_t))
    while k < w.depth:
        piece = min(<ptrdiff_t>DEPTH, w.depth - k)
        size = padded(piece, t.ka)
        for r in range(rows):
            src[r] = <const uint8_t *>x.q + (row + r) * x.depth + k
        e.slots.pack_a_q8(rows, 1, piece, src, 0, a_panel, size)
        shape = pl_packed_layout(size)
        e.slots.gemm_s32(rows, n, &shape, a_panel, panel + k * width, acc, MAX_NR)
        k += piece
    for r in range(rows):
        e.slots.finish_hybrid(n, acc + r * MAX_NR, x.zeros[row + r] + t.offset, w.sums + j, w.scales + j,
                              x.scales[row + r], 0, y + (row + r) * step + j, -INFINITY, INFINITY,
                              y + (row + r) * step + j)


cdef inline void add_product(const Engine *e, const Matrix *w, const Operand *x, ptrdiff_t rows, ptrdiff_t j,
                             ptrdiff_t nr, float *y, ptrdiff_t step) noexcept nogil:
    """y[r][j .. j + nr] += x[r] times those columns of w."""
    cdef ptrdiff_t r = 0, some, i
    cdef int n = <int>min(nr, w.columns - j)
    cdef pl_a_layout shape
    if w.diagonal != NULL:
        for r in range(rows):
            for i in range(j, j + n):
                y[r * step + i] += x.x[r * x.step + i] * w.diagonal[i]
        return
    if w.panels == NULL or x.x == NULL:
        return
    if w.sums == NULL:
        shape.lines, shape.depth, shape.step, shape.pitch = 1, w.depth, x.step, 0
        while r < rows:
            some = min(<ptrdiff_t>e.slots.f32.mr, rows - r)
            e.slots.gemm_f32(<int>some, n, &shape, x.x + r * x.step, <const float *>w.panels + j * w.depth,
                             2 if rows == 1 else 0, 0, NULL, -INFINITY, INFINITY, y + r * step + j, step)
            r += some
        return
    while r < rows:
        some = min(<ptrdiff_t>e.slots.q8.mr, rows - r)
        add_bytes(e, w, x, r, <int>some, j, n, y, step)
        r += some


cdef inline void activate(const pl_slots *slots, Activation kind, const float *bounds, ptrdiff_t n, const float *x,
                          float *y) noexcept nogil:
    cdef ptrdiff_t i
    if kind == TANH:
        slots.tanh_f32(n, x, y, bounds)
    elif kind == CLAMP:
        slots.clamp_f32(n, x, y, bounds)
    else:
        for i in range(n):
            y[i] = 1 if signbit(x[i]) else 0


cdef inline void normalize(ptrdiff_t n, const float *scale, const float *bias, float *x) noexcept nogil:
    """Layer normalization of a row, in place."""
    cdef ptrdiff_t i
    cdef float mean = 0, variance = 0, inverse
    for i in range(n):
        mean += x[i]
    mean /= n
    for i in range(n):
        variance += (x[i] - mean) * (x[i] - mean)
    inverse = 1 / sqrtf(variance / n + <float>1e-8)
    for i in range(n):
        x[i] = (x[i] - mean) * inverse * scale[i] + bias[i]
