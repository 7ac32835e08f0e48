"""Reductions over axes: mean, sum, maximum, minimum."""
import math
from struct import pack

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register, same
from pylite.ir.values import Call, Constant, Temporary
from pylite.numerics import fixed_point, quantization
from pylite.ops.filling import filled, spread
from pylite.ops.wide import combining, region_op

TYPES = [t.replace(" ->", " int32 ->") for t in same("float32 int8 uint8 int16 int32 int64")]
BOOL = ["bool int32 -> bool"]
QUANTIZED = ("int8", "uint8", "int16")


def reduced_axes(node):
    """The axes to reduce, counted from the front, sorted, each once.  A scalar has none, whatever is asked for."""
    x = node.inputs[0]
    axes = node.constant(1, "list of axes").ravel().tolist()
    if not x.shape:
        return ()
    try:
        return shapes.resolve_axes(axes, len(x.shape))
    except ValueError as error:
        raise node.error(str(error), x)


def infer_reduce(node):
    return [shapes.reduced(node.inputs[0].shape, reduced_axes(node), node.options.keep_dims)]


def walk(shape, axes):
    """How a kernel walks an array of `shape` whose `axes` are reduced: (kept, loops, run).

    kept: (size, stride) of the axes left, neighbours merged, at least one; loops: the same of the reduced ones;
    run: how many consecutive elements are reduced inside the loops, or 0 when the last axis is kept.
    """
    groups = []                             # [reduced?, size, stride], innermost first
    step = 1
    for i in range(len(shape) - 1, -1, -1):
        n, is_reduced = shape[i], i in axes
        if n != 1:
            if groups and groups[-1][0] == is_reduced:
                groups[-1][1] *= n
            else:
                groups.append([is_reduced, n, step])
        step *= n
    run = 0
    if groups and groups[0][0]:
        run = groups.pop(0)[1]
    groups.reverse()
    kept = [(n, stride) for is_reduced, n, stride in groups if not is_reduced]
    loops = [(n, stride) for is_reduced, n, stride in groups if is_reduced]
    return kept or [(1, 1)], loops, run


def reduce_call(node, operation, axes, *details):
    x, y = node.inputs[0], node.outputs[0]
    kept, loops, run = walk(x.shape, axes)
    if len(kept) > 4 or len(loops) > 3:
        raise node.error("kept and reduced axes alternate too often; at most 4 groups can be kept and 3 reduced", x)
    kernel = "reduction.ReduceWide" if x.dtype in ("int32", "int64") or operation == "product" else "reduction.Reduce"
    return Call(kernel, x.bytes, y.bytes, operation, "uint8" if x.dtype == "bool" else x.dtype, kept, loops, run,
                *details)


def check_zero_points(node):
    for value in (node.inputs[0], node.outputs[0]):
        if value.dtype == "int16" and value.quantized and value.zero_point:
            raise node.error(f"its zero point is {value.zero_point}, where int16 takes only 0", value)


def lower_sum(mean):
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        check_zero_points(node)
        axes = reduced_axes(node)
        n = math.prod(x.shape[i] for i in axes)
        if n == 0:                          # the sum of nothing: stored zeros, whatever the zero point
            return Constant(y, np.full(y.shape, np.nan if mean and y.dtype == "float32" else 0, y.dtype))
        if x.dtype == "bool":
            return reduce_call(node, "max", axes)
        if x.dtype not in QUANTIZED:
            return reduce_call(node, "sum", axes, n if mean else 1)
        for value in (x, y):
            if not value.quantized:
                raise node.error(f"{value.dtype} needs a scale here, and it has none", value)
        if mean:
            m, e = quantization.mean_multiplier(x.scale, y.scale, n)
        else:
            m, e = quantization.quantize_multiplier(float(x.scale) / float(y.scale))
        shift = 128 if x.dtype == "uint8" else 0        # the kernel takes uint8 as int8
        low, high = quantization.LIMITS[y.dtype]
        return reduce_call(node, "sum", axes, 1, (fixed_point.wrap32((x.zero_point - shift) * n), m, e,
                                                  y.zero_point - shift, low - shift, high - shift))
    return lower


