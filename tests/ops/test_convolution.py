"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV."""
import numpy as np
import pytest

from pylite import shapes
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.oneop import differential
from tests.ops.draw import activation, values

# kind of model: types of input, filter, bias
KINDS = {"float32": ("float32", "float32", "float32"), "int8": ("int8", "int8", "int32"),
         "int8 per tensor": ("int8", "int8", "int32"), "int4": ("int8", "int4", "int32"),
         "uint8": ("uint8", "uint8", "int32"), "int16": ("int16", "int8", "int64"),
         "int16 int32": ("int16", "int8", "int32"),
         "hybrid": ("float32", "int8", "float32"), "hybrid per tensor": ("float32", "int8", "float32"),
         "hybrid int4": ("float32", "int4", "float32")}


def filters(rng, shape, dtype):
    """Weights: the ends of the type now and then; of very many, few that repeat, to be stored in little."""
    if np.prod(shape) > 10000:
        return np.resize(filters(rng, (97,), dtype), shape)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    low, high = {"int4": (-8, 7), "uint8": (0, 255)}.get(dtype, (-128, 127))
    if rng.random() < 0.2:
        return rng.choice([low, high], shape).astype("uint8" if dtype == "uint8" else "int8")
    return rng.integers(low, high + 1, shape).astype("uint8" if dtype == "uint8" else "int8")


def operands(m, rng, kind, x_shape, w_shape, axis, y_shape, bias=True):
    """x, w, b and y of a product whose results use most of y's range.  Returns (indices, values of x)."""
    x_type, w_type, b_type = KINDS[kind]
    channels = w_shape[axis]
    depth = max(1, int(np.prod(w_shape)) // max(channels, 1))
    # Floats of ordinary size: what is clamped to [-1, 1] keeps the rounding errors of what it was.
    data = rng.standard_normal(x_shape).astype(np.float32) if x_type == "float32" else values(rng, x_shape, x_type)
    if data.size > 10000:
        data = np.resize(data.reshape(-1)[:1009], x_shape)
    weights = filters(rng, w_shape, w_type)
    if "hybrid" in kind:
        weights = np.maximum(weights, -127)     # the peer's vector code takes -128 for 128
    if x_type == "float32":
        x, y = m.tensor("x", x_shape), m.tensor("y", y_shape)
        fields = {}
        if w_type != "float32":
            one = "per tensor" in kind
            fields = {"scale": 0.01 * rng.random(1 if one else channels) + 1e-3, "axis": axis}
        w = m.constant("w", weights, dtype=w_type, **fields)
        b = m.constant("b", rng.standard_normal(channels).astype(np.float32)) if bias else None
        return (x, w, b, y), data
    unsigned = x_type == "uint8"
    zeros = [0, 0] if x_type == "int16" else [int(values(rng, (), x_type)) for _ in range(2)]
    per_channel = kind not in ("uint8", "int8 per tensor")
    x_scale = float(rng.random() * 0.1 + 1e-3)
    w_scale = (rng.random(channels if per_channel else 1) * 0.1 + 1e-3).astype(np.float32)
    reach = {"int4": 8}.get(w_type, 74) * {"int16": 19000}.get(x_type, 74) * np.sqrt(depth)
    unit = x_scale * w_scale.max(initial=1e-3)
    y_scale = float(unit * reach / {"int16": 8000}.get(x_type, 60) * rng.choice([1, 1, 0.05]))
    if rng.random() < 0.08:
        y_scale = float(unit * rng.choice([0.2, 1e-4]))         # shifts to the left
    x = m.tensor("x", x_shape, x_type, scale=x_scale, zero_point=zeros[0])
    w = m.constant("w", weights, dtype=w_type, scale=w_scale, axis=axis,
                   zero_point=int(values(rng, (), "uint8")) if unsigned else 0)
    b = None
    if bias:
        most = max(1, int(reach))
        b = m.constant("b", rng.integers(-most, most, channels).astype(b_type), axis=0,
                       scale=np.float32(x_scale) * w_scale)
    y = m.tensor("y", y_shape, x_type, scale=y_scale, zero_point=zeros[1])
    return (x, w, b, y), data


def window(rng, most=4, dilations=(1, 1, 1, 2, 3)):
    """(height, width) of an image and a filter, strides, dilations and padding that fit."""
    while True:
        size, taps = rng.integers(1, 12, 2), rng.integers(1, most + 1, 2)
        if rng.random() < 0.3:
            taps[:] = rng.choice([1, 3])
        stride, dilation = rng.integers(1, 4, 2), rng.choice(dilations, 2)
        if rng.random() < 0.4:
            stride[:] = 1
        padding = str(rng.choice(["SAME", "VALID"]))
        out = [shapes.window_output(int(n), int(f), int(s), int(d), padding)
               for n, f, s, d in zip(size, taps, stride, dilation, strict=True)]
        if min(out) > 0:
            return tuple(map(int, size)), tuple(map(int, taps)), tuple(out), {
                "padding": padding, "stride_h": int(stride[0]), "stride_w": int(stride[1]),
                "dilation_h_factor": int(dilation[0]), "dilation_w_factor": int(dilation[1]),
                "fused_activation_function": activation(rng)}


def channels(rng):
    return int(rng.choice([1, 2, 3, 4, 7, 8, 16, 19, 33, 70]))


def finish(m, name, inputs, y, x, data, **options):
    m.operator(name, inputs, [y], **options)
    m.inputs([x])
    m.outputs([y])
    return [data]


@differential(*KINDS, count=40)
def test_conv(m, rng, kind):
    size, taps, out, options = window(rng)
    groups = int(rng.choice([1, 1, 1, 2, 3])) if "hybrid" not in kind and kind != "int4" else 1
    n, c, k = int(rng.integers(1, 3)), channels(rng), groups * channels(rng)
    if "hybrid" in kind:
        options["dilation_h_factor"] = options["dilation_w_factor"] = 1
        out = [shapes.window_output(size[i], taps[i], options[s], 1, options["padding"])
               for i, s in enumerate(("stride_h", "stride_w"))]
    if "int32" in kind:
        options["quantized_bias_type"] = "int32"
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c * groups), (k, *taps, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, **options)


