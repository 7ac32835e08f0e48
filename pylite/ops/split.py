"""SPLIT, SPLIT_V and UNPACK: slices of a tensor along an axis.

The input is `rows` rows, one for each index of the axes before; an output is a range of columns of them.
"""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Alias
from pylite.ops.moves import MOVABLE, axis_of, check_same_parameters, columns, copy, integers, scalar


def split_shapes(x, axis, sizes):
    return [x.shape[:axis] + (n,) + x.shape[axis + 1:] for n in sizes]


def split(node, x, axis, sizes):
    """Calls that copy the slices of `sizes` along the axis to the outputs."""
    rows, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1:])
    width, start, calls = sum(sizes) * inner, 0, []
    for y, size in zip(node.outputs, sizes, strict=True):
        count = size * inner
        if count == width:
            return [Alias(y, x)]
        if count and rows and y is not None:
            calls.append(copy(columns(x, rows, width, start, count), y.view((rows, count))))
        start += count
    return calls


# ---- SPLIT ---------------------------------------------------------------------------------------------------
def equal_slices(node):
    """(x, axis, sizes) of as many equal slices as there are outputs."""
    x, count = node.inputs[1], len(node.outputs)
    axis = axis_of(node, scalar(node, 0, "axis"), len(x.shape), x)
    if x.shape[axis] % count:
        raise node.error(f"of shape {list(x.shape)} cannot be split in {count} equal parts along axis {axis}", x)
    return x, axis, [x.shape[axis] // count] * count


register("SPLIT", versions=(1, 5), types=[f"int32 {t} -> {t} {t}*" for t in MOVABLE],
         infer=lambda node: split_shapes(*equal_slices(node)), lower=lambda node: split(node, *equal_slices(node)),
         reference=lambda axis, x, options: np.split(x, options.num_splits, axis.item()), aliasing="split")


# ---- SPLIT_V -------------------------------------------------------------------------------------------------
def sized_slices(node):
    """(x, axis, sizes); one size may be -1, which stands for the remaining elements."""
    x = node.inputs[0]
    sizes = integers(node.constant(1, "sizes"))
    axis = axis_of(node, scalar(node, 2, "axis"), len(x.shape), x)
    given = list(sizes)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(n for n in sizes if n != -1)
    if len(sizes) != len(node.outputs) or min(sizes, default=0) < 0 or sum(sizes) != x.shape[axis]:
        raise node.error(f"of shape {list(x.shape)} cannot be split in {len(node.outputs)} parts of sizes {given} "
                         f"along axis {axis}", x)
    return x, axis, sizes


def reference_split_v(x, sizes, axis, options):
    remaining = x.shape[axis.item()] - sizes[sizes >= 0].sum()
    return np.split(x, np.cumsum(np.where(sizes < 0, remaining, sizes))[:-1], axis.item())


register("SPLIT_V", versions=(1, 3), types=[f"{t} int32|int64 int32 -> {t} {t}*" for t in MOVABLE],
         infer=lambda node: split_shapes(*sized_slices(node)), lower=lambda node: split(node, *sized_slices(node)),
         reference=reference_split_v, aliasing="split")


# ---- UNPACK --------------------------------------------------------------------------------------------------
def infer_unpack(node):
    x = node.inputs[0]
    axis = axis_of(node, node.options.axis, len(x.shape), x)
    if x.shape[axis] != len(node.outputs):
        raise node.error(f"of shape {list(x.shape)} does not give {len(node.outputs)} parts along axis {axis}", x)
    return [x.shape[:axis] + x.shape[axis + 1:]] * len(node.outputs)


def lower_unpack(node):
    x = node.inputs[0]
    check_same_parameters(node, node.inputs + node.outputs)
    axis = node.options.axis % len(x.shape)
    return split(node, x, axis, [1] * len(node.outputs))


register("UNPACK", versions=(1, 6), types=[f"{t} -> {t} {t}*" for t in MOVABLE], infer=infer_unpack,
         lower=lower_unpack, reference=lambda x, options: list(np.moveaxis(x, options.axis, 0)), aliasing="split")
