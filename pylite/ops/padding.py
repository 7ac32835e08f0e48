"""PAD, PADV2 and MIRROR_PAD: a copy of x inside y, and the border around it."""
import numpy as np

from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Alias, FoldablePad
from pylite.ops.moves import (
    STORED_INTEGERS,
    check_same_parameters,
    copy,
    integers,
    movable,
    region,
    repeated,
)

WIDTHS = "int8|int16|int32|int64|bool"


def paddings(node):
    """[(before, after)] of each axis."""
    x = node.inputs[0]
    widths = integers(node.constant(1, "paddings"))
    if len(widths) != 2 * len(x.shape):
        raise node.error(f"has {len(x.shape)} dimensions, but paddings has {len(widths)} values", x)
    pairs = [(int(a), int(b)) for a, b in zip(widths[::2], widths[1::2], strict=True)]
    if min(widths, default=0) < 0:
        raise node.error(f"cannot be padded by {pairs}: a width is negative", x)
    return pairs


def infer_pad(node):
    x = node.inputs[0]
    return [tuple(n + before + after for n, (before, after) in zip(x.shape, paddings(node), strict=True))]


# ---- PAD and PADV2 -------------------------------------------------------------------------------------------
def lower_pad(node):
    x, y = node.inputs[0], node.outputs[0]
    fill = node.input(2)
    if fill is None:
        zero = y.zero_point if y.dtype in STORED_INTEGERS else 0
        fill = np.array(zero, NUMPY_DTYPES[y.dtype])
    else:
        if fill.size != 1:
            raise node.error(f"pads with one value, but it has {fill.size}", fill)
        check_same_parameters(node, [y, fill])
    pairs = paddings(node)
    calls = []
    if x.size == y.size:
        return Alias(y, x)
    if x.size:
        calls.append(copy(x, region(y, [before for before, _ in pairs], x.shape)))
    calls += [copy(repeated(fill, shape), region(y, first, shape)) for first, shape in borders(x, y, pairs)]
    known = fill if isinstance(fill, np.ndarray) else fill.data
    return calls if known is None or not x.size else [*calls, FoldablePad(y, x, pairs, known.item())]


def borders(x, y, pairs):
    """(first index, shape) of disjoint blocks that cover y around x; those of outer axes span all inner ones."""
    for axis, (before, after) in enumerate(pairs):
        for start, width in ((0, before), (before + x.shape[axis], after)):
            shape = x.shape[:axis] + (width,) + y.shape[axis + 1:]
            if 0 not in shape:
                yield [b for b, _ in pairs[:axis]] + [start] + [0] * (len(shape) - axis - 1), shape


def reference_pad(x, widths, *fill_and_options):
    return np.pad(x, widths, constant_values=fill_and_options[0] if len(fill_and_options) == 2 else 0)


register("PAD", versions=(1, 6), types=movable(f"T {WIDTHS} T? -> T"), infer=infer_pad, lower=lower_pad,
         reference=reference_pad, aliasing="concat")
register("PADV2", versions=(1, 6), types=movable(f"T {WIDTHS} T? -> T"), infer=infer_pad, lower=lower_pad,
         reference=reference_pad, aliasing="concat")


# ---- MIRROR_PAD ----------------------------------------------------------------------------------------------
def lower_mirror_pad(node):
    """A copy of x, then for each axis the mirrored border, read from the part of y that is complete by then.

    REFLECT mirrors at the last element without repeating it; SYMMETRIC repeats it.
    """
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype in STORED_INTEGERS:
        check_same_parameters(node, [x, y])
    pairs = paddings(node)
    skip = int(node.options.mode == "REFLECT")
    if any(max(pair) > n - skip for n, pair in zip(x.shape, pairs, strict=True)):
        raise node.error(f"of shape {list(x.shape)} is too small to be mirrored by {pairs}", x)
    if x.size == y.size:
        return Alias(y, x)
    calls = [copy(x, region(y, [before for before, _ in pairs], x.shape))]
    strides = contiguous_strides(y.shape)
    for axis, (before, after) in enumerate(pairs):
        last = before + x.shape[axis] - 1
        for to, source, width in ((0, 2 * before - 1 + skip, before), (last + 1, last - skip, after)):
            if width:
                shape = y.shape[:axis] + (width,) + x.shape[axis + 1:]
                start = sum(b * s for (b, _), s in zip(pairs[axis + 1:], strides[axis + 1:], strict=True))
                step = strides[axis]
                mirrored = strides[:axis] + (-step,) + strides[axis + 1:]
                calls.append(copy(y.view(shape, mirrored, start + source * step),
                                  y.view(shape, strides, start + to * step)))
    return calls


register("MIRROR_PAD", versions=(1, 3), types=movable("T int32|int64 -> T"), infer=infer_pad, lower=lower_mirror_pad,
         reference=lambda x, widths, options: np.pad(x, widths, options.mode.lower()))
