"""Random operands of convolutions, plain, depthwise and transposed."""
import numpy as np

from pylite.ir import shapes
from tests.ops.draw import activation, values

# kind of model: types of input, filter, bias
KINDS = {"float32": ("float32", "float32", "float32"), "int8": ("int8", "int8", "int32"),
         "int8 per tensor": ("int8", "int8", "int32"), "int4": ("int8", "int4", "int32"),
         "uint8": ("uint8", "uint8", "int32"), "int16": ("int16", "int8", "int64"),
         "int16 int32": ("int16", "int8", "int32"), "int16 int4": ("int16", "int4", "int64"),
         "hybrid": ("float32", "int8", "float32"), "hybrid per tensor": ("float32", "int8", "float32"),
         "hybrid int4": ("float32", "int4", "float32")}


def filters(rng, shape, dtype):
    """Weights: sometimes the extremes of the type; large arrays repeat few values, so that stored models are small."""
    if np.prod(shape) > 10000:
        return np.resize(filters(rng, (97,), dtype), shape)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    low, high = {"int4": (-8, 7), "uint8": (0, 255)}.get(dtype, (-128, 127))
    if rng.random() < 0.2:
        return rng.choice([low, high], shape).astype("uint8" if dtype == "uint8" else "int8")
    return rng.integers(low, high + 1, shape).astype("uint8" if dtype == "uint8" else "int8")


def operands(m, rng, kind, x_shape, w_shape, axis, y_shape, bias=True):
    """Add x, w, b and y of a product whose results use most of y's range; returns (tensor indices, values of x)."""
    x_type, w_type, b_type = KINDS[kind]
    channels = w_shape[axis]
    depth = max(1, int(np.prod(w_shape)) // max(channels, 1))
    # Floats of moderate size: values clamped to [-1, 1] keep the rounding errors of the values before clamping.
    data = rng.standard_normal(x_shape).astype(np.float32) if x_type == "float32" else values(rng, x_shape, x_type)
    if data.size > 10000:
        data = np.resize(data.reshape(-1)[:1009], x_shape)
    weights = filters(rng, w_shape, w_type)
    if "hybrid" in kind:
        weights = np.maximum(weights, -127)     # the peer's vector code computes wrongly with -128
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
        y_scale = float(unit * rng.choice([0.2, 1e-4]))         # left shifts
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
