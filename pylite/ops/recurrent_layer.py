"""Helpers of the recurrent ops: the operands of a layer and their checks, views of sequences, packed weights, calls."""
import math
from collections import namedtuple

import numpy as np

from pylite._core.kernels.recurrent import STACK_ELEMENTS
from pylite._core.kernels.sequences import GATE_NAMES
from pylite.ir.values import Call, Packed, Scratch
from pylite.numerics import quantization
from pylite.ops import products

INTEGER_WEIGHTS = ("int8", "uint8")
# The types of h, c, the biases, and of peepholes and layer normalization, by the type of the input.
_TYPES = {"float32": ("float32", "float32", "float32", "float32"), "int8": ("int8", "int16", "int32", "int16")}

# The operands of one gate, Values or None: the weights of the input, of the auxiliary input and of the output of the
# step before, the peephole, the bias and the coefficients of layer normalization.
Gate = namedtuple("Gate", "x aux h peephole bias norm", defaults=(None, None, None, None, None, None))


class Layer:
    """One direction of a recurrent layer: its operands as Values, None if absent.

    gates: [Gate], the input, forget, cell and output gate of an LSTM, or the only gate of an RNN; projection:
    (weights, bias); h, c: the state; cells, outputs: number of elements in a row of c and of h.
    """
    __slots__ = ("gates", "projection", "h", "c", "cells", "outputs")

    def __init__(self, node, gates, h, c, projection=(None, None)):
        self.gates = gates
        self.projection = projection
        self.h = h
        self.c = c
        last = gates[-1]
        if last.x is None or last.h is None or not last.x.shape or not last.h.shape:
            raise node.error("lacks the weights of its output gate")
        self.cells = last.x.shape[0]
        self.outputs = last.h.shape[-1]

    @property
    def hybrid(self):
        """Are the weights integers, and all else floats?"""
        return self.h is not None and self.h.dtype == "float32" and self.gates[-1].x.dtype in INTEGER_WEIGHTS

    def check(self, node, rows, depth, aux):
        """Refuse operands of other shapes and types.

        rows: of each step; depth, aux: elements of the input's and of the auxiliary input's rows.
        """
        self._check_types(node)
        self._check_state(node, rows)
        if self.projection[0] is None and self.cells != self.outputs:
            raise node.error(f"has {self.cells} cells and {self.outputs} outputs, but no projection")
        self._check_shapes(node, depth, aux)
        self._check_presence(node)

    def _check_types(self, node):
        h_type, c_type, bias_type, vector_type = _TYPES[node.inputs[0].dtype]
        typed = [(self.h, h_type), (self.c, c_type), (self.projection[1], bias_type)]
        for gate in self.gates:
            typed += [(gate.bias, bias_type), (gate.norm, vector_type)]
            if not self.hybrid:
                typed.append((gate.peephole, vector_type))
        for value, dtype in typed:
            if value is not None and value.dtype != dtype:
                raise node.error(f"must be {dtype}, not {value.dtype}", value)
        types = {value.dtype for gate in self.gates for value in (gate.x, gate.aux, gate.h, self.projection[0])
                 if value is not None and (len(value.shape) > 1 or value.dtype != "float32")}
        if len(types) > 1:
            raise node.error(f"has weights of several types: {', '.join(sorted(types))}; give all of them one type")

    def _check_state(self, node, rows):
        state = [(self.h, self.outputs)] + ([(self.c, self.cells)] if self.c is not None or len(self.gates) > 1 else [])
        for value, size in state:
            if value is None or value.kind != "variable":
                raise node.error("needs a variable tensor for its state", value)
            if value.size != rows * size:
                raise node.error(f"holds {value.size} elements of state; {rows} rows of {size} are needed", value)

    def _check_shapes(self, node, depth, aux):
        shapes = Gate((self.cells, depth), (self.cells, aux), (self.cells, self.outputs), *[(self.cells,)] * 3)
        diagonal = (self.outputs,) if self.cells == self.outputs else None      # the weights of h may be one
        for gate in self.gates:
            for name, value, shape in zip(Gate._fields, gate, shapes, strict=True):
                if value is not None and value.shape != shape and not (name == "h" and value.shape == diagonal):
                    raise node.error(f"its shape must be {list(shape)}", value)
        for value, shape in zip(self.projection, ((self.outputs, self.cells), (self.outputs,)), strict=True):
            if value is not None and value.shape != shape:
                raise node.error(f"its shape must be {list(shape)}", value)

    def _check_presence(self, node):
        first = 1 if self.gates[0].x is None else 0     # the input gate may be left out
        for name, gate in list(zip(GATE_NAMES[-len(self.gates):], self.gates, strict=True))[first:]:
            if gate.x is None or gate.h is None:
                raise node.error(f"lacks weights of its {name} gate")
            if len(self.gates) > 1 and gate.bias is None:
                raise node.error(f"lacks the bias of its {name} gate; a bias of zeros will do")


