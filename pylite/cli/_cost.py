"""The cost of a node in multiply-accumulates, from the shapes of its operands."""
import math


def macs(node):
    """Multiply-accumulates of one run of `node`; 0 for ops that do not sum products."""
    count = _COUNTERS.get(node.name)
    if count is None or any(value is None for value in node.inputs[:2]) or not node.outputs:
        return _recurrent(node) if node.name.endswith(("LSTM", "RNN", "SVDF")) and node.input(0) is not None else 0
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
    """Each step of each sequence meets every matrix of weights; the states are matrices, too, but not constant."""
    weights = [value for value in node.inputs[1:] if value is not None and value.data is not None]
    return math.prod(node.inputs[0].shape[:-1]) * sum(value.size for value in weights if len(value.shape) == 2)


_COUNTERS = {"CONV_2D": _per_output, "CONV_3D": lambda node: node.outputs[0].size * math.prod(node.inputs[1].shape[:4]),
             "FULLY_CONNECTED": _per_output, "DEPTHWISE_CONV_2D": _depthwise, "TRANSPOSE_CONV": _transposed,
             "BATCH_MATMUL": _matrices}

WEIGHTED = frozenset(_COUNTERS)       # ops whose second operand is their weights
