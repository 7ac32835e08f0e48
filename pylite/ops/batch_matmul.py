"""BATCH_MATMUL: matrix products in the last two dimensions; the others are broadcast.  docs/numerics.md section 4."""
import math

import numpy as np

from pylite._core.graph.dimensions import computed
from pylite._core.kernels.batch_matmul import PACKED_AT_ONCE, STACK_BYTES, STACK_SUMS
from pylite._core.product.layouts import Matrices
from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call, Packed, Scratch, Temporary
from pylite.numerics import quantization
from pylite.ops import products
from pylite.ops.convolution_window import Window


def infer_batch_matmul(node):
    x, w = node.inputs[:2]
    for value in (x, w):
        if len(value.shape) < 2:
            raise node.error("a matrix must have at least 2 dimensions", value)
    m, k = _sizes(x, node.options.adj_x)
    depth, n = _sizes(w, node.options.adj_y)
    if k != depth:
        raise node.error(f"its {depth} rows do not fit the {k} columns of {x!r}; see adj_x and adj_y", w)
    try:
        batch = shapes.broadcast(x.shape[:-2], w.shape[:-2])
    except ValueError as problem:
        raise node.error(str(problem), w) from None
    return [(*batch, m, n)]


def _sizes(value, adjoint):
    rows, columns = value.shape[-2:]
    return (columns, rows) if adjoint else (rows, columns)


def _pairs(x, w, y):
    """The indices of the matrices of x, w and y of each product, in the order of w's: int64 (3, products).

    x, w, y: how many matrices there are along each dimension.
    """
    if x == w == y:
        same = np.empty((3, math.prod(y)), np.int64)
        same[:] = np.arange(same.shape[1])
        return same
    which = [np.broadcast_to(np.arange(math.prod(lead)).reshape(lead), y).reshape(-1) for lead in (x, w, y)]
    return np.ascontiguousarray(np.stack(which)[:, np.argsort(which[1], kind="stable")], np.int64)


def lower_batch_matmul(node):
    x, w = node.inputs[:2]
    if _is_hybrid_layer(node, x, w):
        return _as_hybrid_layer(node, x, w)
    y, o = node.outputs[0], node.options
    m, k = _sizes(x, o.adj_x)
    n = y.shape[-1]
    matrices, batch = math.prod(w.shape[:-2]), x.shape[:-2]
    calls, left = [], x
    if o.adj_x:
        left = Temporary(node, (*batch, m, k), x.dtype)
        calls = [_transposed(x, left)]
    rows = math.prod(batch) * m
    if matrices == 1:                                   # one matrix for all rows of x
        m, which = rows, np.zeros((3, 1), np.int64)
    else:
        which = computed(_pairs, *[v.shape[:-2] for v in (x, w, y)])
    kind = "hybrid" if x.dtype != w.dtype and x.dtype == "float32" else y.dtype
    if w.data is not None:
        weights = {"packed": _packed(kind, w, matrices, Matrices(not o.adj_y))}
        at_once = matrices
    else:
        at_once = min(matrices, PACKED_AT_ONCE)
        weights = {"w": w.bytes, **_packing_scratch(kind, at_once, n, k)}
    details = {}
    if kind == "hybrid":
        details = _hybrid(node, x, w, n, rows)
    elif kind == "int8":
        size = at_once * products.padded(n)
        details = {**_integer(node, x, w, y), "bias": Scratch((size,), "int32") if size > STACK_SUMS else None}
    elif kind == "int16":
        details = {**_integer(node, x, w, y), "w_item": 1 if w.dtype == "int8" else 2}
    return [*calls, Call("batch_matmul.BatchMatmul", kind, left.bytes, y.bytes, which=which, sizes=(m, n, k),
                         adjoint=o.adj_y, **weights, **details)]


def _transposed(x, y):
    """The Call that copies matrices x to y, transposed."""
    m, k = y.shape[-2:]
    batch = math.prod(y.shape[:-2])
    return Call("movement.Copy", x.view((batch, m, k), (m * k, 1, m)), y.view((batch, m, k)))


def _is_hybrid_layer(node, x, w):
    """Are float32 rows multiplied by one constant matrix of int8?"""
    return (x.dtype == "float32" and w.dtype == "int8" and w.data is not None and math.prod(w.shape[:-2]) == 1 and
            not node.options.adj_x and x.size > 0)


def _as_hybrid_layer(node, x, w):
    """A convolution of images of one pixel, in larger tiles than BatchMatmul's."""
    y, k = node.outputs[0], x.shape[-1]
    n = y.shape[-1]
    _require_scales_of_columns(node, w, n)
    packed = Packed("packing.pack_weights", w, 1, Matrices(not node.options.adj_y))
    images, out = x.view((x.size // k, 1, 1, k)), y.view((x.size // k, 1, 1, n))
    return products.hybrid(node, images, out, packed, None, Window(1, 1),
                           asymmetric=node.options.asymmetric_quantize_inputs, column_first=len(w.scales) > 1)


def _packed(kind, w, matrices, layout):
    if kind == "float32":
        return Packed("packing.pack_f32", w, matrices, layout)
    if kind == "int16":
        return Packed("conv16.pack_s16", w, layout)
    return Packed("packing.pack_weights", w, matrices, layout)


def _packing_scratch(kind, matrices, n, k):
    """Memory for the panels and column sums of as many matrices (k, n); None for what fits on the stack."""
    itemsize = {"float32": 4, "int16": 2}.get(kind, 1)
    depth, columns = k if kind == "float32" else products.padded(k), matrices * n
    size = matrices * itemsize * products.padded(n) * depth
    return {"scratch": Scratch((size,), "uint8") if size > STACK_BYTES else None,
            "scratch_sums": Scratch((columns,), "int32") if columns > STACK_SUMS else None}


def _integer(node, x, w, y):
    """The zero points and the multiplier."""
    products.require_scales(node, x, w, y)
    if x.dtype == "int16":
        products.require_symmetric(node, x, w, y)
    # The reference kernels take scales along an axis as 0, so that every output is the zero point.
    scale = w.scale if len(w.scales) == 1 else np.float32(0)
    return {"zeros": (x.zero_point, w.zero_point, y.zero_point),
            "multiplier": quantization.per_tensor_multiplier(x.scale, scale, y.scale)}


def _require_scales_of_columns(node, w, n):
    products.require_scales(node, w)
    if len(w.scales) not in (1, n):
        raise node.error(f"has {len(w.scales)} scales for {n} columns", w)


def _hybrid(node, x, w, n, rows):
    _require_scales_of_columns(node, w, n)
    return {"scales": products.per_channel(w.scales, n), "q": Scratch((x.size,), "int8"),
            "row_scales": Scratch((rows,), "float32"), "row_zeros": Scratch((rows,), "int32"),
            "asymmetric": node.options.asymmetric_quantize_inputs, "column_first": len(w.scales) > 1}


def reference_batch_matmul(x, w, o):
    """BATCH_MATMUL of real numbers."""
    return np.matmul(x.swapaxes(-1, -2) if o.adj_x else x, w.swapaxes(-1, -2) if o.adj_y else w)


register("BATCH_MATMUL", versions=(1, 4), infer=infer_batch_matmul, lower=lower_batch_matmul,
         reference=reference_batch_matmul, opaque=(0, 1), packs=1,
         types=["float32 float32 -> float32", "float32 int8 -> float32", "int8 int8 -> int8|int32",
                "int16 int16|int8 -> int16"])
