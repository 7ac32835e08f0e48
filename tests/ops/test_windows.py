"""CONV_2D in groups of float32 images and integer weights, and of images whose lines count as pixels."""
import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.ops.convolving import KINDS, finish, operands
from tests.tools.graphs import lowered
from tests.tools.oneop import check, differential, run_peer
from tests.tools.resources import peer


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("c", [1, 2, 3, 8])
@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (2, 5)])
def test_images_have_a_zero_point_whether_scales_differ_or_not(taps, c, same):
    """Without groups, equal scales count as one, and images have no zero point."""
    peer()
    groups, k, rng = 4, 5, np.random.default_rng(c)
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 9, 7, groups * c), "float32"), m.tensor("y", (1, 5, 4, groups * k), "float32")
    scales = [0.01] * (groups * k) if same else rng.uniform(0.005, 0.02, groups * k)
    weights = rng.integers(-127, 128, (groups * k, *taps, c)).astype(np.int8)
    w = m.constant("w", weights, list(scales), [0] * len(scales))
    b = m.constant("b", rng.normal(size=groups * k).astype(np.float32))
    m.operator("CONV_2D", [x, w, b], [y], padding="SAME", stride_h=2, stride_w=2)
    m.inputs([x])
    m.outputs([y])
    data = [rng.normal(size=(1, 9, 7, groups * c)).astype(np.float32)]
    check(m.build(), data, run_peer(m.build(), data), f"{taps}, {c} channels")


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@pytest.mark.parametrize("scales", [1, 6])
@pytest.mark.parametrize(("width", "taps", "stride"), [
    (1, (3, 3), 1), (2, (4, 1), 2), (3, (3, 5), 1), (4, (5, 2), 2), (6, (3, 4), 1)])