@differential("float32", "int8", "uint8", "int16", count=4)
def test_conv_deep(m, rng, kind):
    """More depth than a strip takes."""
    n, c, k, taps = 1, int(rng.integers(6000, 9000)), int(rng.integers(1, 40)), int(rng.integers(1, 3))
    (x, w, b, y), data = operands(m, rng, kind, (n, 3, 3, c), (k, taps, taps, c), 0, (n, 3, 3, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME")


@differential("float32", count=40)
def test_conv_winograd(m, rng, kind):
    """3 x 3 filters over enough channels, images of even and odd sizes."""
    size, padding = [int(v) for v in rng.integers(3, 20, 2)], str(rng.choice(["SAME", "VALID"]))
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([16, 17, 33, 64, 130, 256])), int(rng.choice([16, 19, 40, 70]))
    out = size if padding == "SAME" else [v - 2 for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (k, 3, 3, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding=padding,
                  fused_activation_function=str(rng.choice(["NONE", "RELU"])))


@differential("int8", "int8 per tensor", "uint8", count=40)
def test_conv_points(m, rng, kind):
    """3 x 3 filters over enough 8-bit channels for Winograd's way, and images that do not end with a tile."""
    size, padding = [int(v) for v in rng.integers(5, 26, 2)], str(rng.choice(["SAME", "VALID"]))
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([32, 32, 48, 64, 128, 144])), int(rng.choice([32, 33, 40, 65]))
    out = size if padding == "SAME" else [v - 2 for v in size]
    (x, w, b, y), data = operands(m, rng, kind, (n, *size, c), (k, 3, 3, c), 0, (n, *out, k))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding=padding,
                  fused_activation_function=str(rng.choice(["NONE", "RELU"])))


@differential("int8", "uint8", count=20)
def test_conv_points_far(m, rng, kind):
    """The same with sums as large as they get."""
    limits, zero = np.iinfo(kind), 0 if kind == "int8" else int(rng.choice([0, 255]))
    size, c, k = [int(v) for v in rng.integers(8, 17, 2)], int(rng.choice([32, 48, 56, 112, 128])), 32
    w, data = (np.where(rng.random(shape) < rng.choice([0, 0.05, 1]), limits.min, limits.max).astype(kind)
               for shape in ((k, 3, 3, c), (1, *size, c)))
    x = m.tensor("x", data.shape, kind, scale=0.02, zero_point=int(rng.choice([limits.min, limits.max])))
    w = m.constant("w", w, scale=0.01, zero_point=zero)
    b = m.constant("b", rng.integers(-2 ** 21, 2 ** 21, k).astype(np.int32), scale=0.0002)
    y = m.tensor("y", (1, *size, k), kind, scale=100.0, zero_point=int(rng.choice([limits.min, 0])))
    return finish(m, "CONV_2D", [x, w, b], y, x, data, stride_h=1, stride_w=1, padding="SAME")


@differential(*[k for k in KINDS if k not in ("int16 int32", "hybrid per tensor", "hybrid int4")], count=40)
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


@differential("float32", "int8", "int8 per tensor", "uint8", "int16", "int16 int32", "hybrid", count=40)
def test_transpose_conv(m, rng, kind):
    small, taps, _, options = window(rng, dilations=(1,))
    step = options["stride_h"], options["stride_w"]
    if options["padding"] == "SAME":
        size = [n * s - int(rng.integers(0, s)) for n, s in zip(small, step, strict=True)]
    else:
        size = [(n - 1) * s + max(f, s) for n, s, f in zip(small, step, taps, strict=True)]
    n, c, k = int(rng.integers(1, 3)), channels(rng), channels(rng)
    if "hybrid" in kind:
        k = 1 if rng.random() < 0.3 else k
    for name in ("dilation_h_factor", "dilation_w_factor"):
        del options[name]
    if "int32" in kind:
        options["quantized_bias_type"] = "int32"
    (x, w, b, y), data = operands(m, rng, kind, (n, *small, c), (k, *taps, c), 0, (n, *size, k), rng.random() < 0.7)
    shape = m.constant("shape", np.array([n, *size, k], np.int32))
    return finish(m, "TRANSPOSE_CONV", [shape, w, x] + ([] if b is None else [b]), y, x, data, version=4, **options)


def test_transpose_conv_of_another_batch():
    """The output's shape is a constant, so that the batch cannot change."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 2)), m.tensor("y", (1, 8, 8, 3))
    shape = m.constant("shape", np.array([1, 8, 8, 3], np.int32))
    w = m.constant("w", np.ones((3, 2, 2, 2), np.float32))
    m.operator("TRANSPOSE_CONV", [shape, w, x], [y], padding="SAME", stride_h=2, stride_w=2)
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    for batch in (0, 2):
        interpreter.resize_tensor_input(x, [batch, 4, 4, 2])
        with pytest.raises(RuntimeError, match=f"TRANSPOSE_CONV.*asks for 1 images of {batch}"):
            interpreter.allocate_tensors()
