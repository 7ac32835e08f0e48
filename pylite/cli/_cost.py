"""What a node costs: multiply-accumulates, from the shapes of its operands."""
import math


def macs(node):
    """Multiply-accumulates of one run of `node`; 0 for ops that are not sums of products."""
    count = _COUNTERS.get(node.name)
    if count is None or any(value is None for value in node.inputs[:2]) or not node.outputs:
        return 0
    try:
        return count(node)
    except (IndexError, ZeroDivisionError):     # ranks that the op does not have: the file is wrong, not the count
        return 0


def _per_output(node):
    """Convolution and full connection: each output sums over one filter."""
    weights = node.inputs[1].shape
    return node.outputs[0].size * math.prod(weights[1:])


def _depthwise(node):
    _, height, width, _ = node.inputs[1].shape
    return node.outputs[0].size * height * width


def _transposed(node):
    """Each input element meets one filter; the input is the third operand, the output channels come first."""
    count, height, width, _ = node.inputs[1].shape
    return node.inputs[2].size * count * height * width


def _matrices(node):
    x = node.inputs[0]
    return node.outputs[0].size * x.shape[-2 if node.options.adj_x else -1]


_COUNTERS = {"CONV_2D": _per_output, "CONV_3D": lambda node: node.outputs[0].size * math.prod(node.inputs[1].shape[:4]),
             "FULLY_CONNECTED": _per_output, "DEPTHWISE_CONV_2D": _depthwise, "TRANSPOSE_CONV": _transposed,
             "BATCH_MATMUL": _matrices}

WEIGHTED = frozenset(_COUNTERS)
