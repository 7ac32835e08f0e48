"""Work shared by several threads: bit-identical results for any number of threads, and near numpy's."""
import numpy as np
import pytest

from pylite._core import simd
from pylite.ir import registry
from pylite.schema import load
from pylite.schema.builder import ModelBuilder
from tests.tools import oneop

CASES = {
    "average pool": ("AVERAGE_POOL_2D", (2, 61, 67, 40), None, {"filter_height": 3, "filter_width": 5}),
    "max pool": ("MAX_POOL_2D", (1, 90, 90, 70), None, {"filter_height": 2, "filter_width": 2}),
    "mean over height and width": ("MEAN", (5, 40, 30, 700), [1, 2], {}),
    "mean over the last axis": ("MEAN", (900, 300), [1], {}),
    "sum over alternating axes": ("SUM", (30, 20, 25, 20), [0, 2], {}),
    "maximum of few channels": ("REDUCE_MAX", (40, 50, 60, 3), [1, 2], {}),
    "minimum over the first axis": ("REDUCE_MIN", (50, 7000), [0], {}),
    "softmax": ("SOFTMAX", (600, 100), None, {"beta": 1.0}),
    "log softmax": ("LOG_SOFTMAX", (600, 100), None, {}),
    "l2 normalization": ("L2_NORMALIZATION", (600, 100), None, {}),
    "bilinear": ("RESIZE_BILINEAR", (2, 31, 37, 20), [99, 101], {"half_pixel_centers": True}),
    "bilinear of three channels": ("RESIZE_BILINEAR", (2, 31, 37, 3), [150, 101], {"align_corners": True}),
    "nearest": ("RESIZE_NEAREST_NEIGHBOR", (2, 31, 37, 20), [99, 101], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_results_do_not_depend_on_the_number_of_threads(case):
    name, shape, second, options = CASES[case]
    if name.endswith("POOL_2D"):
        options = {"stride_h": 1, "stride_w": 2, "padding": "SAME"} | options
    m = ModelBuilder()
    inputs = [m.tensor("x", shape)]
    if second:
        inputs.append(m.constant("second", np.array(second, np.int32)))
    y = m.tensor("y", (1,) * len(shape))
    m.operator(name, inputs, [y], **options)
    m.inputs(inputs[:1])
    m.outputs([y])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    model = m.build()
    operands = [x.astype(np.float64)] + ([np.array(second)] if second else [])
    want = registry.find(name).reference(*operands, load(model).subgraphs[0].operators[0].options)
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            one, = oneop.run_pylite(model, [x])
            assert one.shape == want.shape
            assert np.abs(one - want).max() <= 1e-5 * max(np.abs(want).max(), 1e-30)
            for threads in (2, 3, 4):
                more, = oneop.run_pylite(model, [x], threads)
                assert one.tobytes() == more.tobytes()
    finally:
        simd.use(chosen)
