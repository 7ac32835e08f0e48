"""CONCATENATION and PACK: tensors joined along an axis, or along a new one.

The output is `rows` rows, one for each index of the axes before; an input is a range of columns of them.
"""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Alias, Call
from pylite.numerics.quantization import round_away
from pylite.ops.moves import MOVABLE, axis_of, check_same_parameters, columns, copy, require_present


def concatenated(node, rows, counts):
    """Calls that copy the inputs side by side; counts: elements of each input in a row."""
    y, width, start, calls = node.outputs[0], sum(counts), 0, []
    for x, count in zip(node.inputs, counts, strict=True):
        if count and rows:
            calls.append(_copy_columns(x, y, rows, count, width, start))
        start += count
    return calls


def _copy_columns(x, y, rows, count, width, start):
    if x.dtype == "uint8" and parameters(x) != parameters(y):
        return Call("movement.LookUpRows", x.view((rows, count)), requantized(*parameters(x), *parameters(y)),
                    columns(y, rows, width, start, count))
    if count == width:
        return Alias(y, x)
    return copy(x.view((rows, count)), columns(y, rows, width, start, count))


def parameters(value):
    """(scale, zero point); as in the reference, a tensor without a scale has the scale 0."""
    return (value.scale, value.zero_point) if value.quantized else (np.float32(0), 0)


def requantized(x_scale, x_zero, y_scale, y_zero):
    """The table from x's uint8 values to y's, computed in float32 as in the reference kernel.

    NaN (if y_scale is 0), and what does not fit an int32, becomes the least int32, as x86-64 converts it.
    """
    with np.errstate(all="ignore"):
        k = np.float32(x_scale * (np.float32(1) / y_scale))
        values = np.arange(256, dtype=np.float32) * k + np.float32(-x_zero) * k
    values[~(abs(values) < 2.0**31)] = -(2.0**31)
    return np.array([min(max(round_away(v) + y_zero, 0), 255) for v in values.tolist()], np.uint8)


def present_inputs(node):
    """The inputs, of which there is at least one and none may be absent."""
    if not node.inputs:
        raise node.error("has no inputs; at least one is needed")
    require_present(node, node.inputs)
    return node.inputs


# ---- CONCATENATION -------------------------------------------------------------------------------------------
def infer_concatenation(node):
    inputs = present_inputs(node)
    x = inputs[0]
    if node.options.fused_activation_function != "NONE":
        raise node.error(f"has the activation {node.options.fused_activation_function}, which is not defined for this "
                         f"op")
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
    return concatenated(node, prod(shape[:axis]), [prod(x.shape[axis:]) for x in node.inputs])


register("CONCATENATION", versions=(1, 7), types=[f"{t} {t}* -> {t}" for t in MOVABLE], infer=infer_concatenation,
         lower=lower_concatenation, reference=lambda *a: np.concatenate(a[:-1], a[-1].axis), aliasing="concat",
         conditions=("int16: * zero_point = 0",))


# ---- PACK ----------------------------------------------------------------------------------------------------
def infer_pack(node):
    x = present_inputs(node)[0]
    axis = axis_of(node, node.options.axis, len(x.shape) + 1, x)
    for value in node.inputs:
        if value.shape != x.shape:
            raise node.error(f"of shape {list(value.shape)} cannot be stacked on {list(x.shape)}", value)
    return [x.shape[:axis] + (len(node.inputs),) + x.shape[axis:]]


def lower_pack(node):
    check_same_parameters(node, node.outputs + node.inputs)
    shape = node.inputs[0].shape
    axis = node.options.axis % (len(shape) + 1)
    return concatenated(node, prod(shape[:axis]), [prod(shape[axis:])] * len(node.inputs))


register("PACK", versions=(1, 5), types=[f"{t} {t}* -> {t}" for t in MOVABLE], infer=infer_pack, lower=lower_pack,
         reference=lambda *a: np.stack(a[:-1], a[-1].axis), aliasing="concat")
