"""CONV_2D and DEPTHWISE_CONV_2D.  docs/numerics.md sections 3 and 4."""
import math

import numpy as np

from pylite._core import simd
from pylite._core.product import layouts
from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ops import products
from pylite.ops.convolution_calls import lower_channels, lower_images
from pylite.ops.convolution_window import Operands, Window, check_images, output_shape, window_of
from pylite.ops.moves import fold_pad

TYPES = ["float32 float32 float32? -> float32",
         "float32 int8|int4 float32? -> float32",
         "uint8 uint8 int32? -> uint8",
         "int8 int8|int4 int32? -> int8",
         "int16 int8 int32|int64? -> int16"]
MAX_TAPS = 1024             # largest filter that the depthwise kernels take, or whose taps are looked at
MAX_HYBRID_TAPS = 512       # the same for float images and integer weights: float32 has the sums exactly
MERGED_COLUMNS = 16         # most columns of groups that are merged, so that they fill the vectors of an ISA level;
NEON_COLUMNS = 8            # the same for NEON without dot products, where a product with 0 takes longer


def _operands(node):
    x, w = node.inputs[:2]
    return Operands(x, w, node.input(2), node.outputs[0])


def _fold_pad(node, operands, window):
    """Replace x by the input of the PAD that computes it, where the kernels see the same border around that."""
    reach = (window.fh - 1) * window.dilation[0], (window.fw - 1) * window.dilation[1]
    x = operands.x
    source, window.pad = fold_pad(node, x, x.zero_point, reach, window.pad)
    if source is not x:
        operands.x = source
        window.note = f"sees the border around tensor {source.index} by itself"


