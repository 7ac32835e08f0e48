"""BIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_RNN: a layer for each direction of a sequence of floats."""
from pylite.ir.registry import register
from pylite.ops.lstm import FLOAT, lstm_layer
from pylite.ops.recurrent_layer import Gate, Layer, lower_layer, sequence, steps_and_rows


class Bidirectional:
    """The layers of a node, `forward` and `backward`, and their inputs.

    auxiliary: the auxiliary input, or None; x: the input of the forward layer; x_backward: of the backward layer, which
    is the auxiliary input if the layers have no weights for it; aux: the auxiliary input if they have, or None.
    """
    __slots__ = ("forward", "backward", "x", "x_backward", "aux", "auxiliary")

    def __init__(self, node):
        if node.name == "BIDIRECTIONAL_SEQUENCE_LSTM":
            linked = node.input(41) is not None         # the layers have weights for the auxiliary input
            self.forward = lstm_layer(node, 0, 35, 36, 40 if linked else None)
            self.backward = lstm_layer(node, 17, 37, 38, 44 if linked else None)
            self.auxiliary = node.input(39)
        else:
            linked = node.input(10) is not None
            self.forward = _rnn_layer(node, 1, 4, 10)
            self.backward = _rnn_layer(node, 5, 8, 11)
            self.auxiliary = node.input(9)
        self.x = node.inputs[0]
        self.aux = self.auxiliary if linked else None
        self.x_backward = self.x if self.auxiliary is None or linked else self.auxiliary


def _rnn_layer(node, first, state, aux):
    """first: position of the weights of x, before those of h and the bias."""
    return Layer(node, [Gate(node.input(first), node.input(aux), node.input(first + 1), None, node.input(first + 2))],
                 node.input(state), None)


def infer_both(node):
    both = Bidirectional(node)
    x, aux = both.x, both.auxiliary
    if len(x.shape) != 3:
        raise node.error("a sequence must have 3 dimensions", x)
    if aux is not None and (aux.shape[:-1] != x.shape[:-1] or aux.dtype != x.dtype):
        raise node.error(f"must be {x.dtype}, and its shape begin with {list(x.shape[:-1])}, as that of {x!r}", aux)
    _, rows = steps_and_rows(node, x)
    depth = both.aux.shape[-1] if both.aux is not None else 0
    both.forward.check(node, rows, x.shape[-1], depth)
    both.backward.check(node, rows, both.x_backward.shape[-1], depth)
    lead = x.shape[:-1]
    if node.options.merge_outputs:
        return [(*lead, both.forward.outputs + both.backward.outputs)]
    return [(*lead, both.forward.outputs), (*lead, both.backward.outputs)]


def lower_both(node):
    both = Bidirectional(node)
    x, x_backward = sequence(node, both.x), sequence(node, both.x_backward)
    aux = sequence(node, both.aux) if both.aux is not None else None
    y = sequence(node, node.outputs[0], both.forward.outputs)
    if node.options.merge_outputs:
        y_backward = sequence(node, node.outputs[0], both.backward.outputs, both.forward.outputs)
    else:
        y_backward = sequence(node, node.outputs[1])
    return [lower_layer(node, both.forward, x, aux, y),
            lower_layer(node, both.backward, x_backward, aux, y_backward, backward=True)]


register("BIDIRECTIONAL_SEQUENCE_LSTM", versions=(1, 3), types=[FLOAT], infer=infer_both, lower=lower_both,
         stateful=True)
register("BIDIRECTIONAL_SEQUENCE_RNN", versions=(1, 3), types=[FLOAT], infer=infer_both, lower=lower_both,
         stateful=True)
