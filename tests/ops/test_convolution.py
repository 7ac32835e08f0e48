"""CONV_2D and DEPTHWISE_CONV_2D."""
import itertools

import numpy as np
import pytest

from pylite._core import simd
from pylite.errors import OpError
from pylite.ir import shapes
from pylite.ops.convolution_window import effective_dilation
from pylite.schema.builder import ModelBuilder
from tests.ops.convolving import KINDS, channels, finish, operands, window
from tests.tools.graphs import lowered
from tests.tools.oneop import check, differential, run_pylite
from tests.tools.operands import sums


@differential(*KINDS, count=40)
def test_conv(m, rng, kind):
    size, taps, out, options = window(rng)
    groups = int(rng.choice([1, 1, 1, 2, 3])) if "hybrid" not in kind and "int4" not in kind else 1
    n, c, k = int(rng.integers(1, 3)), channels(rng), groups * channels(rng)
    if "hybrid" in kind:
        options["dilation_h_factor"] = options["dilation_w_factor"] = 1
        out = [shapes.window_output(size[i], taps[i], options[s], 1, options["padding"])
               for i, s in enumerate(("stride_h", "stride_w"))]
    if "int32" in kind:
        options["quantized_bias_type"] = "int32"
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c * groups), (k, *taps, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, **options)


@differential("float32", "int8", "uint8", "int16", count=40)
def test_conv_groups(m, rng, kind):
    """Many groups of a few channels: of one, they make a depthwise convolution; of few columns, bytes merge them."""
    size, taps, out, options = window(rng)
    groups, c, k = (int(rng.choice(some)) for some in ([4, 6, 8, 32], [1, 1, 2, 3, 8, 16], [1, 2, 5, 8, 20]))
    n = int(rng.integers(1, 3))
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c * groups), (k * groups, *taps, c), 0,
                                  (n, *out, k * groups))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, **options)


@pytest.mark.parametrize("c", [1, 2, 3, 8])
@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (2, 5)])
def test_groups_of_floats_with_integer_weights(isa_level, c, taps):
    """Each group gives what it gives by itself with weights of float32, as images of whole numbers are exact."""
    groups, k, rng = 8, 5, np.random.default_rng(c)
    x = rng.integers(-127, 128, (1, 9, 14, groups * c)).astype(np.float32)
    x[0, 0, 0], w = 127, rng.integers(-127, 128, (groups * k, *taps, c)).astype(np.int8)

    def result(x, w, scale=None):
        m = ModelBuilder()
        inputs = [m.tensor("x", x.shape, "float32"), m.constant("w", w, scale, scale and [0]),
                  m.constant("b", np.zeros(len(w), np.float32))]
        y = m.tensor("y", (1, 9, 14, len(w)), "float32")
        m.operator("CONV_2D", inputs, [y], padding="SAME", stride_h=1, stride_w=1)
        m.inputs(inputs[:1])
        m.outputs([y])
        return run_pylite(m.build(), [x])[0]
    alone = [result(part.copy(), filters.astype(np.float32)) for part, filters in
             zip(np.split(x, groups, 3), np.split(w, groups), strict=True)]
    np.testing.assert_allclose(result(x, w, [1.0]), np.concatenate(alone, 3), rtol=1e-6)


def test_merged_groups_are_noted():
    m = ModelBuilder()
    x, y = (m.tensor(name, (1, 8, 8, 16), "int8", scale=0.1, zero_point=0) for name in "xy")
    w = m.constant("w", np.ones((16, 3, 3, 4), np.int8), [0.1], [0])
    m.operator("CONV_2D", [x, w, None], [y], padding="SAME", stride_h=1, stride_w=1)
    m.inputs([x])
    m.outputs([y])
    call, = lowered(m.build()).calls
    merged = 2 if simd.current == "neon" else 4
    assert call.note == f"{merged} groups as one, with weights of 0"


