# Shared by float recurrent kernels: products with weights of any kind, activations, normalization.
from libc.math cimport INFINITY, sqrtf
from libc.stdint cimport int32_t, uint8_t

from pylite._core.kernels.sequences cimport kept
from pylite._core.product.bytes cimport ColumnBlock, RowBlock, add_sums, set_sizes
from pylite._core.product.division cimport MAX_MR, MAX_NR
from pylite._core.product.product cimport Product
from pylite._core.product.quantized cimport QuantizedRows, quantize_range
from pylite._core.simd cimport pl_a_layout, pl_slots, slots

cdef extern from "<math.h>" nogil:
    int signbit(float x)


cdef enum ActivationKind:
    CLAMP
    TANH
    SIGN_BIT                # 1 for negative numbers, else 0


cdef struct Activation:
    ActivationKind kind
    float bounds[2]         # of CLAMP


cdef struct FloatMatrix:    # weights (columns, depth)
    const char *panels      # NULL: no weights, or a diagonal
    const int32_t *sums     # integer weights: sum of each column; float weights: NULL
    const float *scales     # integer weights: of each column
    const float *diagonal   # the diagonal of a square matrix, or NULL
    Product product         # the sizes


cdef inline void quantize_operand(QuantizedRows *x, ptrdiff_t rows) noexcept nogil:
    """Quantize the first `rows` rows of x, if weights are integers."""
    if x.q != NULL and x.x != NULL:
        quantize_range(x, 0, rows, 0)


cdef inline void add_bytes(const FloatMatrix *w, const QuantizedRows *x, ptrdiff_t row, int rows, ptrdiff_t j, int n,
                           float *y, ptrdiff_t step) noexcept nogil:
    """add_product() with integer weights, for at most MAX_MR rows from `row` on."""
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef RowBlock block = RowBlock(rows, x.q + row * x.depth, x.depth, 0, 0)
    cdef ColumnBlock columns = ColumnBlock(j, n, <const uint8_t *>w.panels, NULL, NULL)
    cdef int r
    add_sums(&w.product, &block, &columns, acc, NULL)
    for r in range(rows):
        w.product.slots.finish_hybrid(n, acc + r * MAX_NR, x.zeros[row + r] + w.product.tile.offset, w.sums + j,
                                      w.scales + j, x.scales[row + r], 0, y + (row + r) * step + j, -INFINITY,
                                      INFINITY, y + (row + r) * step + j)


cdef inline void add_product(const FloatMatrix *w, const QuantizedRows *x, ptrdiff_t rows, ptrdiff_t j, ptrdiff_t nr,
                             float *y, ptrdiff_t step) noexcept nogil:
    """y[r][j to j + nr - 1] += x[r] times these columns of w; y: rows `step` floats apart."""
    cdef ptrdiff_t r = 0, count, i
    cdef int n = <int>min(nr, w.product.columns - j)
    cdef pl_a_layout shape
    cdef const pl_slots *table = w.product.slots
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
            count = min(<ptrdiff_t>table.f32.mr, rows - r)
            table.gemm_f32(<int>count, n, &shape, x.x + r * x.step, <const float *>w.panels + j * w.product.depth,
                           2 if rows == 1 else 0, 0, NULL, -INFINITY, INFINITY, y + r * step + j, step)
            r += count
        return
    while r < rows:
        count = min(<ptrdiff_t>table.q8.mr, rows - r)
        add_bytes(w, x, r, <int>count, j, n, y, step)
        r += count


cdef inline int set_activation(Activation *a, activation) except -1:
    """activation: "TANH", "SIGN_BIT" or (low, high)."""
    if activation == "TANH" or activation == "SIGN_BIT":
        a.kind = TANH if activation == "TANH" else SIGN_BIT
    else:
        a.kind = CLAMP
        a.bounds[0], a.bounds[1] = activation
    return 0


cdef inline void activate(const Activation *a, ptrdiff_t n, const float *x,
                          float *y) noexcept nogil:
    cdef ptrdiff_t i
    if a.kind == TANH:
        slots.tanh_f32(n, x, y, a.bounds)
    elif a.kind == CLAMP:
        slots.clamp_f32(n, x, y, a.bounds)
    else:
        for i in range(n):
            y[i] = 1 if signbit(x[i]) else 0


cdef inline void normalize(ptrdiff_t n, const float *scale, const float *bias, float *x) noexcept nogil:
    """Layer normalization of a row of n elements, in place."""
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


cdef inline int set_float_matrix(FloatMatrix *m, list owners, weights, ptrdiff_t columns, ptrdiff_t depth) except -1:
    """Fill m, and append the owners of its memory to `owners`.

    weights: from recurrent.pack(), a float32 diagonal, or None.
    """
    m.panels, m.sums, m.scales, m.diagonal = NULL, NULL, NULL, NULL
    set_sizes(&m.product, columns, 1, depth)
    if weights is None or columns == 0 or depth == 0:
        return 0
    if hasattr(weights, "dtype"):
        if columns != depth:
            raise ValueError(f"a diagonal does not fit {columns} columns of {depth} weights")
        m.diagonal = <const float *>kept(owners, weights)
        return 0
    panels, sums, scales = weights
    m.panels, m.sums = <const char *>kept(owners, panels), <const int32_t *>kept(owners, sums)
    m.scales = <const float *>kept(owners, scales)
    return 0