def lower_extreme(operation, start):
    """start: which of a type's limits the extreme of nothing is."""
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        check_zero_points(node)
        if x.scale != y.scale or x.zero_point != y.zero_point:
            raise node.error(f"its scale and zero point ({y.scale}, {y.zero_point}) must be the input's ({x.scale}, "
                             f"{x.zero_point})", y)
        axes = reduced_axes(node)
        if x.size == 0:
            limits = (0, 1) if y.dtype == "bool" else quantization.activation_bounds("NONE", y.dtype)
            return Constant(y, np.full(y.shape, limits[start], y.dtype))
        if x.dtype == "float32" and len(axes) == len(x.shape):
            return reduce_call(node, operation, axes, 1, (0,) * 6, True)
        return reduce_call(node, operation, axes)
    return lower


def lower_truth(operation, empty):
    """REDUCE_ANY and REDUCE_ALL: the largest and the smallest of false and true; `empty` is that of nothing."""
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        if x.size == 0:
            return Constant(y, np.full(y.shape, empty, np.bool_))
        return reduce_call(node, operation, reduced_axes(node))
    return lower


def lower_product(node):
    """REDUCE_PROD: element by element, in the order of memory, which the rounding of integers depends on."""
    x, y = node.inputs[0], node.outputs[0]
    axes = reduced_axes(node)
    n = math.prod(x.shape[i] for i in axes)
    if n and x.dtype in ("float32", "int32", "int64") and len(x.shape) - 1 in axes:
        return reduce_call(node, "product", axes)
    kept = iter(shapes.contiguous_strides([m for i, m in enumerate(x.shape) if i not in axes]))
    steps = tuple(0 if i in axes else next(kept) for i in range(len(x.shape)))
    order = [i for i in range(len(x.shape)) if i not in axes] + list(axes)
    x_steps = shapes.contiguous_strides(x.shape)
    walked = shapes.collapse(*([v[i] for i in order] for v in (x.shape, x_steps, steps)))
    walked = list(zip(*walked, strict=True))
    if not x.quantized or x.dtype not in QUANTIZED:
        return [filled(y, 1), Call("indexing.Accumulate", x.bytes, y.bytes, *combining("mul", y.dtype), walked,
                                   x.itemsize, y.itemsize)]
    if x.dtype == "uint8":
        raise node.error("is a quantized uint8, of which no product is defined; use int8", x)
    if n == 0:
        low, high = quantization.LIMITS[y.dtype]
        return filled(y, min(max(quantization.quantize_value(1.0, y.scale, y.zero_point), low), high))
    m, e = quantization.quantize_multiplier(float(x.scale) / math.pow(float(y.scale), 1.0 / n))
    m16, suffix = fixed_point.multiplier16(m), "q16" if x.dtype == "int16" else "q8"
    products = Temporary(node, y.shape, "int64")
    nothing = -(2**63)                  # until the first element comes
    return [filled(products, nothing),
            Call("indexing.Accumulate", x.bytes, products.bytes, f"product_{suffix}", pack("3i", x.zero_point, m16, e),
                 walked, x.itemsize, 8),
            Call("elementwise.Unary", f"finish_product_{suffix}", y.size, products.bytes, y.bytes,
                 pack("5i", m16, e, y.zero_point, *quantization.LIMITS[y.dtype]))]


def reference_reduce(f):
    def reduce(x, axes, o):
        return f(x, axis=tuple(np.unique(np.ravel(axes) % max(x.ndim, 1))) if x.ndim else (), keepdims=o.keep_dims)
    return reduce


register("MEAN", versions=(1, 3), types=TYPES, infer=infer_reduce, lower=lower_sum(mean=True),
         reference=reference_reduce(np.mean))
register("SUM", versions=(1, 2), types=TYPES + BOOL, infer=infer_reduce, lower=lower_sum(mean=False),
         reference=reference_reduce(np.sum))
register("REDUCE_MAX", versions=(1, 3), types=TYPES + BOOL, infer=infer_reduce, lower=lower_extreme("max", 0),
         reference=reference_reduce(np.max))
