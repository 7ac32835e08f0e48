# The rest of recurrent_integer.pyx: LSTM gates in 8 bits, whose normalization and activations are computed in float32.
cdef void set_middle(Gate *g, given):
    """given: (zero point, m, e) of the sums of the input, the same of the state, and the normalization's scale."""
    x, h, scale = given
    g.from_input.zero, g.from_input.m, g.from_input.e = x
    g.from_recurrent.zero, g.from_recurrent.m, g.from_recurrent.e = h
    g.norm_scale = scale


cdef void narrow_sums(const Layer *s, const Gate *g, ptrdiff_t row, int rows, ptrdiff_t j, int n, int32_t *acc,
                      int16_t *y) noexcept nogil:
    """The sums of `rows` rows for cells j .. j + n of a gate; y: the first of them, rows s.cells apart."""
    cdef int32_t sums[MAX_MR * MAX_NR]
    cdef int r, k
    memset(sums, 0, rows * MAX_NR * sizeof(int32_t))
    multiply(s.slots, &g.input, <const int8_t *>s.x + row * s.x_row, s.x_row, rows, j, n, 0, acc, NULL)
    add_middle(&g.input, &g.from_input, rows, j, n, acc, sums)
    multiply(s.slots, &g.recurrent, s.h + row * s.outputs, s.outputs, rows, j, n, 0, acc, NULL)
    add_middle(&g.recurrent, &g.from_recurrent, rows, j, n, acc, sums)
    for r in range(rows):
        for k in range(n):
            y[r * s.cells + k] = <int16_t>pl_sat16(sums[r * MAX_NR + k])


cdef void add_middle(const Matrix *w, const Middle *m, int rows, ptrdiff_t j, int n, const int32_t *acc,
                     int32_t *sums) noexcept nogil:
    cdef int r, k
    cdef int32_t v
    for r in range(rows * MAX_NR):
        k = r % MAX_NR
        if k < n:
            v = pl_clamp32(pl_mbqm32(acc[r] + w.bias[j + k], w.m, w.e) + m.zero, -128, 127)
            sums[r] += pl_mbqm32(v - m.zero, m.m, m.e)


cdef void narrow_gate(const Layer *s, const Gate *g, int which, int16_t *x) noexcept nogil:
    """Normalization and activation of a gate, in place."""
    cdef ptrdiff_t r
    for r in range(s.rows):
        normalize(s.cells, g, x + r * s.cells)
    for r in range(s.rows * s.cells):
        x[r] = <int16_t>(pl_tanh_scaled(x[r], 1.0 / 4096) if which == 2 else pl_logistic_q12(x[r]))


cdef void normalize(ptrdiff_t n, const Gate *g, int16_t *x) noexcept nogil:
    """Layer normalization of a row, in the order and the width of the reference's steps."""
    cdef float bias_scale = g.norm_scale / 1024, sum = 0, squares = 0, inverse = 10000
    cdef float mean, variance, v
    cdef ptrdiff_t i
    for i in range(n):
        v = x[i]
        sum += v
        squares += v * v
    mean = sum / n
    variance = squares / n - mean * mean
    if variance != 0:
        inverse = 1 / sqrtf(variance)       # NaN of a negative variance, which gives 0 below
    for i in range(n):
        v = ((x[i] - mean) * inverse * g.norm[i] * g.norm_scale + g.norm_bias[i] * bias_scale) * 4096
        x[i] = <int16_t>pl_round_away32(max(<float>-32768, min(<float>32767, v))) if v == v else 0


cdef void narrow_output(Layer *s, const int16_t *o) noexcept nogil:
    """The state from the output gate and the cells.  The input of a projection has 16 bits, multiplied byte by byte."""
    cdef int32_t high[MAX_MR * MAX_NR]
    cdef int32_t low[MAX_MR * MAX_NR]
    cdef const Matrix *w = &s.projection
    cdef int8_t *lower = s.hidden + s.rows * s.cells
    cdef ptrdiff_t i, row = 0, j
    cdef int32_t v
    cdef int64_t sum
    cdef int r, k, n, rows
    for i in range(s.rows * s.cells):
        v = pl_rdbpot(o[i] * pl_tanh_scaled(s.c[i], 1.0 / 32768), 15)      # tanh is below 0.77: the high byte fits
        lower[i] = <int8_t>v
        s.hidden[i] = <int8_t>((v - lower[i]) >> 8)
    while row < s.rows:
        rows = <int>min(<ptrdiff_t>s.slots.q8.mr, s.rows - row)
        j = 0
        while j < s.outputs:
            n = <int>min(most_columns(s.slots), s.outputs - j)
            multiply(s.slots, w, s.hidden + row * s.cells, s.cells, rows, j, n, 0, high, NULL)
            multiply(s.slots, w, lower + row * s.cells, s.cells, rows, j, n, 0, low, NULL)
            for r in range(rows):
                for k in range(n):
                    i = r * MAX_NR + k
                    sum = s.projection_bias[j + k] if s.projection_bias != NULL else 0
                    sum += <int64_t>(high[i] + w.bias[j + k]) * 256 + (low[i] + w.bias[j + k])
                    v = pl_clamp32(pl_mbqm64(sum, pl_multiplier16(w.m), w.e) + s.h_zero, -128, 127)
                    if s.projection_clip > 0:
                        v = pl_clamp32(v, -s.projection_clip, s.projection_clip)
                    s.h[(row + r) * s.outputs + j + k] = <int8_t>v
            j += n
        row += rows
