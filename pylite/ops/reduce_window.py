"""REDUCE_WINDOW and STABLEHLO_REDUCE_WINDOW: the elements of each window combined by a binary op."""
import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call, Temporary
from pylite.ops.dilate import dilated_copy
from pylite.ops.moves import filled, integers
from pylite.ops.wide import combining, region_op

_NUMBERS = "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 bool"


def output_shape(shape, window, strides, dilations):
    """The number of window positions along each axis of `shape`."""
    return tuple(max(0, (n - (w - 1) * d - 1) // s + 1) if n else 0
                 for n, w, s, d in zip(shape, window, strides, dilations, strict=True))


def reduced_windows(node, x, shape, op, start, window, strides, dilations):
    """Calls that combine the elements of each window of x by `op`.

    x: a Value with the `shape`; start: the initial value of each result, a Value; window, strides, dilations: one
    number for each axis.
    """
    y = node.outputs[0]
    x_steps, y_steps = shapes.contiguous_strides(shape), shapes.contiguous_strides(y.shape)
    loops = list(zip(window, (s * d for s, d in zip(x_steps, dilations, strict=True)), (0,) * len(window), strict=True))
    loops += zip(y.shape, (s * stride for s, stride in zip(x_steps, strides, strict=True)), y_steps, strict=True)
    loops = list(zip(*shapes.collapse(*zip(*loops, strict=True)), strict=True)) if loops else []
    return [filled(y, start), Call("indexing.Accumulate", x.bytes, y.bytes, *combining(op, y.dtype), axes=loops,
                                   x_item=y.itemsize, y_item=y.itemsize)]


# ---- REDUCE_WINDOW -------------------------------------------------------------------------------------------
_FUNCTIONS = {"ADD": "add", "MUL": "mul", "MINIMUM": "minimum", "MAXIMUM": "maximum", "ALL": "all", "ANY": "any"}


def window_operands(node):
    """(window, strides, dilations), one number for each axis."""
    x = node.inputs[0]
    operands = [tuple(integers(node.constant(i, what))) for i, what in (
        (2, "window shape"), (3, "window strides"), (4, "window dilations"))]
    if any(len(v) != len(x.shape) or min(v, default=1) < 1 for v in operands):
        raise node.error(f"has {len(x.shape)} dimensions, but window shape, strides and dilations are "
                         f"{operands!s:.200}", x)
    return operands


def infer_reduce_window(node):
    return [output_shape(node.inputs[0].shape, *window_operands(node))]


def lower_reduce_window(node):
    x = node.inputs[0]
    op = _FUNCTIONS.get(node.options.reduce_function)
    if op is None:
        raise node.error(f"has the reduce function {node.options.reduce_function}, which is unknown")
    return reduced_windows(node, x, x.shape, op, node.inputs[1], *window_operands(node))


register("REDUCE_WINDOW", types=[f"{t} {t} int64 int64 int64 -> {t}" for t in _NUMBERS.split()],
         infer=infer_reduce_window, lower=lower_reduce_window)


# ---- STABLEHLO_REDUCE_WINDOW ---------------------------------------------------------------------------------
def stablehlo_windows(node):
    """(shape of the dilated and padded input, padding before, base dilations, (window, strides, dilations))."""
    o, x = node.options, node.inputs[0]
    rank = len(x.shape)
    window, strides, base, dilations = (
        tuple(np.ravel(v).tolist()) if v is not None and len(v) else (1,) * rank
        for v in (o.window_dimensions, o.window_strides, o.base_dilations, o.window_dilations))
    pads = np.ravel(o.padding).tolist() if o.padding is not None and len(o.padding) else [0] * 2 * rank
    lists = (window, strides, base, dilations)
    if any(len(v) != rank or min(v, default=1) < 1 for v in lists) or len(pads) != 2 * rank:
        raise node.error(f"has {rank} dimensions, but window, strides, dilations and padding are {lists}, {pads}", x)
    padded = tuple(max(0, (n - 1) * d + 1 if n else 0) + low + high
                   for n, d, low, high in zip(x.shape, base, pads[::2], pads[1::2], strict=True))
    return tuple(max(0, n) for n in padded), pads[::2], base, (window, strides, dilations)


def infer_stablehlo_window(node):
    padded, _, _, windows = stablehlo_windows(node)
    return [output_shape(padded, *windows)]


def lower_stablehlo_window(node):
    x, start = node.inputs
    padded, low, base, windows = stablehlo_windows(node)
    op = region_op(node, node.options.body_subgraph_index)
    if op is None:
        raise node.error("reduces by a subgraph that gives one of its inputs")
    if padded == x.shape and not any(low):
        return reduced_windows(node, x, padded, op, start, *windows)
    source = Temporary(node, padded, x.dtype)
    return [*dilated_copy(x, source, start, low, [d - 1 for d in base]),
            *reduced_windows(node, source, padded, op, start, *windows)]


register("STABLEHLO_REDUCE_WINDOW", types=[f"{t} {t} -> {t}" for t in _NUMBERS.split() + ["uint64"]],
         infer=infer_stablehlo_window, lower=lower_stablehlo_window)
