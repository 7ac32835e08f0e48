"""Reductions over axes: MEAN, SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL.  docs/numerics.md section 8."""
import math

import numpy as np

from pylite._core.graph.dimensions import computed
from pylite.ir import shapes
from pylite.ir.registry import register, same
from pylite.ir.values import Alias, Call, Constant
from pylite.numerics import fixed_point, quantization
from pylite.ops.moves import integers

TYPES = [t.replace(" ->", " int32 ->") for t in same("float32 int8 uint8 int16 int32 int64")]
BOOL = ["bool int32 -> bool"]
QUANTIZED = ("int8", "uint8", "int16")
CONDITIONS = ("int16: x y zero_point = 0", "quantized: x y one scale")


def reduced_axes(node):
    """The axes to reduce, counted from the front, sorted, each once; none of a scalar, whatever the operand says."""
    x = node.inputs[0]
    axes = integers(node.constant(1, "list of axes"))
    if not x.shape:
        return ()
    try:
        return shapes.resolve_axes(axes, len(x.shape))
    except ValueError as error:
        raise node.error(str(error), x)


def infer_reduce(node):
    return [shapes.reduced(node.inputs[0].shape, reduced_axes(node), node.options.keep_dims)]


def loop_nest(shape, axes):
    """The loops of a kernel over an array of `shape` whose `axes` are reduced: (kept, reduced, run).

    kept: (size, stride) of the axes of the result, adjacent ones merged, at least one; reduced: the same of `axes`;
    run: the number of consecutive elements that are reduced inside of these loops, or 0 when the last axis is kept.
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
    reduced = [(n, stride) for is_reduced, n, stride in groups if is_reduced]
    return kept or [(1, 1)], reduced, run


def reduce_call(node, operation, axes, **details):
    x, y = node.inputs[0], node.outputs[0]
    if x.size == y.size and "requantize" not in details and (operation in ("sum", "product") or x.dtype != "float32"):
        return Alias(y, x)                  # of one element each; an extreme of floats is not that of one that is NaN
    kept, reduced, run = loop_nest(x.shape, axes)
    if len(kept) > 4 or len(reduced) > 3:
        raise node.error("kept and reduced axes alternate too often; at most 4 groups can be kept and 3 reduced", x)
    kernel = "reduction.ReduceWide" if x.dtype in ("int32", "int64") or operation == "product" else "reduction.Reduce"
    return Call(kernel, x.bytes, y.bytes, operation, "uint8" if x.dtype == "bool" else x.dtype,
                kept=kept, loops=reduced, run=run, **details)


def lower_sum(mean):
    """MEAN, or SUM."""
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        axes = reduced_axes(node)
        n = math.prod(x.shape[i] for i in axes)
        if n == 0:                          # of no elements: stored zeros, whatever the zero point
            return Constant(y, np.full(y.shape, np.nan if mean and y.dtype == "float32" else 0, y.dtype))
        if x.dtype == "bool":
            return reduce_call(node, "max", axes)
        if x.dtype not in QUANTIZED:
            return reduce_call(node, "sum", axes, divisor=n if mean else 1)
        for value in (x, y):
            if not value.quantized:
                raise node.error(f"{value.dtype} needs a scale here, and it has none", value)
        shift = 128 if x.dtype == "uint8" else 0        # the kernel takes uint8 as int8
        zero_points = x.zero_point - shift, y.zero_point - shift
        limits = tuple([limit - shift for limit in quantization.LIMITS[y.dtype]])
        return reduce_call(node, "sum", axes, requantize=computed(
            _requantization, x.scale, y.scale, zero_points, limits, n, mean))
    return lower


def _requantization(x_scale, y_scale, zero_points, limits, n, mean):
    """How sums of `n` elements, or their means, become y: (sum of zero points, multiplier, exponent, zero, limits)."""
    if mean:
        m, e = quantization.mean_multiplier(x_scale, y_scale, n)
    else:
        m, e = quantization.quantize_multiplier(float(x_scale) / float(y_scale))
    return fixed_point.wrap32(zero_points[0] * n), m, e, zero_points[1], *limits


def lower_extreme(operation, start):
    """REDUCE_MAX and REDUCE_MIN.  start: the index of the type's limit that is the result over no elements."""
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        if x.scale != y.scale or x.zero_point != y.zero_point:
            raise node.error(f"its scale and zero point ({y.scale}, {y.zero_point}) must be the input's ({x.scale}, "
                             f"{x.zero_point})", y)
        axes = reduced_axes(node)
        if x.size == 0:
            limits = (0, 1) if y.dtype == "bool" else quantization.activation_bounds("NONE", y.dtype)
            return Constant(y, np.full(y.shape, limits[start], y.dtype))
        if x.dtype == "float32" and len(axes) == len(x.shape):
            return reduce_call(node, operation, axes, whole=True)
        return reduce_call(node, operation, axes)
    return lower


def lower_truth(operation, empty):
    """REDUCE_ANY and REDUCE_ALL as maximum and minimum of bytes; empty: the result over no elements."""
    def lower(node):
        x, y = node.inputs[0], node.outputs[0]
        if x.size == 0:
            return Constant(y, np.full(y.shape, empty, np.bool_))
        return reduce_call(node, operation, reduced_axes(node))
    return lower


def reference_reduce(f):
    """The reference of a reduction by the numpy function f."""
    def reduce(x, axes, o):
        return f(x, axis=tuple(np.unique(np.ravel(axes) % max(x.ndim, 1))) if x.ndim else (), keepdims=o.keep_dims)
    return reduce


register("MEAN", versions=(1, 3), types=TYPES, infer=infer_reduce, lower=lower_sum(mean=True),
         reference=reference_reduce(np.mean), conditions=CONDITIONS)
register("SUM", versions=(1, 2), types=TYPES + BOOL, infer=infer_reduce, lower=lower_sum(mean=False),
         reference=reference_reduce(np.sum), conditions=CONDITIONS)
register("REDUCE_MAX", versions=(1, 3), types=TYPES + BOOL, infer=infer_reduce, lower=lower_extreme("max", 0),
         reference=reference_reduce(np.max), conditions=CONDITIONS[:1])
register("REDUCE_MIN", versions=(1, 3), types=TYPES + BOOL, infer=infer_reduce, lower=lower_extreme("min", 1),
         reference=reference_reduce(np.min), conditions=CONDITIONS[:1])
register("REDUCE_ANY", types=BOOL, infer=infer_reduce, lower=lower_truth("max", 0), reference=reference_reduce(np.any))
register("REDUCE_ALL", types=BOOL, infer=infer_reduce, lower=lower_truth("min", 1), reference=reference_reduce(np.all))
