"""REDUCE_PROD: the product over axes.  docs/numerics.md section 8."""
import math
from struct import pack

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call, Temporary
from pylite.numerics import fixed_point, quantization
from pylite.ops.elementwise import require_quantized
from pylite.ops.moves import filled
from pylite.ops.reduction import (
    BOOL,
    CONDITIONS,
    QUANTIZED,
    TYPES,
    infer_reduce,
    reduce_call,
    reduced_axes,
    reference_reduce,
)
from pylite.ops.wide import combining

_NO_PRODUCT = -(2**63)          # for product_q8 and product_q16: no element has been multiplied yet


def lower_product(node):
    """Element by element, in the order of memory: the rounding of integers depends on it."""
    x, y = node.inputs[0], node.outputs[0]
    axes = reduced_axes(node)
    n = math.prod(x.shape[i] for i in axes)
    if n and x.dtype in ("float32", "int32", "int64"):
        return reduce_call(node, "product", axes)
    loops = accumulation(x, axes)
    if x.quantized and x.dtype in QUANTIZED:
        return _lower_quantized(node, n, loops)
    return [filled(y, 1), Call("indexing.Accumulate", x.bytes, y.bytes, *combining("mul", y.dtype), axes=loops,
                               x_item=x.itemsize, y_item=y.itemsize)]


def accumulation(x, axes):
    """The loops over x that visit each result's elements in the order of memory: [(size, step in x, step in y)]."""
    kept = [i for i in range(len(x.shape)) if i not in axes]
    kept_steps = iter(shapes.contiguous_strides([x.shape[i] for i in kept]))
    y_steps = tuple(0 if i in axes else next(kept_steps) for i in range(len(x.shape)))
    order = kept + list(axes)
    loops = shapes.collapse(*([v[i] for i in order] for v in (x.shape, shapes.contiguous_strides(x.shape), y_steps)))
    return list(zip(*loops, strict=True))


def _lower_quantized(node, n, loops):
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype == "uint8":
        raise node.error("is quantized uint8, for which no product is defined; use int8", x)
    require_quantized(node, y)
    if n == 0:
        low, high = quantization.LIMITS[y.dtype]
        return filled(y, min(max(quantization.quantize_value(1.0, y.scale, y.zero_point), low), high))
    m, e = quantization.quantize_multiplier(float(x.scale) / math.pow(float(y.scale), 1.0 / n))
    m16, suffix = fixed_point.multiplier16(m), "q16" if x.dtype == "int16" else "q8"
    products = Temporary(node, y.shape, "int64")
    return [filled(products, _NO_PRODUCT),
            Call("indexing.Accumulate", x.bytes, products.bytes, f"product_{suffix}", pack("3i", x.zero_point, m16, e),
                 axes=loops, x_item=x.itemsize, y_item=8),
            Call("elementwise.Unary", f"finish_product_{suffix}", y.size, products.bytes, y.bytes,
                 pack("5i", m16, e, y.zero_point, *quantization.LIMITS[y.dtype]))]


register("REDUCE_PROD", versions=(1, 2), types=TYPES + BOOL, infer=infer_reduce, lower=lower_product,
         reference=reference_reduce(np.prod), conditions=CONDITIONS)