register("REDUCE_MIN", versions=(1, 3), types=TYPES + BOOL, infer=infer_reduce, lower=lower_extreme("min", 1),
         reference=reference_reduce(np.min))
register("REDUCE_ANY", types=BOOL, infer=infer_reduce, lower=lower_truth("max", 0), reference=reference_reduce(np.any))
register("REDUCE_ALL", types=BOOL, infer=infer_reduce, lower=lower_truth("min", 1), reference=reference_reduce(np.all))
register("REDUCE_PROD", versions=(1, 2), types=TYPES + BOOL, infer=infer_reduce, lower=lower_product,
         reference=reference_reduce(np.prod))


# ---- windows -----------------------------------------------------------------------------------------------------
_FUNCTIONS = {"ADD": "add", "MUL": "mul", "MINIMUM": "minimum", "MAXIMUM": "maximum", "ALL": "and", "ANY": "or"}


def windowed(node, x, source_shape, op, start, window, strides, dilations):
    """Calls that combine each window of x, of `source_shape`, with `start`, the value that it begins with."""
    y = node.outputs[0]
    x_steps, y_steps = shapes.contiguous_strides(source_shape), shapes.contiguous_strides(y.shape)
    axes = list(zip(window, (s * d for s, d in zip(x_steps, dilations, strict=True)), (0,) * len(window), strict=True))
    axes += zip(y.shape, (s * stride for s, stride in zip(x_steps, strides, strict=True)), y_steps, strict=True)
    axes = list(zip(*shapes.collapse(*zip(*axes, strict=True)), strict=True)) if axes else []
    return [filled(y, start), Call("indexing.Accumulate", x.bytes, y.bytes, *combining(op, y.dtype), axes, y.itemsize,
                                   y.itemsize)]


def window_lists(node):
    """REDUCE_WINDOW: (window, strides, dilations), one number for each axis."""
    x = node.inputs[0]
    lists = [tuple(node.constant(i, what).ravel().tolist()) for i, what in (
        (2, "window shape"), (3, "window strides"), (4, "window dilations"))]
    if any(len(v) != len(x.shape) or min(v, default=1) < 1 for v in lists):
        raise node.error(f"has {len(x.shape)} dimensions, but window shape, strides and dilations are {lists}", x)
    return lists


def infer_reduce_window(node):
    return [tuple(max(0, (n - (w - 1) * d - 1) // s + 1) if n else 0
                  for n, w, s, d in zip(node.inputs[0].shape, *window_lists(node), strict=True))]


def lower_reduce_window(node):
    x = node.inputs[0]
    op = _FUNCTIONS.get(node.options.reduce_function)
    if op is None:
        raise node.error(f"has the reduce function {node.options.reduce_function}, which is unknown")
    return windowed(node, x, x.shape, op, node.inputs[1], *window_lists(node))


_NUMBERS = "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 bool"
register("REDUCE_WINDOW", types=[f"{t} {t} int64 int64 int64 -> {t}" for t in _NUMBERS.split()],
         infer=infer_reduce_window, lower=lower_reduce_window)


def stablehlo_windows(node):
    """STABLEHLO_REDUCE_WINDOW: (shape of the input once dilated and padded, low padding, dilations, window lists)."""
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
    padded, _, _, lists = stablehlo_windows(node)
    return [tuple(max(0, (n - (w - 1) * d - 1) // s + 1) if n else 0
                  for n, w, s, d in zip(padded, *lists, strict=True))]


def lower_stablehlo_window(node):
    x, start = node.inputs
    padded, low, base, lists = stablehlo_windows(node)
    op = region_op(node, node.options.body_subgraph_index)
    if op is None:
        raise node.error("reduces by a subgraph that gives one of its inputs")
    if padded == x.shape and not any(low):
        return windowed(node, x, padded, op, start, *lists)
    source = Temporary(node, padded, x.dtype)
    return [*spread(x, source, start, low, [d - 1 for d in base]), *windowed(node, source, padded, op, start, *lists)]


register("STABLEHLO_REDUCE_WINDOW", types=[f"{t} {t} -> {t}" for t in _NUMBERS.split() + ["uint64"]],
         infer=infer_stablehlo_window, lower=lower_stablehlo_window)
