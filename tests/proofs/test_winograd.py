"""Winograd's F(4x4, 3x3) in 8 bits (_core/simd/x86/winograd_avx512vnni.c): exact for every filter and every image.

Sums of channels are sums of such results, so that one channel is enough.
"""
import re
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parents[2] / "pylite" / "_core" / "simd" / "x86" / "winograd_avx512vnni.c"
WORD = 2**32


def matrices():
    """B^T, G and A^T as the file's first comment states them."""
    comment = SOURCE.read_text().split("*/")[0]
    table = re.sub(r"[BGA]\^?T? =|which is|\d+ y\[\d\]", "", comment.split("where\n")[1].split("Sums wrap")[0])
    rows = [row for row in ([int(n) for n in re.findall(r"-?\d+", line)] for line in table.splitlines()) if row]
    b = np.array([row[:6] for row in rows])
    g = np.array([row[6:9] for row in rows])
    a = np.array([row[9:15] for row in rows[:4]])
    return b, g, a


def test_the_results_are_those_of_the_convolution_times_known_factors():
    """Both sides are linear in the filter and in the image: all pairs of unit filters and unit images suffice."""
    b, g, a = matrices()
    assert (b.shape, g.shape, a.shape) == ((6, 6), (6, 3), (4, 6))
    factors = np.array([24, 12, 6, 6])
    for i in range(9):
        w = np.zeros(9, int)
        w[i] = 1
        w = w.reshape(3, 3)
        points_w = g @ w @ g.T
        for j in range(36):
            d = np.zeros(36, int)
            d[j] = 1
            d = d.reshape(6, 6)
            y = np.array([[(d[r:r + 3, c:c + 3] * w).sum() for c in range(4)] for r in range(4)])
            np.testing.assert_array_equal(a @ (points_w * (b @ d @ b.T)) @ a.T, y * np.outer(factors, factors))


def test_points_fit_into_16_bits():
    """Of images between -128 and 127 (the sums before the last step, too), and of filters."""
    b, g, _ = matrices()
    of_image, of_filter = np.abs(b).sum(1), np.abs(g).sum(1)
    assert np.outer(of_image, of_image).max() * 128 + 36 * 128 < 2**15
    assert np.outer(of_filter, of_filter).max() * 128 < 2**15


@pytest.mark.parametrize("factor", sorted({int(p * q) for p in (24, 12, 6, 6) for q in (24, 12, 6, 6)}))
def test_the_factor_is_undone_modulo_2_to_the_32(factor):
    """y f is known modulo 2^32; an inverse of 9 and a shift give back every y below 2^25."""
    z3 = pytest.importorskip("z3")
    power = (factor // 9).bit_length() - 1
    assert factor == 9 << power and power <= 6
    y = z3.BitVec("y", 32)
    inverse = pow(9, -1, WORD)
    solver = z3.Solver()
    solver.add(y > -(2**25), y < 2**25, (y * factor * inverse) >> power != y)
    assert solver.check() == z3.unsat
