"""The basic cell of LSTM, of floats or uint8.  docs/numerics.md section 10.

Its inputs are x, the output of the step before, weights, bias and the cell state.
"""
from math import inf

from pylite.ir.values import Call, Packed
from pylite.numerics.quantization import f32, power_of_two, quantize_multiplier
from pylite.ops import products


def infer_basic(node):
    if len(node.inputs) != 5 or len(node.outputs) != 4 or None in node.inputs:
        raise node.error(f"a basic LSTM cell must have 5 inputs and 4 outputs, none of them absent; this one has "
                         f"{len(node.inputs)} and {len(node.outputs)}")
    x, h, w, b, c = node.inputs
    if len(x.shape) != 2 or len(h.shape) != 2 or x.shape[0] != h.shape[0]:
        raise node.error(f"must have 2 dimensions, as {x!r}, and as many rows", h)
    rows, cells = h.shape
    depth = x.shape[1] + cells
    for value, shape in ((w, (4 * cells, depth)), (b, (4 * cells,)), (c, (rows, cells))):
        if value.shape != shape:
            raise node.error(f"its shape must be {list(shape)}", value)
    for value in (h, c):
        if value.data is not None:
            raise node.error("holds the state of a basic LSTM cell, so it cannot be a constant", value)
    return [(rows, cells), (rows, cells), (rows, depth), (rows, 4 * cells)]


def lower_basic(node):
    x, h, w, b, c = node.inputs
    if w.dtype not in ("float32", "uint8") or x.dtype != w.dtype:
        raise node.error(f"a basic LSTM cell must have operands of float32 or uint8, not {w.dtype}", w)
    y, c_out, joined, gates = node.outputs
    bias = products.contents(node, b, "bias")
    products.contents(node, w, "weights")
    calls = [Call("movement.Copy", part, joined.view(part.shape, (joined.shape[1], 1), offset))
             for part, offset in ((x, 0), (h, x.shape[1]))]
    if x.dtype == "float32":
        return [*calls, products.rows_of_floats(node, joined, w, bias, gates, (-inf, inf), asymmetric=False),
                Call("recurrent_basic.BasicLstm", gates, h, c, y, c_out)]
    products.require_scales(node, w, b)
    if power_of_two(c_out.scale or 1.0) != -11:
        raise node.error(f"its scale {c_out.scale} must be 2^-11", c_out)
    return [*calls, Call("recurrent_integer_basic.BasicLstm", joined, h, c, y=y, c_out=c_out, gates=gates,
                         packed=Packed("packing.pack_weights", w), bias=bias,
                         multiplier=quantize_multiplier(f32(4096) * b.scale), w_zero=w.zero_point - 128)]