@differential("float32", "int8", "int16", "hybrid", count=4)
def test_a_filter_larger_than_the_image_gives_nothing(m, rng, kind):
    """The reference computes (size + stride - extent) / stride positions in C, which rounds towards 0."""
    stride, c, k = int(rng.integers(2, 5)), channels(rng), channels(rng)
    size = int(rng.integers(1, 5))
    taps = size + int(rng.integers(stride, 2 * stride))
    (x, w, b, y), data = operands(m, rng, kind, (1, size, 9, c), (k, taps, 3, c), 0, (1, 0, 7, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, padding="VALID", stride_h=stride, stride_w=1)


@differential("float32", "int8", "uint8", "int16", count=4)
def test_conv_deep(m, rng, kind):
    """A depth larger than a packed A panel."""
    n, c, k, taps = 1, int(rng.integers(6000, 9000)), int(rng.integers(1, 40)), int(rng.integers(1, 3))
    (x, w, b, y), data = operands(m, rng, kind, (n, 3, 3, c), (k, taps, taps, c), 0, (n, 3, 3, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME")


def strided(dtype, stride, c):
    """A 3 x 3 filter of int8 over lines of 10 windows, `stride` pixels apart; weights do not depend on the stride."""
    m = ModelBuilder()
    q = {"scale": 0.1, "zero_point": 3} if dtype == "int8" else {}
    w = np.random.default_rng(c).integers(-127, 128, (8, 3, 3, c)).astype(np.int8)
    scales = [0.01 * (k + 1) for k in range(8)]
    x = m.tensor("x", (1, 4, 9 * stride + 3, c), dtype, **q)
    b = m.constant("b", np.arange(8, dtype="int32" if q else "float32"), [0.1 * s for s in scales] if q else None)
    y = m.tensor("y", (1, 2, 10, 8), dtype, **({"scale": 2.0, "zero_point": 0} if q else {}))
    m.operator("CONV_2D", [x, m.constant("w", w, scales), b], [y], padding="VALID", stride_h=1, stride_w=stride)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("c", [1, 3, 5])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_conv_of_far_pixels(dtype, c):
    """A stride for which the lines of several output pixels are longer than a packed A panel."""
    near = (np.random.default_rng(0).standard_normal((1, 4, 30, c)) * 40).astype(dtype)
    far = np.full((1, 4, 9 * 4000 + 3, c), near[0, 0, 0, 0])
    for i in range(10):
        far[:, :, 4000 * i:4000 * i + 3] = near[:, :, 3 * i:3 * i + 3]
    check(strided(dtype, 4000, c), [far], run_pylite(strided(dtype, 3, c), [near]), f"{dtype}, {c} channels")


def pointwise(kind, stride, c):
    """A 1 x 1 filter on two images of 13 x 9 outputs."""
    m = ModelBuilder()
    x_type, w_type, b_type = KINDS[kind]
    rng = np.random.default_rng(c)
    whole = x_type != "float32"
    w = rng.integers(-127, 128, (20, 1, 1, c)).astype(w_type) / np.float32(1 if w_type == "int8" else 100)
    x = m.tensor("x", (2, 13 * stride, 9 * stride, c), x_type, **({"scale": 0.1, "zero_point": 3} if whole else {}))
    b = m.constant("b", rng.integers(-99, 99, 20).astype(b_type), [0.001] * 20 if whole else None)
    y = m.tensor("y", (2, 13, 9, 20), x_type, **({"scale": 1.0, "zero_point": 0} if whole else {}))
    weights = m.constant("w", w.astype(w_type), [0.01] * 20 if w_type == "int8" else None)
    m.operator("CONV_2D", [x, weights, b], [y], padding="VALID", stride_h=stride, stride_w=stride)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("c", [3, 64, 900])
@pytest.mark.parametrize("kind", ["int8", "float32", "hybrid"])
def test_conv_of_single_pixels_with_a_stride(kind, c):
    """It gives what it gives without a stride for the pixels that it reads."""
    near = (np.random.default_rng(0).standard_normal((2, 13, 9, c)) * 40).astype(KINDS[kind][0])
    far = near.repeat(2, axis=1).repeat(2, axis=2)
    far[:, 1::2] = far[:, ::2] * (kind == "hybrid")     # a hybrid operator quantizes by all pixels
    check(pointwise(kind, 2, c), [far], run_pylite(pointwise(kind, 1, c), [near]), f"{kind}, {c} channels")


@differential("float32", "int8", "int8 per tensor", "uint8", "int16", count=40)
def test_conv_dilated(m, rng, kind):
    """Images narrower and wider than the dilated filter; some are split into phases."""
    dilation, taps = rng.integers(1, 11, 2).tolist(), rng.integers(1, 4, 2).tolist()
    if rng.random() < 0.5:
        dilation[1] = dilation[0]
    padding = str(rng.choice(["SAME", "VALID"]))
    reach = [(n - 1) * d + 1 for n, d in zip(taps, dilation, strict=True)]
    size = [int(rng.integers(least if padding == "VALID" else 1, least + 20)) for least in reach]
    stride = int(rng.choice([1, 1, 2]))
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([1, 2, 3, 4, 8, 16, 24, 70])), int(rng.choice([1, 3, 8, 16, 33]))
    out = [shapes.window_output(size[i], taps[i], (stride, 1)[i], dilation[i], padding) for i in range(2)]
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (k, *taps, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=stride, stride_w=1, padding=padding,
                  dilation_h_factor=dilation[0], dilation_w_factor=dilation[1])


@differential("int8", "int8 per tensor", "uint8", count=30)
def test_one_channel_dilated(m, rng, kind):
    """DEPTHWISE_CONV_2D of an image of one channel, whose filters get weights of 0 between their taps."""
    size, taps = (rng.integers(low, high, 2).tolist() for low, high in ((3, 24), (1, 6)))
    dilation, k = rng.integers(1, 5, 2).tolist(), int(rng.choice([1, 2, 3, 8, 17]))
    (x, w, b, y), data = operands(m, rng, kind, (2, *size, 1), (1, *taps, k), 3, (2, *size, k))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME",
                  depth_multiplier=k, dilation_h_factor=dilation[0], dilation_w_factor=dilation[1])


@pytest.mark.parametrize(("c", "notes"), [
    (4, ["weights of 0 between the taps of a line"]),
    (32, ["as 4 plain ones, each of every 4th pixel of a line"] * 4)])
def test_what_becomes_of_a_dilation_is_noted(c, notes):
    m = ModelBuilder()
    x, y = (m.tensor(name, (1, 8, 16, c), "int8", scale=0.1, zero_point=0) for name in "xy")
    w = m.constant("w", np.ones((c, 3, 3, c), np.int8), [0.1], [0])
    m.operator("CONV_2D", [x, w, None], [y], padding="SAME", stride_h=1, stride_w=1, dilation_h_factor=2,
               dilation_w_factor=4)
    m.inputs([x])
    m.outputs([y])
    calls = lowered(m.build()).calls
    assert [call.kernel for call in calls] == ["conv.ConvQ8"] * len(notes)
    assert [call.note for call in calls] == notes


@differential("int8")
def test_conv_dilated_beside_the_image(m, rng, kind):
    """Images narrower than the dilation: the windows of some output pixels lie outside."""
    (x, w, b, y), data = operands(m, rng, kind, (1, 3, 3, 4), (5, 3, 2, 4), 0, (1, 3, 3, 5))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME", dilation_h_factor=2,
                  dilation_w_factor=6)


