"""DILATE and STABLEHLO_PAD: a tensor with gaps between its elements, and a border that may also crop."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.moves import copy, filled, integers, movable, region, shape_operand


def dilated_copy(x, y, fill, low, gaps):
    """Calls that fill y and copy x into it, cropped to y.

    low: the index in y of x's first element on each axis, which may be negative; gaps: elements of `fill` between two
    elements of x on each axis.
    """
    first, last = [], []
    for n, size, start, gap in zip(x.shape, y.shape, low, gaps, strict=True):
        first.append(max(0, -(start // (gap + 1))))
        last.append(min(n, (size - 1 - start) // (gap + 1) + 1))
    shape = tuple(max(0, b - a) for a, b in zip(first, last, strict=True))
    calls = [filled(y, fill)] if prod(shape) < y.size else []
    if prod(shape):
        y_strides = contiguous_strides(y.shape)
        offset = sum((start + a * (gap + 1)) * s for start, a, gap, s in zip(low, first, gaps, y_strides, strict=True))
        strides = tuple(s * (gap + 1) for s, gap in zip(y_strides, gaps, strict=True))
        source = region(x, first, shape)
        calls.append(copy(source, y.view(shape, strides, offset)))
    return calls


# ---- DILATE --------------------------------------------------------------------------------------------------
def infer_dilate(node):
    x, dilations = node.inputs[0], shape_operand(node, 1, "dilations")
    if len(dilations) != len(x.shape) or 0 in dilations:
        raise node.error(f"has {len(x.shape)} dimensions, but dilations are {list(dilations)}", x)
    return [tuple((n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilations, strict=True))]


def lower_dilate(node):
    x, y = node.inputs[0], node.outputs[0]
    gaps = [d - 1 for d in shape_operand(node, 1, "dilations")]
    return dilated_copy(x, y, node.inputs[2], [0] * len(gaps), gaps)


register("DILATE", types=movable("T int32 T -> T"), infer=infer_dilate, lower=lower_dilate)


# ---- STABLEHLO_PAD -------------------------------------------------------------------------------------------
def paddings(node):
    """(before, after, between), lists of int for the axes; before and after may be negative."""
    o, x = node.options, node.inputs[0]
    lists = [integers(np.asarray(v)) for v in (o.edge_padding_low, o.edge_padding_high, o.interior_padding)]
    if any(len(v) != len(x.shape) for v in lists) or min(lists[2], default=0) < 0:
        raise node.error(f"has {len(x.shape)} dimensions, but paddings of {lists}", x)
    return lists


def infer_stablehlo_pad(node):
    x = node.inputs[0]
    low, high, gaps = paddings(node)
    shape = tuple(n + max(n - 1, 0) * gap + a + b for n, a, b, gap in zip(x.shape, low, high, gaps, strict=True))
    return [shape if min(shape, default=1) > 0 else (0,) * len(shape)]      # as the reference


def lower_stablehlo_pad(node):
    low, _, gaps = paddings(node)
    return dilated_copy(node.inputs[0], node.outputs[0], node.inputs[1], low, gaps)


register("STABLEHLO_PAD", types=movable("T T -> T"), infer=infer_stablehlo_pad, lower=lower_stablehlo_pad)
