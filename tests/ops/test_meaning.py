"""Quantized results against the ops' float references, within a step or two of the output's scale."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pylite.ir import registry
from pylite.numerics.quantization import LIMITS
from pylite.schema import load
from pylite.schema.builder import ModelBuilder
from tests.ops import draw
from tests.tools import oneop

POOL = {"padding": "SAME", "stride_h": 2, "stride_w": 1, "filter_height": 3, "filter_width": 2}
SOFTMAX = {"int8": (2.0**-8, -128), "uint8": (2.0**-8, 0), "int16": (2.0**-15, 0)}
LOG_SOFTMAX = {"int8": (2.0**-4, 127), "uint8": (2.0**-4, 255)}
L2 = {"int8": (2.0**-7, 0), "uint8": (2.0**-7, 128)}

# op: (dimensions, second input or None, options, output quantization or "same" or "free", types, steps)
# WIDER: steps allowed in 16 bits, where the arithmetic uses tables or coarse positions.
WIDER = {("SOFTMAX", "int16"): 20, ("RESIZE_BILINEAR", "int16"): 600}
CASES = {
    "AVERAGE_POOL_2D": (4, None, POOL, "same", "int8 uint8 int16", 1),
    "MAX_POOL_2D": (4, None, POOL | {"fused_activation_function": "RELU6"}, "same", "int8 uint8 int16", 1),
    "MEAN": (4, [1, 2], {"keep_dims": True}, "free", "int8 uint8 int16", 1),
    "SUM": (3, [-1], {}, "free", "int8 uint8 int16", 1),
    "REDUCE_MAX": (3, [0, 2], {}, "same", "int8 uint8 int16", 0),
    "REDUCE_MIN": (3, [1], {}, "same", "int8 uint8 int16", 0),
    "SOFTMAX": (2, None, {"beta": 1.0}, SOFTMAX, "int8 uint8 int16", 1),
    "LOG_SOFTMAX": (2, None, {}, LOG_SOFTMAX, "int8 uint8", 1),
    "L2_NORMALIZATION": (2, None, {}, L2, "int8 uint8", 1),
    "RESIZE_BILINEAR": (4, [7, 9], {"half_pixel_centers": True}, "same", "int8 uint8 int16", 2),
    "RESIZE_NEAREST_NEIGHBOR": (4, [7, 9], {"align_corners": True}, "same", "int8 uint8 int16", 0),
}


@pytest.mark.parametrize(("name", "dtype"), [(n, t) for n, c in CASES.items() for t in c[4].split()])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=19034)
def test_quantized_results_are_near_the_reference(name, dtype, seed):
    rank, second, options, output, _, steps = CASES[name]
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, rank))
    x_quantization = draw.mild_quantization(rng, dtype)
    if isinstance(output, dict):
        y_scale, y_zero_point = output[dtype]
    elif output == "same":
        y_scale, y_zero_point = x_quantization.values()
    else:
        y_scale, y_zero_point = draw.mild_quantization(rng, dtype).values()
    m = ModelBuilder()
    inputs = [m.tensor("x", shape, dtype, **x_quantization)]
    if second:
        inputs.append(m.constant("second", np.array(second, np.int32)))
    y = m.tensor("y", (1,) * rank, dtype, y_scale, y_zero_point)
    m.operator(name, inputs, [y], **options)
    m.inputs(inputs[:1])
    m.outputs([y])
    model = m.build()
    x = draw.values(rng, shape, dtype)
    got, = oneop.run_pylite(model, [x])

    real = (x.astype(np.float64) - x_quantization["zero_point"]) * x_quantization["scale"]
    real_options = load(model).subgraphs[0].operators[0].options
    want = registry.find(name).reference(real, *([np.array(second)] if second else []), real_options)
    want = np.clip(want / float(np.float32(y_scale)) + y_zero_point, *LIMITS[dtype])
    assert got.shape == want.shape
    if name == "LOG_SOFTMAX":       # the reference gives the lowest value from 15.5 below the maximum on
        want = np.where((want < LIMITS[dtype][0] + 8) & (got == LIMITS[dtype][0]), got, want)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=WIDER.get((name, dtype), steps) + 0.01)