@pytest.mark.parametrize("seed", range(30))
def test_conv_dilated_hybrid(seed):
    """Equal to a filter with zeros between its taps; the peer ignores the dilation of hybrid filters."""
    rng = np.random.default_rng(seed)
    dilation, taps = rng.integers(1, 6, 2), rng.integers(1, 4, 2)
    size, (c, k) = rng.integers(1, 20, 2), rng.integers(1, 20, 2)
    w = rng.integers(-127, 128, (k, *taps, c)).astype(np.int8)
    wide = np.zeros((k, *((taps - 1) * dilation + 1), c), np.int8)
    wide[:, ::dilation[0], ::dilation[1]] = w
    x, bias = rng.standard_normal((2, *size, c)).astype(np.float32), rng.standard_normal(k).astype(np.float32)
    scales = [0.01] * k if seed % 2 else (0.01 * rng.random(k) + 1e-3).tolist()
    results = []
    for filters, (down, right) in ((w, dilation.tolist()), (wide, (1, 1))):
        m = ModelBuilder()
        i, y = m.tensor("x", x.shape), m.tensor("y", (2, *size, k))
        m.operator("CONV_2D", [i, m.constant("w", filters, scale=scales, zero_point=[0] * k, axis=0),
                               m.constant("b", bias)], [y], padding="SAME", stride_h=1, stride_w=1,
                   dilation_h_factor=down, dilation_w_factor=right)
        m.inputs([i])
        m.outputs([y])
        results += run_pylite(m.build(), [x], threads=1 + seed % 2)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(("name", "taps", "dilation"), [
    ("CONV_2D", 3, 2**30), ("CONV_2D", 5, 2**31 - 1), ("CONV_2D", 2, 2**31 - 2), ("DEPTHWISE_CONV_2D", 3, 2**31 - 1),
    ("DEPTHWISE_CONV_2D", 4, 2**30 + 1)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_dilation_beyond_the_image(name, taps, dilation, dtype):
    """The same as a dilation that just leaves the image, of the same parity."""
    def model(dilation):
        m = ModelBuilder()
        rng = np.random.default_rng(taps)
        q = {} if dtype == "float32" else {"scale": 0.1, "zero_point": 3}
        x = m.tensor("x", (1, 6, 5, 4), dtype, **q)
        shape = (1, taps, taps, 4) if name.startswith("D") else (4, taps, taps, 4)
        w = m.constant("w", rng.integers(-9, 9, shape).astype(dtype), [0.1] if q else None)
        y = m.tensor("y", (1, 6, 5, 4), dtype, **q)
        m.operator(name, [x, w, None], [y], padding="SAME", stride_h=1, stride_w=1, dilation_h_factor=dilation,
                   dilation_w_factor=dilation)
        m.inputs([x])
        m.outputs([y])
        return m.build()
    x = np.random.default_rng(0).integers(-9, 9, (1, 6, 5, 4)).astype(dtype)
    check(model(dilation), [x], run_pylite(model(19 + dilation % 2 * 2), [x]), f"{name} {dilation}")


@pytest.mark.parametrize("dilation", [1, 2, 3, 6, 7, 12, 13, 14, 15, 40, 41])
def test_the_effective_dilation_sees_the_same_pixels(dilation):
    def seen(size, taps, stride, dilation):
        out = shapes.window_output(size, taps, stride, dilation, "SAME")
        before = shapes.window_padding(size, taps, stride, dilation, out)[0]
        pixels = [(i, t, i * stride + t * dilation - before) for i in range(out) for t in range(taps)]
        return [found for found in pixels if 0 <= found[2] < size]
    for size, taps, stride in itertools.product(range(8), range(1, 6), range(1, 5)):
        near = effective_dilation(None, None, taps, dilation, size)
        assert near <= max(2 * size + 2, 1) and seen(size, taps, stride, near) == seen(size, taps, stride, dilation)


def test_a_filter_that_spans_too_many_pixels_is_refused():
    m = ModelBuilder()
    x, w = m.tensor("x", (1, 1, 2**13, 1)), m.constant("w", np.ones((1, 1, 2**15, 1), np.float32))
    y = m.tensor("y", (1, 1, 2**13, 1))
    m.operator("CONV_2D", [x, w, None], [y], padding="SAME", stride_h=1, stride_w=1, dilation_w_factor=2**14)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(OpError, match=r"'w'.*spans 536854529 pixels with a dilation of 16384; at most 268435456"):
        run_pylite(m.build(), [np.ones((1, 1, 2**13, 1), np.float32)])


@differential("float32", count=40)
def test_conv_winograd(m, rng, kind):
    """3 x 3 filters over enough channels, images of even and odd sizes."""
    size, padding = [int(v) for v in rng.integers(3, 20, 2)], str(rng.choice(["SAME", "VALID"]))
    n, c = int(rng.integers(1, 3)), int(rng.choice([16, 17, 33, 64, 130, 256, 301]))
    k = int(rng.choice([16, 19, 40, 70, 140]))
    out = size if padding == "SAME" else [v - 2 for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (k, 3, 3, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding=padding,
                  fused_activation_function=str(rng.choice(["NONE", "RELU"])))


@differential("int8", "int8 per tensor", "uint8", count=40)
def test_conv_points(m, rng, kind):
    """3 x 3 filters over enough 8-bit channels for Winograd, and images with partial tiles."""
    size, padding = [int(v) for v in rng.integers(5, 26, 2)], str(rng.choice(["SAME", "VALID"]))
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([32, 32, 48, 64, 128, 144])), int(rng.choice([32, 33, 40, 65]))
    out = size if padding == "SAME" else [v - 2 for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (k, 3, 3, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding=padding,
                  fused_activation_function=str(rng.choice(["NONE", "RELU"])))


@differential("int8", "uint8", count=20)
def test_conv_points_far(m, rng, kind):
    """The same with the largest possible sums."""
    limits, zero = np.iinfo(kind), 0 if kind == "int8" else int(rng.choice([0, 255]))
    size, c, k = [int(v) for v in rng.integers(8, 17, 2)], int(rng.choice([32, 48, 56, 112, 128])), 32
    w, data = (np.where(rng.random(shape) < rng.choice([0, 0.05, 1]), limits.min, limits.max).astype(kind)
               for shape in ((k, 3, 3, c), (1, *size, c)))
    x = m.tensor("x", data.shape, kind, scale=0.02, zero_point=int(rng.choice([limits.min, limits.max])))
    w = m.constant("w", w, scale=0.01, zero_point=zero)
    b = m.constant("b", rng.integers(-2 ** 21, 2 ** 21, k).astype(np.int32), scale=0.0002)
    y = m.tensor("y", (1, *size, k), kind, scale=100.0, zero_point=int(rng.choice([limits.min, 0])))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME")


@pytest.mark.parametrize("c", [48, 64, 112, 128])
@pytest.mark.parametrize("weight", [0, 255])
def test_sums_of_one_sided_weights_may_be_too_large_for_points(weight, c):
    """uint8 weights that lie 255 from their zero point, which is at one end of the type."""
    size, z = (8, 8), 255 - weight
    m, data, filters = ModelBuilder(), np.full((1, *size, c), 255, np.uint8), np.full((32, 3, 3, c), weight, np.uint8)
    x = m.tensor("x", data.shape, "uint8", scale=1.0)
    w = m.constant("w", filters, scale=1.0, zero_point=z)
    b = m.constant("b", np.zeros(32, np.int32), scale=1.0)
    y = m.tensor("y", (1, *size, 32), "uint8", scale=2.0 ** 19, zero_point=z)
    inputs = finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME")
    acc = sums(data, filters, (3, 3, 1, 1, 1, 1, 1, 1), size, w_zero=z)
    check(m.build(), inputs, [(np.floor(acc / 2.0 ** 19 + 0.5) + z).astype(np.uint8)], f"weights of {weight}")


@differential("float32", "int8", "int8 per tensor", "int4", "uint8", "int16", "hybrid", count=40)
def test_depthwise(m, rng, kind):
    size, taps, out, options = window(rng)
    n, c, times = int(rng.integers(1, 3)), int(rng.choice([1, 2, 3, 8, 16, 17, 40, 64, 100, 130])), 1
    if rng.random() < 0.25:
        times, c = int(rng.integers(2, 9)), min(c, 16)
    options["dilation_w_factor"] = options["dilation_h_factor"]
    options["stride_w"] = options["stride_h"]
    if "hybrid" in kind:
        options["dilation_h_factor"] = options["dilation_w_factor"] = 1
    out = [shapes.window_output(size[i], taps[i], options[f"stride_{s}"], options[f"dilation_{s}_factor"],
                                options["padding"]) for i, s in enumerate("hw")]
    if min(out) < 1:
        options["padding"] = "SAME"
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (1, *taps, c * times), 3, (n, 1, 1, c * times))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=times, **options)


@differential("float32", "int8", "uint8", "int16", "hybrid", count=16)
def test_depthwise_patches(m, rng, kind):
    """Channels with so many outputs that their lines are cut into patches, or into single pixels, or do not fit."""
    size, taps = [int(v) for v in (rng.integers(2, 5), rng.integers(1, 36))], int(rng.choice([1, 3, 5]))
    c, times = [(3, 130), (16, 5), (50, 8), (1, 19), (4, 500)][int(rng.choice(5, p=[.3, .2, .3, .1, .1]))]
    if times == 500:
        size, taps = [3, 2], 5
    stride = int(rng.integers(1, 4))
    out = [-(-v // stride) for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (1, *size, c), (1, taps, taps, c * times), 3, (1, *out, c * times))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=times, stride_h=stride,
                  stride_w=stride, padding="SAME")


@differential("float32", "int8", "uint8", "int16", "hybrid", count=10)
def test_depthwise_columns(m, rng, kind):
    """Images of one column, whose filters are columns, too."""
    size, taps, stride = int(rng.integers(1, 60)), int(rng.choice([2, 3, 5, 9, 21])), int(rng.integers(1, 4))
    c, times = int(rng.choice([1, 3, 8, 12, 40])), int(rng.choice([1, 1, 2]))
    dilation = 1 if kind == "hybrid" else int(rng.integers(1, 3))
    out = -(-size // stride)
    (x, w, b, y), data = operands(m, rng, kind, (1, size, 1, c), (1, taps, 1, c * times), 3, (1, out, 1, c * times))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=times, stride_h=stride, stride_w=1,
                  padding="SAME", dilation_h_factor=dilation, dilation_w_factor=1)


@differential("int8", "uint8", count=12)
def test_depthwise_large_filters(m, rng, kind):
    """Filters beyond 3x3, strides and dilations, of images that are wider than a vector and whose channels overlap."""
    taps = [int(v) for v in rng.choice([1, 2, 3, 4, 5, 7, 11], 2)]
    size = [int(v) for v in rng.integers(1, 40, 2)]
    stride = int(rng.integers(1, 5))
    dilation = int(rng.integers(1, 5)) if stride == 1 else 1
    c = int(rng.choice([8, 9, 20, 24]))
    out = [-(-v // stride) for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (1, *size, c), (1, *taps, c), 3, (1, *out, c))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=1, stride_h=stride, stride_w=stride,
                  padding="SAME", dilation_h_factor=dilation, dilation_w_factor=dilation)


@differential("int8", "uint8", "float32", count=16)
def test_depthwise_dilated(m, rng, kind):
    """Lines that are `dilation` apart are computed together: also where there are fewer, and of several images."""
    taps, size = [int(v) for v in rng.choice([1, 2, 3, 5], 2)], [int(v) for v in rng.integers(1, 50, 2)]
    n, c, down, right = int(rng.integers(1, 4)), int(rng.choice([3, 8, 20])), *(int(v) for v in rng.integers(1, 10, 2))
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (1, *taps, c), 3, (n, *size, c))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=1, stride_h=1, stride_w=1,
                  padding="SAME", dilation_h_factor=down, dilation_w_factor=right)


@differential("float32", "int8", "hybrid", count=16)
def test_depthwise_skips_lines(m, rng, kind):
    """Filters lower than their strides: in float32, AVX2 read the line before the first one, wherever that pointed."""
    taps, size = [int(v) for v in rng.integers(1, 4, 2)], [int(v) for v in (rng.integers(4, 20), rng.integers(1, 5))]
    down, c = taps[0] + int(rng.integers(1, 4)), int(rng.choice([16, 17, 40]))
    out = [-(-size[0] // down), size[1]]
    (x, w, b, y), data = operands(m, rng, kind, (1, *size, c), (1, *taps, c), 3, (1, *out, c))
    return finish(m, "DEPTHWISE_CONV_2D", [x, w, b], y, x, data, depth_multiplier=1, stride_h=down, stride_w=1,
                  padding="SAME")
