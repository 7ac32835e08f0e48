"""LSTM and RNN layers of floats: one step, a sequence, or a sequence in both directions."""
import math

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Packed
from pylite.numerics import quantization
from pylite.ops import lstm_integer, products
from pylite.ops.lstm_integer import scratch

INTEGER_WEIGHTS = ("int8", "uint8")
# What the state, the biases, peepholes and normalization have for an input of that type.
_TYPES = {"float32": ("float32", "float32", "float32", "float32"), "int8": ("int8", "int16", "int32", "int16")}
# Where the operands of a gate are among an LSTM's: its weights of x and of h, peephole, bias, layer normalization.
_GATES = ((1, 5, 9, 12, 20), (2, 6, 10, 13, 21), (3, 7, None, 14, 22), (4, 8, 11, 15, 23))
_PROJECTION = 16


class Layer:
    """One direction of a recurrent layer: its operands as Values, None where absent.

    gates: a tuple (weights of x, of aux, of h, peephole, bias, normalization) for each; h, c: the state.
    """
    __slots__ = ("gates", "projection", "h", "c", "cells", "outputs")

    def __init__(self, node, gates, h, c, projection=(None, None)):
        self.gates = gates
        self.projection = projection
        self.h = h
        self.c = c
        last = gates[-1]
        if last[0] is None or last[2] is None or not last[0].shape or not last[2].shape:
            raise node.error("lacks the weights of its output gate")
        self.cells = last[0].shape[0]
        self.outputs = last[2].shape[-1]

    def check(self, node, rows, depth, aux):
        """Refuse operands of other shapes and types.  depth, aux: of the input's and the auxiliary input's rows."""
        h_type, c_type, bias_type, vector_type = _TYPES[node.inputs[0].dtype]
        wide = [(self.h, h_type), (self.c, c_type), (self.projection[1], bias_type)]
        for _, _, _, peephole, bias, norm in self.gates:
            wide += [(bias, bias_type), (norm, vector_type)]
            if not self.hybrid:
                wide.append((peephole, vector_type))
        for value, dtype in wide:
            if value is not None and value.dtype != dtype:
                raise node.error(f"must be {dtype}, not {value.dtype}", value)
        narrow = {value.dtype for gate in self.gates for value in (*gate[:3], self.projection[0])
                  if value is not None and (len(value.shape) > 1 or value.dtype != "float32")}
        if len(narrow) > 1:
            raise node.error(f"has weights of several types: {', '.join(sorted(narrow))}")
        state = [(self.h, self.outputs)] + ([(self.c, self.cells)] if self.c is not None or len(self.gates) > 1 else [])
        for value, size in state:
            if value is None or value.kind != "variable":
                raise node.error("needs a variable tensor for its state", value)
            if value.size != rows * size:
                raise node.error(f"holds {value.size} elements of state; {rows} rows of {size} are needed", value)
        if self.projection[0] is None and self.cells != self.outputs:
            raise node.error(f"has {self.cells} cells and {self.outputs} outputs, but no projection")
        for gate in self.gates:
            wanted = ((self.cells, depth), (self.cells, aux), (self.cells, self.outputs),
                      *[(self.cells,)] * 3)
            for i, (value, shape) in enumerate(zip(gate, wanted, strict=True)):
                diagonal = i == 2 and value is not None and value.shape == (self.outputs,)
                if value is not None and value.shape != shape and not diagonal:
                    raise node.error(f"its shape must be {list(shape)}", value)
        for value, shape in zip(self.projection, ((self.outputs, self.cells), (self.outputs,)), strict=True):
            if value is not None and value.shape != shape:
                raise node.error(f"its shape must be {list(shape)}", value)
        present = [gate for gate in self.gates if gate[0] is not None]
        if len(present) < len(self.gates) - 1 or any(gate[2] is None for gate in present):
            raise node.error("lacks weights of a gate")
        if len(self.gates) > 1 and any(gate[4] is None for gate in present):
            raise node.error("lacks the bias of a gate")

    @property
    def hybrid(self):
        """Are the weights integers, and all else floats?"""
        return self.h is not None and self.h.dtype == "float32" and self.gates[-1][0].dtype in INTEGER_WEIGHTS


def lstm_layer(node, at=0, h=18, c=19, aux=None):
    """The Layer whose operands start `at` places behind those of UNIDIRECTIONAL_SEQUENCE_LSTM."""
    def operand(i):
        return None if i is None else node.input(i)
    gates = []
    for k, (x, r, peephole, bias, norm) in enumerate(_GATES):
        gates.append((operand(x + at), None if aux is None else operand(aux + k), operand(r + at),
                      operand(None if peephole is None else peephole + at), operand(bias + at),
                      operand(norm) if h == 18 else None))
    if gates[0][0] is None:
        gates[0] = (None,) * 6
    return Layer(node, gates, node.input(h), node.input(c),
                 (operand(_PROJECTION + at), operand(_PROJECTION + 1 + at)))