# ---- sequences -----------------------------------------------------------------------------------------------
def time_major(node):
    """Is time the first axis?  True for ops without the option."""
    return getattr(node.options, "time_major", True)


def steps_and_rows(node, x):
    """(steps, rows of each) of an input of 2 or 3 dimensions; with 2 it is one step."""
    if len(x.shape) == 2:
        return 1, x.shape[0]
    if len(x.shape) != 3:
        raise node.error("a sequence must have 2 or 3 dimensions", x)
    return x.shape[:2] if time_major(node) else x.shape[1::-1]


def sequence(node, value, depth=None, offset=0):
    """`value` as a View (steps, rows, depth): `depth` elements of its last dimension, from `offset` on."""
    steps, rows = steps_and_rows(node, node.inputs[0])
    width = value.shape[-1]
    strides = (rows * width, width, 1) if time_major(node) or steps == 1 else (width, steps * width, 1)
    return value.view((steps, rows, width if depth is None else depth), strides, offset)


# ---- operands of the kernels ---------------------------------------------------------------------------------
def activation(node):
    """The activation as the kernels take it: "TANH", "SIGN_BIT", or the limits of a clamp, infinite where open."""
    name = node.options.fused_activation_function
    if name in ("TANH", "SIGN_BIT"):
        return name
    return tuple(math.copysign(math.inf, b) if abs(b) == quantization.FLT_MAX else b
                 for b in quantization.activation_bounds(name))


def scratch(size, dtype):
    """Scratch of the recurrent kernels, or None if that much fits their stack."""
    return Scratch((size,), dtype) if size > STACK_ELEMENTS else None


def packed(node, w):
    """The weights w as the kernels take them: packed, the float32 vector of a diagonal matrix, or None."""
    if w is None:
        return None
    products.contents(node, w, "weights")
    if len(w.shape) == 1:
        return w if w.dtype == "float32" else dequantized(node, w)
    if w.dtype == "float32":
        return Packed("recurrent.pack", w)
    _check_scales(node, w)
    return Packed("recurrent.pack", w, products.per_channel(w.scales, w.shape[0]))


def dequantized(node, vector):
    """The contents of a vector as float32, or None."""
    if vector is None or vector.dtype == "float32":
        return products.contents(node, vector, "weights")
    _check_scales(node, vector)
    return products.contents(node, vector, "weights").view(np.int8) * np.float32(vector.scale)


def _check_scales(node, w):
    products.require_scales(node, w)
    products.check_scales(node, w, w.shape[0], 0)


def lower_layer(node, layer, x, aux, y, backward=False):
    """The Call of one direction of a layer of floats.  x, aux, y: Views (steps, rows, depth)."""
    rows = x.shape[1]
    options = node.options
    depths = (x.shape[2], 0 if aux is None else aux.shape[2], layer.outputs,
              layer.cells if layer.projection[0] is not None else 0)
    hybrid = layer.hybrid
    operands, names = {}, ("cell",) if layer.c is None else GATE_NAMES
    for name, gate in zip(names, layer.gates, strict=True):
        operands |= {f"{name}_x": packed(node, gate.x),
                     f"{name}_aux": packed(node, gate.aux) if aux is not None else None,
                     f"{name}_h": packed(node, gate.h), f"{name}_peephole": dequantized(node, gate.peephole),
                     f"{name}_bias": products.contents(node, gate.bias, "weights"),
                     f"{name}_norm": dequantized(node, gate.norm)}
    w, bias = layer.projection
    return Call("recurrent.Recurrent", x, aux, y, layer.h.flat, None if layer.c is None else layer.c.flat,
                scratch=scratch(len(layer.gates) * rows * layer.cells, "float32"),
                q=scratch(hybrid * rows * sum(depths), "int8"), row_scales=scratch(hybrid * 4 * rows, "float32"),
                row_zeros=scratch(hybrid * 4 * rows, "int32"), sizes=(layer.cells, layer.outputs), backward=backward,
                asymmetric=options.asymmetric_quantize_inputs, activation=activation(node),
                cell_clip=getattr(options, "cell_clip", 0.0), projection_clip=getattr(options, "proj_clip", 0.0),
                projection=packed(node, w), projection_bias=products.contents(node, bias, "weights"),
                **{name: operand for name, operand in operands.items() if operand is not None})
