"""RNN and UNIDIRECTIONAL_SEQUENCE_RNN: layers of one gate, of floats or with integer weights."""
from pylite.ir.registry import register
from pylite.ops.recurrent_layer import Gate, Layer, lower_layer, sequence, steps_and_rows

FLOAT = "float32 float32|int8|uint8* -> float32*"


def rnn_layer(node):
    w, r, bias, h = (node.input(i) for i in range(1, 5))
    return Layer(node, [Gate(x=w, h=r, bias=bias)], h, None)


def infer_rnn(node):
    x, layer = node.inputs[0], rnn_layer(node)
    _, rows = steps_and_rows(node, x)
    layer.check(node, rows, x.shape[-1], 0)
    return [(*x.shape[:-1], layer.outputs)]


def lower_rnn(node):
    return lower_layer(node, rnn_layer(node), sequence(node, node.inputs[0]), None, sequence(node, node.outputs[0]))


register("RNN", versions=(1, 3), types=[FLOAT], infer=infer_rnn, lower=lower_rnn, stateful=True)
register("UNIDIRECTIONAL_SEQUENCE_RNN", versions=(1, 3), types=[FLOAT], infer=infer_rnn, lower=lower_rnn,
         stateful=True)
