# Shared by float recurrent layers: products with weights of any kind, activations, normalization.
from libc.math cimport INFINITY, sqrtf
from libc.stdint cimport int8_t, int32_t, uint8_t

from pylite._core.product.bytes cimport ProductQ8, add_sums, set_sizes
from pylite._core.product.tasks cimport MAX_MR, MAX_NR
from pylite._core.simd cimport pl_a_layout, pl_slots, slots

cdef extern from "<math.h>" nogil:
    int signbit(float x)


cdef enum:
    LOCAL = 4096            # elements of scratch on the stack

cdef enum Activation:
    CLAMP
    TANH
    SIGN_BIT


cdef struct Matrix:         # weights (columns, depth), or a diagonal
    const char *panels      # NULL: no weights
    const int32_t *sums     # of the columns of integer weights; else NULL
    const float *scales
    const float *diagonal
    ProductQ8 product       # the sizes, for integer weights those of their panels


cdef struct Operand:        # the rows that multiply a Matrix
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
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int r
    add_sums(&w.product, <const uint8_t *>x.q + row * x.depth, x.depth, 0, 0, rows, <const uint8_t *>w.panels, j, n,
             acc, NULL)
    for r in range(rows):
        e.slots.finish_hybrid(n, acc + r * MAX_NR, x.zeros[row + r] + e.slots.q8.offset, w.sums + j, w.scales + j,
                              x.scales[row + r], 0, y + (row + r) * step + j, -INFINITY, INFINITY,
                              y + (row + r) * step + j)


cdef inline void add_product(const Engine *e, const Matrix *w, const Operand *x, ptrdiff_t rows, ptrdiff_t j,
                             ptrdiff_t nr, float *y, ptrdiff_t step) noexcept nogil:
    """y[r][j .. j + nr] += x[r] times those columns of w."""
    cdef ptrdiff_t r = 0, some, i
    cdef int n = <int>min(nr, w.product.columns - j)
    cdef pl_a_layout shape
    if w.diagonal != NULL:
        for r in range(rows):
            for i in range(j, j + n):
                y[r * step + i] += x.x[r * x.step + i] * w.diagonal[i]
        return
    if w.panels == NULL or x.x == NULL:
        return
    if w.sums == NULL:
        shape.lines, shape.depth, shape.step, shape.pitch = 1, w.product.depth, x.step, 0
        while r < rows:
            some = min(<ptrdiff_t>e.slots.f32.mr, rows - r)
            e.slots.gemm_f32(<int>some, n, &shape, x.x + r * x.step, <const float *>w.panels + j * w.product.depth,
                             2 if rows == 1 else 0, 0, NULL, -INFINITY, INFINITY, y + r * step + j, step)
            r += some
        return
    while r < rows:
        some = min(<ptrdiff_t>e.slots.q8.mr, rows - r)
        add_bytes(e, w, x, r, <int>some, j, n, y, step)
        r += some


cdef inline void activate(const pl_slots *table, Activation kind, const float *bounds, ptrdiff_t n, const float *x,
                          float *y) noexcept nogil:
    cdef ptrdiff_t i
    if kind == TANH:
        table.tanh_f32(n, x, y, bounds)
    elif kind == CLAMP:
        table.clamp_f32(n, x, y, bounds)
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


cdef inline list set_matrix(Matrix *m, weights, ptrdiff_t columns, ptrdiff_t depth):
    """Point m at weights from pack(), at a diagonal (float32 array) or at NULL; returns objects to keep alive."""
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums
    cdef const float[::1] scales, diagonal
    m.panels, m.sums, m.scales, m.diagonal = NULL, NULL, NULL, NULL
    set_sizes(&m.product, slots, columns, 1, depth)
    if weights is None or columns == 0 or depth == 0:
        return []
    if hasattr(weights, "dtype"):
        diagonal = weights
        m.diagonal = &diagonal[0]
        return [diagonal]
    panels = weights[0].view("uint8")
    m.panels = <const char *>&panels[0]
    if weights[1] is None:
        return [panels]
    sums, scales = weights[1], weights[2]
    m.sums, m.scales = &sums[0], &scales[0]
    return [panels, sums, scales]


cdef inline int check_scratch(scratch, Py_ssize_t size) except -1:
    if (LOCAL if scratch is None else len(scratch)) < size:
        raise ValueError(f"{size} elements of scratch are needed")
    return 0
