"""The cost of a node in multiply-accumulates, from the shapes of its operands."""
import math


def macs(node):
    """Multiply-accumulates of one run of `node`; 0 for ops that do not sum products."""
    count = _COUNTERS.get(node.name)
    if count is None or any(value is None for value in node.inputs[:2]) or not node.outputs:
        return _recurrent(node) if node.name in _RECURRENT and node.inputs[:1] != (None,) and node.outputs else 0
    try:
        return count(node)
    except (IndexError, ZeroDivisionError):     # the file declares ranks that the op does not take
        return 0


def _per_output(node):
    """CONV_2D and FULLY_CONNECTED: each output element sums over one filter."""
    weights = node.inputs[1].shape
    return node.outputs[0].size * math.prod(weights[1:])


def _depthwise(node):
    _, height, width, _ = node.inputs[1].shape
    return node.outputs[0].size * height * width


def _transposed(node):
    """Each element of the input, operand 2, is multiplied by a filter position for every output channel."""
    count, height, width, _ = node.inputs[1].shape
    return node.inputs[2].size * count * height * width


def _matrices(node):
    x = node.inputs[0]
    return node.outputs[0].size * x.shape[-2 if node.options.adj_x else -1]


def _recurrent(node):
    """Every matrix of weights meets each step of each sequence once; peepholes and the gates' products do not count."""
    rank, positions = _RECURRENT[node.name]
    if node.name == "LSTM" and len(node.inputs) == 5:       # the basic cell has one matrix
        positions = (2,)
    steps = math.prod(node.inputs[0].shape[:rank - 1])
    weights = [node.input(position) for position in positions]
    return steps * sum(value.size for value in weights if value is not None)


_LSTM = (*range(1, 9), 16)      # positions of the gates' weights for the input and the state, and of the projection's
# op -> (rank of its input: batches, in sequences also steps, then features; positions of its matrices of weights).
_RECURRENT = {"UNIDIRECTIONAL_SEQUENCE_LSTM": (3, _LSTM),
              "BIDIRECTIONAL_SEQUENCE_LSTM": (3, (*_LSTM, *range(18, 26), 33, *range(40, 48))),
              "LSTM": (2, _LSTM), "UNIDIRECTIONAL_SEQUENCE_RNN": (3, (1, 2)), "RNN": (2, (1, 2)),
              "BIDIRECTIONAL_SEQUENCE_RNN": (3, (1, 2, 5, 6, 10, 11)), "SVDF": (2, (1, 2))}
_COUNTERS = {"CONV_2D": _per_output, "CONV_3D": lambda node: node.outputs[0].size * math.prod(node.inputs[1].shape[:4]),
             "FULLY_CONNECTED": _per_output, "DEPTHWISE_CONV_2D": _depthwise, "TRANSPOSE_CONV": _transposed,
             "BATCH_MATMUL": _matrices}

WEIGHTED = frozenset(_COUNTERS)