def sequence(node, x, time_major):
    """(steps, rows) of an input of 2 or 3 dimensions."""
    if len(x.shape) == 2:
        return 1, x.shape[0]
    if len(x.shape) != 3:
        raise node.error("a sequence has 2 or 3 dimensions", x)
    return x.shape[:2] if time_major else x.shape[1::-1]


def window(value, steps, rows, time_major, depth=None, offset=0):
    """Value as (steps, rows, depth): its last dimension from `offset` on."""
    width = value.shape[-1]
    strides = (rows * width, width, 1) if time_major or steps == 1 else (width, steps * width, 1)
    return value.view((steps, rows, width if depth is None else depth), strides, offset)


def activation(node):
    """As the kernels take it."""
    name = node.options.fused_activation_function
    if name in ("TANH", "SIGN_BIT"):
        return name
    return tuple(math.copysign(math.inf, b) if abs(b) == quantization.FLT_MAX else b
                 for b in quantization.activation_bounds(name))


def constant(node, value):
    return products.contents(node, value, "weights")


def packed(node, w):
    """The weights as kernels take them: packed, a diagonal, or None."""
    if w is None:
        return None
    constant(node, w)
    if len(w.shape) == 1:
        return w if w.dtype == "float32" else dequantized(node, w)
    if w.dtype == "float32":
        return Packed("recurrent.pack", w)
    scales(node, w)
    return Packed("recurrent.pack", w, products.per_channel(w.scales, w.shape[0]))


def scales(node, w):
    if not w.quantized:
        raise node.error("has no scale, which integer weights need", w)
    products.check_scales(node, w, w.shape[0], 0)


def dequantized(node, w):
    """A vector as float32."""
    if w is None or w.dtype == "float32":
        return constant(node, w)
    scales(node, w)
    return constant(node, w).view(np.int8) * np.float32(w.scale)


def lower_layer(node, layer, x, aux, y, backward=False):
    """The Call of one direction.  x, aux, y: Views of (steps, rows, depth)."""
    rows = x.shape[1]
    options = node.options
    depths = (x.shape[2], 0 if aux is None else aux.shape[2], layer.outputs,
              layer.cells if layer.projection[0] is not None else 0)
    hybrid = layer.hybrid
    room = [scratch(len(layer.gates) * rows * layer.cells, "float32"), scratch(hybrid * rows * sum(depths), "int8"),
            scratch(hybrid * 4 * rows, "float32"), scratch(hybrid * 4 * rows, "int32")]
    clips = getattr(options, "cell_clip", 0.0), getattr(options, "proj_clip", 0.0)
    operands = []
    for w, a, r, peephole, bias, norm in layer.gates:
        operands += [packed(node, w), packed(node, a) if aux is not None else None, packed(node, r),
                     dequantized(node, peephole), constant(node, bias), dequantized(node, norm)]
    operands += [packed(node, layer.projection[0]), constant(node, layer.projection[1])]
    return Call("recurrent.Recurrent", x, aux, y, layer.h.flat, None if layer.c is None else layer.c.flat, *room,
                (layer.cells, layer.outputs),
                (backward, options.asymmetric_quantize_inputs, activation(node), *clips), *operands)


# ---- LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM ------------------------------------------------------------------
def time_major(node):
    """LSTM takes time first, where its input has more than one step at all."""
    return getattr(node.options, "time_major", True)


def infer_lstm(node):
    if getattr(node.options, "kernel_type", "FULL") == "BASIC":
        return lstm_integer.infer_basic(node)
    x = node.inputs[0]
    layer = lstm_layer(node)
    _, rows = sequence(node, x, time_major(node))
    layer.check(node, rows, x.shape[-1], 0)
    return [(*x.shape[:-1], layer.outputs)]


def lower_lstm(node):
    if getattr(node.options, "kernel_type", "FULL") == "BASIC":
        return lstm_integer.lower_basic(node)
    x, y = node.inputs[0], node.outputs[0]
    steps, rows = sequence(node, x, time_major(node))
    views = [window(v, steps, rows, time_major(node)) for v in (x, y)]
    layer = lstm_layer(node)
    if x.dtype == "int8":
        return lstm_integer.lower_layer(node, layer, *views)
    return lower_layer(node, layer, views[0], None, views[1])


