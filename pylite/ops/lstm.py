"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM.  Layers of integers: lstm_integer.py; the basic cell: lstm_basic.py."""
from pylite.ir.registry import register
from pylite.ops.recurrent_layer import Gate, Layer, lower_layer, sequence, steps_and_rows

FLOAT = "float32 float32|int8|uint8* -> float32*"
INTEGER = "int8 int8|int16|int32* -> int8"
# The positions of a gate's operands among the inputs: weights of x and of h, peephole, bias, layer normalization.
_GATES = ((1, 5, 9, 12, 20), (2, 6, 10, 13, 21), (3, 7, None, 14, 22), (4, 8, 11, 15, 23))
_PROJECTION = 16
_H = 18


def lstm_layer(node, first=0, h=_H, c=_H + 1, aux=None):
    """The Layer of an LSTM.

    first: the number of inputs before its operands, beyond those of UNIDIRECTIONAL_SEQUENCE_LSTM; h, c: positions of
    the state; aux: of the first gate's weights of the auxiliary input, or None.
    """
    def operand(i):
        return None if i is None else node.input(i)
    gates = []
    for k, (x, r, peephole, bias, norm) in enumerate(_GATES):
        gates.append(Gate(operand(x + first), None if aux is None else operand(aux + k), operand(r + first),
                          operand(None if peephole is None else peephole + first), operand(bias + first),
                          operand(norm) if h == _H else None))
    if gates[0].x is None:
        gates[0] = Gate()
    return Layer(node, gates, node.input(h), node.input(c),
                 (operand(_PROJECTION + first), operand(_PROJECTION + 1 + first)))


def infer_lstm(node):
    if getattr(node.options, "kernel_type", "FULL") == "BASIC":
        from pylite.ops.lstm_basic import infer_basic  # imported on demand: few models have this cell
        return infer_basic(node)
    x = node.inputs[0]
    layer = lstm_layer(node)
    _, rows = steps_and_rows(node, x)
    layer.check(node, rows, x.shape[-1], 0)
    return [(*x.shape[:-1], layer.outputs)]


def lower_lstm(node):
    if getattr(node.options, "kernel_type", "FULL") == "BASIC":
        from pylite.ops.lstm_basic import lower_basic  # as in infer_lstm
        return lower_basic(node)
    x, y = (sequence(node, value) for value in (node.inputs[0], node.outputs[0]))
    layer = lstm_layer(node)
    if x.dtype == "int8":
        from pylite.ops import lstm_integer  # imported on demand: models of floats need none of it
        return lstm_integer.lower_layer(node, layer, x, y)
    return lower_layer(node, layer, x, None, y)


register("LSTM", versions=(1, 4), types=[FLOAT, INTEGER, "uint8 uint8 uint8 int32 int16 -> uint8 int16 uint8 int16"],
         infer=infer_lstm, lower=lower_lstm, stateful=True)
register("UNIDIRECTIONAL_SEQUENCE_LSTM", versions=(1, 4), types=[FLOAT, INTEGER], infer=infer_lstm, lower=lower_lstm,
         stateful=True)
