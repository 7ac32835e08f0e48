# build: -O2
"""Fourier transforms of real numbers, and magnitudes of complex numbers."""
import numpy as np

from libc.math cimport hypot
from libc.string cimport memset

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, set_contiguous
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn

cdef enum:
    LOCAL = 4224            # float64 numbers of scratch that fit on the stack

STACK_NUMBERS = LOCAL       # for lowering, which reserves scratch beyond this size


cdef extern from "<math.h>" nogil:
    float hypotf(float x, float y)


cdef class Rfft2d(Kernel):
    """2-D discrete Fourier transform of real images: y[u, v] = sum x[r, c] exp(-2 pi i (u r / height + v c / width)).

    x: (n, rows, columns) float32, cropped or zero-padded to (height, width), which are powers of two; y: (n, height,
    2 * (width / 2 + 1)) float32, pairs of real and imaginary part; scratch: (m, height + max(height, 2), width + 2)
    float64 for m images at a time, None if LOCAL numbers suffice for one.  Computed in float64, as in the reference:
    models take logarithms and small powers of nearly absent frequencies, which magnify rounding errors.
    """
    cdef const float[:, :, ::1] x
    cdef float[:, :, ::1] y
    cdef double[:, :, ::1] scratch
    cdef const double[::1] along_width, along_height, halves
    cdef ptrdiff_t height, width

    def __init__(self, const float[:, :, ::1] x, float[:, :, ::1] y, double[:, :, ::1] scratch, ptrdiff_t height,
                 ptrdiff_t width):
        self.x, self.y, self.scratch, self.height, self.width = x, y, scratch, height, width
        if scratch is None and (height + max(height, 2)) * (width + 2) > LOCAL:
            raise ValueError("scratch is needed")
        self.along_width, self.along_height, self.halves = turns(width // 2), turns(height), turns(width)
        self.subnormals = FLUSH
        if 0 not in y.shape[:3]:
            self.fn = <kernel_fn>rfft2d


def turns(n):
    """exp(-2 pi i k / n) for k below n, pairs of float64."""
    angle = -2 * np.pi * np.arange(n) / max(n, 1)
    return np.stack([np.cos(angle), np.sin(angle)], 1).reshape(-1)


cdef int rfft2d(Rfft2d self, pl_pool *pool) noexcept nogil:
    if self.scratch is None:
        parallel_for(pool, self.y.shape[0], 1, <pl_range_fn>small_images, <void *>self)
    else:
        parallel_for(pool, self.scratch.shape[0], 1, <pl_range_fn>large_images, <void *>self)
    return 0


cdef void small_images(Rfft2d self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef double scratch[LOCAL]
    rfft2d_images(self, begin, end, scratch)


cdef void large_images(Rfft2d self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Transform the images that belong to slices begin to end - 1 of the scratch."""
    cdef ptrdiff_t i, n = self.y.shape[0], slices = self.scratch.shape[0]
    for i in range(begin, end):
        rfft2d_images(self, i * n // slices, (i + 1) * n // slices, &self.scratch[i, 0, 0])


cdef void rfft2d_images(Rfft2d self, ptrdiff_t begin, ptrdiff_t end, double *rows) noexcept nogil:
    """Transform images begin to end - 1.  rows: scratch for `height` spectra, and as much again, but at least two."""
    cdef ptrdiff_t i, r, k, h = self.height, w = self.width, line = 2 * (w // 2 + 1)
    cdef ptrdiff_t rows_present = min(h, self.x.shape[1]), columns = min(w, self.x.shape[2])
    cdef double *scratch_row = rows + h * line
    cdef double *result
    cdef const float *x
    cdef float *y
    for i in range(begin, end):
        for r in range(rows_present):
            x = &self.x[i, r, 0]
            for k in range(columns):
                scratch_row[k] = x[k]
            memset(scratch_row + columns, 0, (w - columns) * sizeof(double))
            real_row(scratch_row, scratch_row + line, w, &self.along_width[0] if w > 1 else NULL, &self.halves[0],
                     rows + r * line)
        memset(rows + rows_present * line, 0, (h - rows_present) * line * sizeof(double))
        result = transform(h, line // 2, &self.along_height[0], rows, scratch_row) if h > 1 else rows
        y = &self.y[i, 0, 0]
        for k in range(h * line):
            y[k] = <float>result[k]


cdef void real_row(double *x, double *scratch, ptrdiff_t n, const double *turn, const double *halves,
                   double *y) noexcept nogil:
    """y = the transform of n real numbers x, computed as one of n / 2 complex numbers; x is overwritten."""
    cdef ptrdiff_t k, here, there, half = n // 2
    cdef double ar, ai, br, bi, sr, si, dr, di
    cdef double *z
    if n == 1:
        y[0], y[1] = x[0], 0
        return
    z = transform(half, 1, turn, x, scratch)
    for k in range(half + 1):
        here, there = 2 * k if k < half else 0, 2 * (half - k) if k else 0
        ar, ai = z[here], z[here + 1]
        br, bi = z[there], -z[there + 1]
        sr, si, dr, di = (ar + br) / 2, (ai + bi) / 2, (ar - br) / 2, (ai - bi) / 2
        if k == half:
            br, bi = -1, 0
        else:
            br, bi = halves[2 * k], halves[2 * k + 1]
        y[2 * k] = sr + br * di + bi * dr
        y[2 * k + 1] = si + bi * di - br * dr


cdef double *transform(ptrdiff_t n, ptrdiff_t each, const double *turn, double *a, double *b) noexcept nogil:
    """Transform `each` interleaved series of n complex numbers; returns a or b, whichever holds the result.

    a: the series; b: as much scratch; both are overwritten.  turn: turns(n).
    This is Stockham's algorithm with radix 4 (and 2 in the last step), which needs no bit reversal.
    """
    cdef ptrdiff_t groups = n // 4, m = each, j, k
    cdef double re, im, re2, im2, re3, im3, dr, di, sr, si, tr, ti, ur, ui
    cdef double *p
    cdef double *q
    cdef double *r
    cdef double *s
    cdef double *to
    while groups >= 1:
        for j in range(groups):
            k = 2 * j * (m // each)
            re, im, re2, im2 = turn[k], turn[k + 1], turn[2 * k], turn[2 * k + 1]
            re3, im3 = turn[3 * k], turn[3 * k + 1]
            p, to = a + 2 * j * m, b + 8 * j * m
            q, r, s = p + 2 * groups * m, p + 4 * groups * m, p + 6 * groups * m
            for k in range(0, 2 * m, 2):
                sr, si, dr, di = p[k] + r[k], p[k + 1] + r[k + 1], p[k] - r[k], p[k + 1] - r[k + 1]
                tr, ti, ur, ui = q[k] + s[k], q[k + 1] + s[k + 1], q[k + 1] - s[k + 1], s[k] - q[k]
                to[k], to[k + 1] = sr + tr, si + ti
                sr, si, tr, ti = sr - tr, si - ti, dr + ur, di + ui
                dr, di = dr - ur, di - ui
                to[2 * m + k], to[2 * m + k + 1] = tr * re - ti * im, tr * im + ti * re
                to[4 * m + k], to[4 * m + k + 1] = sr * re2 - si * im2, sr * im2 + si * re2
                to[6 * m + k], to[6 * m + k + 1] = dr * re3 - di * im3, dr * im3 + di * re3
        a, b = b, a
        groups, m = groups // 4, m * 4
    if m < n * each:
        p, q = a, a + 2 * m
        for k in range(2 * m):
            b[k], b[2 * m + k] = p[k] + q[k], p[k] - q[k]
        a = b
    return a


cdef class Abs(Kernel):
    """Magnitudes of complex numbers.  x: (2 n,), pairs of real and imaginary part; y: (n,); both float32 or float64."""
    cdef Strided x, y

    def __init__(self, x, y):
        set_contiguous(&self.x, x, 1, 0, False)
        set_contiguous(&self.y, y, 1, self.x.item, True)
        self.memory, self.fn = (x, y), <kernel_fn>magnitudes


cdef int magnitudes(Abs self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t i
    cdef const float *x = <const float *>self.x.data
    cdef const double *x64 = <const double *>self.x.data
    for i in range(self.y.shape[0]):
        if self.x.item == 4:
            (<float *>self.y.data)[i] = hypotf(x[2 * i], x[2 * i + 1])
        else:
            (<double *>self.y.data)[i] = hypot(x64[2 * i], x64[2 * i + 1])
    return 0
