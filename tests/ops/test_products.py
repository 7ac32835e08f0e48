"""Shared parts of convolutions and matrix products: checks of scales, multipliers, ranges."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.ops import products
from pylite.schema.builder import ModelBuilder


def product(w_scale=0.1, axis=0, bias_scale=None, dtype="int8", w_zero=0):
    """An interpreter of FULLY_CONNECTED with 4 columns of depth 3."""
    m, b = ModelBuilder(), -1
    x = m.tensor("x", (2, 3), dtype, 0.5, 0)
    w = m.constant("w", np.ones((4, 3), dtype), w_scale, w_zero, axis)
    if bias_scale is not None:
        b = m.constant("b", np.ones(4, np.int32), bias_scale)
    y = m.tensor("y", (2, 4), dtype, 1.0, 0)
    m.operator("FULLY_CONNECTED", [x, w, b], [y])
    m.inputs([x])
    m.outputs([y])
    return Interpreter(model_content=m.build())


def test_weights_have_one_scale_or_one_per_column():
    product().allocate_tensors()
    product(np.full(4, 0.1)).allocate_tensors()
    with pytest.raises(RuntimeError, match=r"tensor \d+ 'w'.*has 3 scales for 4 output channels"):
        product(np.full(3, 0.1), axis=1).allocate_tensors()


def test_the_bias_has_the_scale_of_the_products():
    product(bias_scale=0.05).allocate_tensors()
    with pytest.raises(RuntimeError, match=r"tensor \d+ 'b'.*its scale is"):
        product(bias_scale=0.5).allocate_tensors()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_an_output_scale_of_0_is_refused(dtype):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 3), dtype, 0.5), m.tensor("y", (1, 4, 4, 4), dtype, 0.0)
    w = m.constant("w", np.ones((4, 1, 1, 3), "uint8" if dtype == "uint8" else "int8"), 0.1)
    m.operator("CONV_2D", [x, w, -1], [y], padding="SAME", stride_w=1, stride_h=1)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"node 0 CONV_2D: tensor \d+ 'y' .*has the scale 0"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_per_channel_scales_are_detected():
    assert not products.varied(np.array([0.5, 0.5]))
    assert products.varied(np.array([0.5, 0.25]))
    assert not products.varied(np.array([0.5]))


def test_one_for_each_channel():
    scales = np.array([0.5], np.float32)
    assert products.per_channel(scales, 3).tolist() == [0.5] * 3
    assert products.per_channel(np.arange(3), 3).tolist() == [0, 1, 2]


def test_a_bias_in_64_bits():
    assert products.finish_s16("MBQM64", None, (), -1, 1) == ("MBQM64", None, (), -1, 1)
    assert products.finish_s16("MBQM64", np.ones(2, np.int32), (), -1, 1)[1].dtype == np.int64
