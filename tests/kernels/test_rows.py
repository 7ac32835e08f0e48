"""Functions of rows: a row has the same results wherever a thread's range of rows begins and ends."""
import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels.softmax import RowsF32


def computed(x, function, beta):
    y = np.empty_like(x)
    RowsF32(x, y, function, beta).run()
    return y


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "l2_normalize"])
@pytest.mark.parametrize("level", simd.available())
def test_a_row_does_not_depend_on_the_others(level, function):
    before = simd.current
    simd.use(level)
    try:
        for n in [*range(1, 36), 63, 64, 65, 300]:
            x = np.random.default_rng(n).normal(size=(37, n)).astype(np.float32)
            for beta in (1.0, 0.0, -0.5) if function == "softmax" else (1.0,):
                together = computed(x, function, beta)
                alone = [computed(x[i:i + 1].copy(), function, beta) for i in range(len(x))]
                np.testing.assert_array_equal(together.view(np.int32), np.concatenate(alone).view(np.int32))
                if beta == 0.0:
                    np.testing.assert_allclose(together, 1 / n, rtol=1e-6)
    finally:
        simd.use(before)


def test_rows_in_place():
    x = np.random.default_rng(0).normal(size=(9, 19)).astype(np.float32)
    want, y = computed(x, "softmax", 1.0), x.copy()
    RowsF32(y, y, "softmax", 1.0).run()
    np.testing.assert_array_equal(y, want)
