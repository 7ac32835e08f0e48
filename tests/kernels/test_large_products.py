"""Products whose weights do not fit into the second-level cache: all rows are multiplied by some columns at a time."""
import numpy as np
import pytest

from pylite._core.kernels import packing
from pylite._core.kernels.conv_float import ConvF32
from tests.tools.operands import Guarded, output_size, strided, sums, threads


@pytest.mark.parametrize(("size", "c", "k", "filter"), [
    ((9, 9), 1024, 400, (1, 1, 1, 1, 1, 1, 0, 0)), ((14, 14), 256, 301, (3, 3, 2, 2, 1, 1, 0, 0)),
    ((30, 5), 130, 130, (5, 5, 1, 1, 1, 1, 2, 2)), ((1, 40), 2000, 150, (1, 1, 1, 2, 1, 1, 0, 0))])
def test_conv_f32(isa_level, size, c, k, filter):
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, (1, *size, c)).astype(np.float32)      # sums of these are exact
    w = rng.integers(-9, 10, (k, *filter[:2], c)).astype(np.float32)
    bias = rng.integers(-9, 10, k).astype(np.float32)
    want = np.clip(sums(x, w, filter, output_size(size, filter)) + bias, -2000, 40000)
    panels = packing.pack_f32(w)
    for pool, gap in zip(threads(), (0, 1, 12), strict=True):
        y = Guarded(want.shape, np.float32, gap)
        assert ConvF32(strided(x, gap), y.array, panels, bias, filter=filter, limits=(-2000, 40000)).run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, want)