def test_lines_count_as_pixels(width, taps, stride, scales, dtype):
    peer()
    rng, high = np.random.default_rng(width), 7 if dtype == "int4" else 127
    m = ModelBuilder()
    size = 2, -(-19 // stride), -(-width // stride), 6
    x, y = m.tensor("x", (2, 19, width, 5), "float32"), m.tensor("y", size, "float32")
    weights = rng.integers(-high, high, (6, *taps, 5)).astype(np.int8)
    w = m.constant("w", weights, rng.uniform(0.005, 0.02, scales), np.zeros(scales, np.int64), dtype=dtype)
    b = m.constant("b", rng.normal(size=6).astype(np.float32))
    m.operator("CONV_2D", [x, w, b], [y], padding="SAME", stride_h=stride, stride_w=stride)
    m.inputs([x])
    m.outputs([y])
    data = [rng.normal(size=(2, 19, width, 5)).astype(np.float32)]
    check(m.build(), data, run_peer(m.build(), data), f"width {width}, {taps}, {scales} scales")


def narrow(m, rng, kind, depthwise):
    """A convolution of images of one line or one column, under filters of more."""
    size, taps = [int(rng.integers(1, 3)), int(rng.integers(1, 24))], rng.integers(1, 6, 2).tolist()
    stride, c = rng.integers(1, 3, 2).tolist(), int(rng.choice([1, 3, 4, 8, 20]))
    dilation = rng.integers(1, 4, 2).tolist() if stride == [1, 1] and kind != "hybrid" else [1, 1]
    if rng.random() < 0.5:
        size.reverse()
    k = c * int(rng.choice([1, 1, 2])) if depthwise else int(rng.choice([1, 4, 5, 16]))
    out = [-(-n // step) for n, step in zip(size, stride, strict=True)]
    shape, axis = ((1, *taps, k), 3) if depthwise else ((k, *taps, c), 0)
    (x, w, b, y), data = operands(m, rng, kind, (2, *size, c), shape, axis, (2, *out, k))
    options = {"depth_multiplier": k // c} if depthwise else {}
    options |= {"quantized_bias_type": "int32"} if "int32" in kind else {}
    return finish(m, "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, w, b], y, x, data, stride_h=stride[0],
                  stride_w=stride[1], padding="SAME", dilation_h_factor=dilation[0], dilation_w_factor=dilation[1],
                  **options)


@differential("float32", "int8", "uint8", "int16", "int16 int32", "hybrid", count=20)
def test_narrow_images(m, rng, kind):
    return narrow(m, rng, kind, False)


@differential("float32", "int8", "uint8", "int16", "hybrid", count=20)
def test_narrow_images_channel_by_channel(m, rng, kind):
    return narrow(m, rng, kind, True)


@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "taps", "near"), [((1, 9), (3, 1), (1, 1)), ((9, 1), (2, 5), (2, 1)),
                                                    ((9, 2), (1, 5), (1, 4)), ((9, 3), (2, 3), (2, 3))])
def test_taps_that_meet_no_pixel_are_left_out(name, kind, size, taps, near):
    m, rng = ModelBuilder(), np.random.default_rng(0)
    depthwise = name == "DEPTHWISE_CONV_2D"
    shape, axis = ((1, *taps, 6), 3) if depthwise else ((6, *taps, 6), 0)
    (x, w, b, y), data = operands(m, rng, kind, (1, *size, 6), shape, axis, (1, *size, 6))
    options = {"depth_multiplier": 1} if depthwise else {}
    finish(m, name, [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME", dilation_h_factor=1,
           dilation_w_factor=1, **options)
    call, = lowered(m.build()).calls
    window = dict(zip(reversed(call.names), reversed(call.args), strict=False))["filter"]
    assert np.prod(window[:2]) <= np.prod(near)


@differential("float32", "int8", "int8 per tensor", "uint8", count=30)
def test_short_lines(m, rng, kind):
    """Images so narrow that a line may count as a pixel."""
    width, taps = int(rng.integers(1, 11)), [int(rng.integers(2, 6)), int(rng.integers(1, 6))]
    stride, c, k = rng.integers(1, 3, 2).tolist(), int(rng.choice([1, 3, 4, 8, 20])), int(rng.choice([1, 5, 8, 12]))
    out = [-(-n // step) for n, step in zip((21, width), stride, strict=True)]
    (x, w, b, y), data = operands(m, rng, kind, (2, 21, width, c), (k, *taps, c), 0, (2, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=stride[0], stride_w=stride[1], padding="SAME",
                  dilation_h_factor=1, dilation_w_factor=1)


@differential("int16", "int16 int32", "int16 int4", count=30)
def test_pixels_of_few_columns(m, rng, kind):
    """Neighbouring pixels count as one."""
    taps, stride = rng.integers(1, 6, 2).tolist(), rng.integers(1, 3, 2).tolist()
    c, k, ow = int(rng.choice([1, 2, 3, 8])), int(rng.choice([1, 2, 3, 8])), int(rng.choice([2, 4, 6, 16, 24, 32]))
    size = int(rng.integers(1, 9)), ow * stride[1] - int(rng.integers(stride[1]))
    out = [-(-n // step) for n, step in zip(size, stride, strict=True)]
    (x, w, b, y), data = operands(m, rng, kind, (2, *size, c), (k, *taps, c), 0, (2, *out, k))
    options = {"quantized_bias_type": "int32"} if "int32" in kind else {}
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=stride[0], stride_w=stride[1], padding="SAME",
                  dilation_h_factor=1, dilation_w_factor=1, **options)


@pytest.mark.parametrize(("columns", "ow", "pixels"), [(1, 32, 16), (3, 32, 4), (1, 6, 2), (1, 7, 1), (16, 32, 1)])
def test_as_many_pixels_of_int16_count_as_one_as_have_sixteen_columns(columns, ow, pixels):
    m, rng = ModelBuilder(), np.random.default_rng(0)
    (x, w, b, y), data = operands(m, rng, "int16", (1, 5, ow, 2), (columns, 3, 3, 2), 0, (1, 5, ow, columns))
    finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME", dilation_h_factor=1,
           dilation_w_factor=1)
    call, = lowered(m.build()).calls
    window = dict(zip(reversed(call.names), reversed(call.args), strict=False))["filter"]
    assert window[1] == 3 + pixels - 1


@differential("float32", "int8", "uint8", "int16", "hybrid", count=12)
def test_filters_beyond_the_image(m, rng, kind):
    """Taps that meet no pixel are dropped, on either side."""
    size, taps = rng.integers(1, 5, 2).tolist(), rng.integers(1, 10, 2).tolist()
    stride, c = int(rng.integers(1, 4)), int(rng.choice([1, 3, 8, 20]))
    dilation = 1 if kind == "hybrid" or stride > 1 else int(rng.integers(1, 4))
    out, depthwise = [-(-n // stride) for n in size], bool(rng.random() < 0.5)
    shape = (1, *taps, c) if depthwise else (5, *taps, c)
    (x, w, b, y), data = operands(m, rng, kind, (2, *size, c), shape, 3 * depthwise, (2, *out, c if depthwise else 5))
    return finish(m, "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, w, b], y, x, data, stride_h=stride,
                  stride_w=stride, padding="SAME", dilation_h_factor=dilation, dilation_w_factor=dilation)