def _near_taps(window, axis, size, out):
    """The range of taps along an axis that meet a pixel; of all if none does."""
    taps, step, stride, pad = (window.fh, window.fw)[axis], window.dilation[axis], window.stride[axis], window.pad[axis]
    if taps == 1 or taps > MAX_TAPS or size > (taps - 1) * step:
        return range(taps)
    first = [max(0, -((k * step - pad) // stride)) for k in range(taps)]    # output pixels after the image's edge
    near = [k for k, i in enumerate(first) if i < out and i * stride + k * step - pad < size]
    return range(near[0], near[-1] + 1) if near else range(taps)


def _drop_far_taps(x, y, window):
    """Leave out the taps that only meet padding: 3 x 3 filters of a series have them."""
    near = [_near_taps(window, axis, x.shape[1 + axis], y.shape[1 + axis]) for axis in (0, 1)]
    rows, columns = near
    if window.groups > 1 or (len(rows), len(columns)) == (window.fh, window.fw):
        return
    pad = [p - taps.start * step for p, taps, step in zip(window.pad, near, window.dilation, strict=True)]
    dilation = [step if len(taps) > 1 else 1 for taps, step in zip(near, window.dilation, strict=True)]
    window.fh, window.fw, window.pad, window.dilation = len(rows), len(columns), tuple(pad), tuple(dilation)
    window.layout = layouts.NearTaps(rows.start, rows.stop, columns.start, columns.stop)
    window.explain(f"{window.fh} x {window.fw} taps meet pixels")


def _noted(calls, *notes):
    for call in calls:
        call.note = "; ".join(filter(None, notes)) or None
    return calls


# ---- CONV_2D -------------------------------------------------------------------------------------------------
def infer_conv(node):
    x, w = node.inputs[:2]
    check_images(node, x, w)
    filters, c = w.shape[0], w.shape[3]
    if 0 in (c, x.shape[3]):
        raise node.error("it has no channels; expected at least one", w if c == 0 else x)
    if x.shape[3] < c or x.shape[3] % c:
        raise node.error(f"its {x.shape[3]} channels are not a multiple of the {c} that filters of shape "
                         f"{list(w.shape)} read", x)
    groups = x.shape[3] // c
    if filters % groups:
        raise node.error(f"{filters} filters of shape {list(w.shape)} cannot be shared by {groups} groups of its "
                         f"{x.shape[3]} channels; expected a multiple of {groups}", x)
    return [output_shape(node, x, w, filters)]


def lower_conv(node):
    operands = _operands(node)
    w, b, y = operands.w, operands.b, operands.y
    window = window_of(node, operands.x, w, y)
    _fold_pad(node, operands, window)
    window.groups = operands.x.shape[3] // w.shape[3]
    products.check(node, operands.x, w, b, y, y.shape[3], axis=0)
    x = operands.x
    if w.shape[3] == 1 < window.groups and (x.dtype == "float32") == (w.dtype == "float32") and _by_channels(
            x, w, y, window):
        return _noted([lower_channels(node, operands, window, layouts.Depthwise())], "channel by channel", window.note)
    _drop_far_taps(x, y, window)
    return _noted(lower_images(node, operands, _merged_groups(operands, window)), window.note)


def _merged_groups(operands, window):
    """A Window with fewer groups, its filters with weights of 0 for the channels of others, where that pays; else the
    same one.

    Columns of one group do not fill a vector; a product with 0 costs no more than an unused lane.  Not for floats, as
    in spread_taps().
    """
    x, w, y = operands.x, operands.w, operands.y
    columns = NEON_COLUMNS if simd.current == "neon" else MERGED_COLUMNS
    most = columns * window.groups // max(y.shape[3], 1)
    merged = max((n for n in range(2, most + 1) if window.groups % n == 0), default=1)
    if merged == 1 or x.dtype not in ("int8", "uint8"):
        return window
    window.explain(f"{merged} groups as one, with weights of 0")
    return Window(window.fh, window.fw, window.stride, window.dilation, window.pad, window.groups // merged,
                  layouts.MergedGroups(window.groups, merged, w.zero_point))


def reference_conv(x, w, b, o):
    """CONV_2D of real numbers, NHWC images and OHWI filters."""
    groups = x.shape[3] // w.shape[3]
    size = [shapes.window_output(n, f, s, d, o.padding) for n, f, s, d in zip(
        x.shape[1:3], w.shape[1:3], (o.stride_h, o.stride_w), (o.dilation_h_factor, o.dilation_w_factor), strict=True)]
    y = np.zeros((len(x), *size, len(w)))
    before = [shapes.window_padding(n, f, s, d, m)[0] for n, f, s, d, m in zip(
        x.shape[1:3], w.shape[1:3], (o.stride_h, o.stride_w), (o.dilation_h_factor, o.dilation_w_factor), size,
        strict=True)]
    reach = [math.ceil(s * m + d * f) for s, m, d, f in zip(
        (o.stride_h, o.stride_w), size, (o.dilation_h_factor, o.dilation_w_factor), w.shape[1:3], strict=True)]
    padded = np.pad(x, ((0, 0), *((p, max(0, r - n)) for p, r, n in zip(before, reach, x.shape[1:3], strict=True)),
                        (0, 0)))
    for i, j in np.ndindex(*w.shape[1:3]):
        seen = padded[:, i * o.dilation_h_factor:, j * o.dilation_w_factor:][:, ::o.stride_h, ::o.stride_w]
        seen = seen[:, :size[0], :size[1]]
        parts = zip(np.split(seen, groups, 3), np.split(w[:, i, j], groups), strict=True)
        y += np.concatenate([a @ v.T for a, v in parts], 3)
    return y if b is None else y + b


register("CONV_2D", versions=(1, 8), types=[*TYPES, "int16 int4 int32|int64? -> int16"], infer=infer_conv,
         lower=lower_conv, reference=reference_conv, fuses_activation=True, opaque=(1, 2), packs=1)


# ---- DEPTHWISE_CONV_2D ---------------------------------------------------------------------------------------
def infer_depthwise(node):
    x, w = node.inputs[:2]
    check_images(node, x, w)
    if w.shape[0] != 1:
        raise node.error("the first dimension of a depthwise filter must be 1", w)
    if x.shape[3] == 0:
        raise node.error("it has no channels; expected at least one", x)
    if w.shape[3] % x.shape[3]:
        raise node.error(f"its {w.shape[3]} channels are not a multiple of the input's {x.shape[3]}", w)
    return [output_shape(node, x, w, w.shape[3])]


def lower_depthwise(node):
    operands = _operands(node)
    w, b, y = operands.w, operands.b, operands.y
    window = window_of(node, operands.x, w, y)
    _fold_pad(node, operands, window)
    x = operands.x
    products.check(node, x, w, b, y, y.shape[3], axis=3)
    if _by_channels(x, w, y, window):
        _drop_far_taps(x, y, window)
        layout = () if window.layout is None else (window.layout,)
        return _noted([lower_channels(node, operands, window, *layout)], "channel by channel", window.note)
    window.groups, window.layout = x.shape[3], layouts.Depthwise()
    return _noted(lower_images(node, operands, window),
                  "in groups, for a channel has several outputs" if y.shape[3] != x.shape[3] else None, window.note)


def _by_channels(x, w, y, window):
    """Does the kernel of depthwise convolutions take them?  Images of a single channel make plain convolutions."""
    c, hybrid = y.shape[3], x.dtype == "float32" != w.dtype
    if x.shape[3] == 1 and (c == 1 or (not hybrid and x.dtype != "int16")):
        return False
    if window.fh * window.fw > (MAX_HYBRID_TAPS if hybrid else MAX_TAPS):
        return False
    if x.shape[3] == c:
        return True
    # imported on demand: few models repeat channels
    from pylite._core.kernels.depthwise import CHANNELS_OF_SLICE, MAX_PATCH_BYTES
    if x.dtype == "float32":
        c = min(c, math.lcm(c // x.shape[3], CHANNELS_OF_SLICE))
    return window.fh * ((window.fw - 1) * window.dilation[1] + 1) * c * x.itemsize <= MAX_PATCH_BYTES


register("DEPTHWISE_CONV_2D", versions=(1, 7), types=TYPES, infer=infer_depthwise, lower=lower_depthwise,
         fuses_activation=True, opaque=(1, 2), packs=1)