# ---- BIDIRECTIONAL_SEQUENCE_LSTM ----------------------------------------------------------------------------
def _both_lstm(node):
    linked = node.input(41) is not None         # aux is seen by both directions, or takes x's place for one
    return (lstm_layer(node, 0, 35, 36, 40 if linked else None), lstm_layer(node, 17, 37, 38, 44 if linked else None),
            node.inputs[0], node.input(39), linked)


def _both_rnn(node):
    def layer(at, state, aux):
        return Layer(node, [(node.input(at), node.input(aux), node.input(at + 1), None, node.input(at + 2), None)],
                     node.input(state), None)
    linked = node.input(10) is not None
    return layer(1, 4, 10), layer(5, 8, 11), node.inputs[0], node.input(9), linked


def infer_both(node):
    forward, backward, x, aux, linked = (_both_lstm if "LSTM" in node.name else _both_rnn)(node)
    if len(x.shape) != 3:
        raise node.error("a sequence has 3 dimensions", x)
    if aux is not None and (aux.shape[:-1] != x.shape[:-1] or aux.dtype != x.dtype):
        raise node.error(f"must be {x.dtype}, and its shape begin with {list(x.shape[:-1])}, as that of {x!r}", aux)
    _, rows = sequence(node, x, node.options.time_major)
    depth = aux.shape[-1] if aux is not None and linked else 0
    forward.check(node, rows, x.shape[-1], depth)
    backward.check(node, rows, (x if aux is None or linked else aux).shape[-1], depth)
    lead = x.shape[:-1]
    if node.options.merge_outputs:
        return [(*lead, forward.outputs + backward.outputs)]
    return [(*lead, forward.outputs), (*lead, backward.outputs)]


def lower_both(node):
    forward, backward, x, aux, linked = (_both_lstm if "LSTM" in node.name else _both_rnn)(node)
    major = node.options.time_major
    steps, rows = sequence(node, x, major)
    seen = x if aux is None or linked else aux
    x_view, seen_view = (window(v, steps, rows, major) for v in (x, seen))
    aux_view = window(aux, steps, rows, major) if aux is not None and linked else None
    merged = node.options.merge_outputs
    y = node.outputs[0]
    first = window(y, steps, rows, major, forward.outputs)
    second = window(y, steps, rows, major, backward.outputs, forward.outputs) if merged else \
        window(node.outputs[1], steps, rows, major)
    return [lower_layer(node, forward, x_view, aux_view, first),
            lower_layer(node, backward, seen_view, aux_view, second, backward=True)]


# ---- RNN and UNIDIRECTIONAL_SEQUENCE_RNN --------------------------------------------------------------------
def _rnn(node):
    w, r, bias, h = (node.input(i) for i in range(1, 5))
    return Layer(node, [(w, None, r, None, bias, None)], h, None)


def infer_rnn(node):
    x, layer = node.inputs[0], _rnn(node)
    _, rows = sequence(node, x, getattr(node.options, "time_major", True))
    layer.check(node, rows, x.shape[-1], 0)
    return [(*x.shape[:-1], layer.outputs)]


def lower_rnn(node):
    x, y = node.inputs[0], node.outputs[0]
    major = getattr(node.options, "time_major", True)
    steps, rows = sequence(node, x, major)
    return lower_layer(node, _rnn(node), window(x, steps, rows, major), None, window(y, steps, rows, major))


_FLOAT = "float32 float32|int8|uint8* -> float32*"
_INTEGER = "int8 int8|int16|int32* -> int8"

register("LSTM", versions=(1, 4), types=[_FLOAT, _INTEGER, "uint8 uint8 uint8 int32 int16 -> uint8 int16 uint8 int16"],
         infer=infer_lstm, lower=lower_lstm, stateful=True)
register("UNIDIRECTIONAL_SEQUENCE_LSTM", versions=(1, 4), types=[_FLOAT, _INTEGER], infer=infer_lstm, lower=lower_lstm,
         stateful=True)
register("BIDIRECTIONAL_SEQUENCE_LSTM", versions=(1, 3), types=[_FLOAT], infer=infer_both, lower=lower_both,
         stateful=True)
register("RNN", versions=(1, 3), types=[_FLOAT], infer=infer_rnn, lower=lower_rnn, stateful=True)
register("UNIDIRECTIONAL_SEQUENCE_RNN", versions=(1, 3), types=[_FLOAT], infer=infer_rnn, lower=lower_rnn,
         stateful=True)
register("BIDIRECTIONAL_SEQUENCE_RNN", versions=(1, 3), types=[_FLOAT], infer=infer_both, lower=lower_both,
         stateful=True)
