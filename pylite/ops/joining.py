"""Ops that join tensors along an axis or take one apart: CONCATENATION, PACK, SPLIT, SPLIT_V, UNPACK.

Along any axis, a tensor is `outer` rows of so many elements each, and a part is a strip of those rows.
"""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Alias, Call
from pylite.numerics.quantization import round_away
from pylite.ops.moves import MOVABLE, axis_of, check_same_parameters, copy, integers, scalar, strip


def joined(node, outer, runs):
    """Calls that lay the inputs side by side; runs: elements of each input in a row."""
    y, width, start, calls = node.outputs[0], sum(runs), 0, []
    for x, run in zip(node.inputs, runs, strict=True):
        if run and outer:
            calls.append(_join(x, y, outer, run, width, start))
        start += run
    return calls


def _join(x, y, outer, run, width, start):
    if x.dtype == "uint8" and x.quantized and y.quantized and (x.scale, x.zero_point) != (y.scale, y.zero_point):
        return Call("movement.LookUpRows", x.view((outer, run)), rescaled(x, y), strip(y, outer, width, start, run))
    if run == width:
        return Alias(y, x)
    return copy(x.view((outer, run)), strip(y, outer, width, start, run))


def rescaled(x, y):
    """What each uint8 of x is with y's parameters, in float32 as the peer does it (docs/numerics.md section 9)."""
    k = np.float32(x.scale * (np.float32(1) / y.scale))
    c = np.float32(-x.zero_point) * k
    values = (np.arange(256, dtype=np.float32) * k + c).tolist()
    return np.array([min(max(round_away(v) + y.zero_point, 0), 255) for v in values], np.uint8)


def taken_apart(node, x, outer, runs):
    """Calls that fill each output with its strip of x; runs: elements of each output in a row."""
    width, start, calls = sum(runs), 0, []
    for y, run in zip(node.outputs, runs, strict=True):
        if run == width:
            return [Alias(y, x)]
        if run and outer and y is not None:
            calls.append(copy(strip(x, outer, width, start, run), y.view((outer, run))))
        start += run
    return calls


# ---- CONCATENATION and PACK ----------------------------------------------------------------------------------
def _all(node):
    """The inputs, none of which may be absent."""
    if None in node.inputs or not node.inputs:
        raise node.error("an input is missing")
    return node.inputs


def infer_concatenation(node):
    inputs = _all(node)
    x = inputs[0]
    if node.options.fused_activation_function != "NONE":
        raise node.error(f"has the activation {node.options.fused_activation_function}, which nothing defines")
    if not x.shape and all(not value.shape for value in inputs):
        return [(len(inputs),)]         # scalars make a vector
    axis = axis_of(node, node.options.axis, len(x.shape), x)
    for value in inputs:
        if len(value.shape) != len(x.shape) or any(
                a != b for i, (a, b) in enumerate(zip(value.shape, x.shape, strict=True)) if i != axis):
            raise node.error(f"of shape {list(value.shape)} cannot be joined with {list(x.shape)} along axis {axis}",
                             value)
    return [x.shape[:axis] + (sum(value.shape[axis] for value in inputs),) + x.shape[axis + 1:]]


def lower_concatenation(node):
    if node.outputs[0].dtype == "int8":
        check_same_parameters(node, node.outputs + node.inputs)
    shape = node.inputs[0].shape
    axis = node.options.axis % max(len(shape), 1)
    return joined(node, prod(shape[:axis]), [prod(x.shape[axis:]) for x in node.inputs])


register("CONCATENATION", versions=(1, 7), types=[f"{t} {t}* -> {t}" for t in MOVABLE], infer=infer_concatenation,
         lower=lower_concatenation, reference=lambda *a: np.concatenate(a[:-1], a[-1].axis), aliasing="concat")


def infer_pack(node):
    x = _all(node)[0]
    axis = axis_of(node, node.options.axis, len(x.shape) + 1, x)
    for value in node.inputs:
        if value.shape != x.shape:
            raise node.error(f"of shape {list(value.shape)} cannot be stacked on {list(x.shape)}", value)
    return [x.shape[:axis] + (len(node.inputs),) + x.shape[axis:]]


def lower_pack(node):
    check_same_parameters(node, node.outputs + node.inputs)
    shape = node.inputs[0].shape
    axis = node.options.axis % (len(shape) + 1)
    return joined(node, prod(shape[:axis]), [prod(shape[axis:])] * len(node.inputs))


register("PACK", versions=(1, 5), types=[f"{t} {t}* -> {t}" for t in MOVABLE], infer=infer_pack, lower=lower_pack,
         reference=lambda *a: np.stack(a[:-1], a[-1].axis), aliasing="concat")


# ---- SPLIT, SPLIT_V and UNPACK -------------------------------------------------------------------------------
def split(node, x, axis, sizes):
    return taken_apart(node, x, prod(x.shape[:axis]), [n * prod(x.shape[axis + 1:]) for n in sizes])


def split_parts(node):
    """SPLIT: (x, axis, sizes) for as many equal parts as there are outputs."""
    x, parts = node.inputs[1], len(node.outputs)
    axis = axis_of(node, scalar(node, 0, "axis"), len(x.shape), x)
    if x.shape[axis] % parts:
        raise node.error(f"of shape {list(x.shape)} cannot be split in {parts} equal parts along axis {axis}", x)
    return x, axis, [x.shape[axis] // parts] * parts


def split_v_parts(node):
    """SPLIT_V: (x, axis, sizes); one size may be -1, what is left over."""
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


def split_shapes(x, axis, sizes):
    return [x.shape[:axis] + (n,) + x.shape[axis + 1:] for n in sizes]


def reference_split_v(x, sizes, axis, options):
    left_over = x.shape[axis.item()] - sizes[sizes >= 0].sum()
    return np.split(x, np.cumsum(np.where(sizes < 0, left_over, sizes))[:-1], axis.item())


register("SPLIT", versions=(1, 5), types=[f"int32 {t} -> {t} {t}*" for t in MOVABLE],
         infer=lambda node: split_shapes(*split_parts(node)), lower=lambda node: split(node, *split_parts(node)),
         reference=lambda axis, x, options: np.split(x, options.num_splits, axis.item()), aliasing="split")
register("SPLIT_V", versions=(1, 3), types=[f"{t} int32|int64 int32 -> {t} {t}*" for t in MOVABLE],
         infer=lambda node: split_shapes(*split_v_parts(node)), lower=lambda node: split(node, *split_v_parts(node)),
         reference=reference_split_v, aliasing="split")


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
