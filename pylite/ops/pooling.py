"""Pooling over the windows of an NHWC image."""
import math

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register, same
from pylite.ir.values import Call
from pylite.numerics import quantization
from pylite.ops.moves import fold_pad, pixels


def infer_pool(node):
    x, o = node.inputs[0], node.options
    if len(x.shape) != 4:
        raise node.error("pooling needs 4 dimensions (batch, height, width, channels)", x)
    if min(o.stride_h, o.stride_w, o.filter_height, o.filter_width) < 1:
        raise node.error(f"strides ({o.stride_h}, {o.stride_w}) and filter ({o.filter_height}, {o.filter_width}) must "
                         "be at least 1")
    n, h, w, c = x.shape
    rows = shapes.window_output(h, o.filter_height, o.stride_h, 1, o.padding)
    cols = shapes.window_output(w, o.filter_width, o.stride_w, 1, o.padding)
    return [(n, 0 if cols < 0 else max(rows, 0), max(cols, 0), c)]      # no rows, either: as the reference


def clamp(node):
    """(low, high) of the output; TANH and SIGN_BIT have no effect on pooling."""
    y, activation = node.outputs[0], node.options.fused_activation_function
    if y.dtype == "float32":
        return quantization.activation_bounds(activation)
    if activation in ("NONE", "TANH", "SIGN_BIT"):
        return quantization.LIMITS[y.dtype]
    if not y.quantized or y.scale <= 0:
        raise node.error(f"needs a scale above 0 for the fused activation {activation}", y)
    return quantization.activation_range(activation, y.dtype, y.scale, y.zero_point)


def lower_pool(operation):
    def lower(node):
        (x,), (y,), o = node.inputs, node.outputs, node.options
        _, h, w, _ = x.shape
        _, rows, cols, _ = y.shape
        top, below = shapes.window_padding(h, o.filter_height, o.stride_h, 1, rows)
        left, right = shapes.window_padding(w, o.filter_width, o.stride_w, 1, cols)
        pad = top, left
        if operation == "max":      # padding with the least number changes no maximum
            least = -math.inf if x.dtype == "float32" else quantization.LIMITS[x.dtype][0]
            x, pad = fold_pad(node, x, least, (o.filter_height - 1, o.filter_width - 1), pad, (below, right))
        cols = o.filter_width
        if y.shape[2] == 1:         # without the taps that are outside, windows may be as wide as the image
            cols, pad = min(cols - pad[1], x.shape[2]), (pad[0], 0)
        # Floats are added in another order if pixels lie apart.
        strided = (0, 1) if operation == "max" or x.dtype != "float32" else ()
        return Call("pooling.Pooling", pixels(x), pixels(y), operation, x.dtype,
                    window=(o.filter_height, cols), stride=(o.stride_h, o.stride_w), before=pad,
                    limits=clamp(node), strided=strided)
    return lower


def reference_pool(reduce):
    """Pooling of real numbers: `reduce` maps the taps of one window (n, rows, cols, c) to (n, c)."""
    def pool(x, o):
        n, h, w, c = x.shape
        rows = max(shapes.window_output(h, o.filter_height, o.stride_h, 1, o.padding), 0)
        cols = max(shapes.window_output(w, o.filter_width, o.stride_w, 1, o.padding), 0)
        top, _ = shapes.window_padding(h, o.filter_height, o.stride_h, 1, rows)
        left, _ = shapes.window_padding(w, o.filter_width, o.stride_w, 1, cols)
        y = np.empty((n, rows, cols, c))
        for i in range(rows):
            for j in range(cols):
                r, k = i * o.stride_h - top, j * o.stride_w - left
                y[:, i, j] = reduce(x[:, max(r, 0):r + o.filter_height, max(k, 0):k + o.filter_width])
        return np.clip(y, *quantization.activation_bounds(o.fused_activation_function))
    return pool


def _average(taps):
    return taps.mean((1, 2))


def _max(taps):
    return taps.max((1, 2))


def _root_mean_square(taps):
    return np.sqrt((taps * taps).mean((1, 2)))


register("AVERAGE_POOL_2D", versions=(1, 3), types=same("float32 int8 uint8 int16"), infer=infer_pool,
         fuses_activation=True, lower=lower_pool("average"), reference=reference_pool(_average))
register("MAX_POOL_2D", versions=(1, 3), types=same("float32 int8 uint8 int16"), infer=infer_pool,
         fuses_activation=True, lower=lower_pool("max"), reference=reference_pool(_max))
register("L2_POOL_2D", types=same("float32"), infer=infer_pool, fuses_activation=True, lower=lower_pool("l2"),
         reference=reference_pool(_root_mean_square))
