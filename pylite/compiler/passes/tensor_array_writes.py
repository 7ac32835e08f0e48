"""Replaces the write of one TensorArray element in a loop body by one operator whose shapes are known.

TensorFlow's converter writes element i as the concatenation of x[:i], the element and x[i + 1:], whose shapes depend on
data in each iteration.  DYNAMIC_UPDATE_SLICE has the same result, and its shapes are known.  An index outside the
array is an error, as for the SLICE.  So is -1, for which the reference concatenates x, the element and x.
"""
from types import SimpleNamespace

import numpy as np

from pylite.ir.graph import Operator, replace

WRITE = "DYNAMIC_UPDATE_SLICE"
WRITE_CODE = 151


class ElementOptions:
    """The options of a write, whose lowering then does not clamp the index."""
    TABLE = SimpleNamespace(name="element of a TensorArray")
    is_element = True


_OPTIONS = ElementOptions()


def run(subgraph):
    """The Subgraph with each write as a DYNAMIC_UPDATE_SLICE, without the operators that only the writes needed."""
    producers = {i: operator for operator in subgraph.operators for i in operator.outputs}
    writes = {}
    for operator in subgraph.operators:
        if operator.name == "CONCATENATION" and len(operator.inputs) == 3:
            write = _write(subgraph.tensors, operator, producers)
            if write is not None:
                writes[operator.index] = write
    if not writes:
        return subgraph
    operators = [writes.get(operator.index, operator) for operator in subgraph.operators]
    unused = {i for index in writes for i in subgraph.operators[index].inputs}
    return replace(subgraph, operators=tuple(_without_dead(operators, subgraph.outputs, unused)))


# ---- dead operators ------------------------------------------------------------------------------------------
def _without_dead(operators, outputs, unused):
    """The operators that something reads: not those whose results are `unused`, or read only by such operators."""
    while True:
        used = {i for operator in operators for i in operator.inputs}.union(outputs)
        live = [operator for operator in operators if not _is_dead(operator, used, unused)]
        if len(live) == len(operators):
            return live
        for operator in operators:
            if operator not in live:
                unused.update(operator.inputs)
        operators = live


def _is_dead(operator, used, unused):
    return (operator.name in ("SLICE", "CONCATENATION", "RESHAPE") and bool(operator.outputs)
            and unused.issuperset(operator.outputs) and used.isdisjoint(operator.outputs))


# ---- the pattern ---------------------------------------------------------------------------------------------
def _write(tensors, concat, producers):
    """The Operator that replaces `concat`; None if `concat` is not a write."""
    before, item, after = concat.inputs
    head, tail = producers.get(before), producers.get(after)
    if not head or not tail or head.name != "SLICE" or tail.name != "SLICE" or head.inputs[0] != tail.inputs[0]:
        return None
    x, y = tensors[head.inputs[0]], tensors[concat.outputs[0]]
    if (_is_along_outer_axis(concat, len(x.shape)) and _is_element(tensors[item], x) and _is_alike(y, x)
            and _are_rest(tensors, x, head, tail, producers)):
        operands = x.index, item, head.inputs[2]
        return Operator(concat.index, WRITE, WRITE_CODE, False, 1, operands, concat.outputs, _OPTIONS)
    return None


def _is_along_outer_axis(concat, rank):
    return rank > 0 and concat.options.axis in (0, -rank) and concat.options.fused_activation_function == "NONE"


def _is_element(item, x):
    """Is `item` one element of the array x, all of known shapes?"""
    return (-1 not in (*x.shape_signature[1:], *item.shape_signature) and item.shape == (1, *x.shape[1:])
            and _have_same_scales(x.quantization, item.quantization))


def _is_alike(y, x):
    """Is y an array with the same kind of elements as x?"""
    return y.shape[1:] == x.shape[1:] and _have_same_scales(x.quantization, y.quantization)


def _have_same_scales(a, b):
    if a is None or b is None:
        return a is b
    return np.array_equal(a.scale, b.scale) and np.array_equal(a.zero_point, b.zero_point)


def _are_rest(tensors, x, head, tail, producers):
    """Is `head` x[:i] and `tail` x[i + 1:]?"""
    rank, inner = len(x.shape), list(x.shape[1:])
    if _constant(tensors[head.inputs[1]]) != [0] * rank or _constant(tensors[tail.inputs[2]]) not in (
            [-1] * rank, [-1, *inner]):
        return False
    size, begin = (_vector(tensors, operand, producers) for operand in (head.inputs[2], tail.inputs[1]))
    if size is None or begin is None or begin[1] != [0] * (rank - 1) or size[1] not in ([-1] * (rank - 1), inner):
        return False
    return _is_next(tensors, begin[0], size[0], producers)


def _is_next(tensors, after, index, producers):
    """Is tensor `after` tensor `index` + 1?"""
    add = producers.get(after)
    if add is None or add.name != "ADD" or add.options.fused_activation_function != "NONE":
        return False
    a, b = (_source(i, producers) for i in add.inputs)
    return (index, [1]) in ((a, _constant(tensors[b])), (b, _constant(tensors[a])))


def _vector(tensors, index, producers):
    """(tensor, constants) if tensor `index` consists of that tensor's one element and then the constants, else None."""
    index = _source(index, producers)
    producer = producers.get(index)
    if producer is None or producer.name != "CONCATENATION":
        return index, []
    rest = _constant(tensors[producer.inputs[1]]) if len(producer.inputs) == 2 else None
    return None if rest is None else (_source(producer.inputs[0], producers), rest)


def _source(index, producers):
    """The tensor from which tensor `index` was reshaped."""
    while (producer := producers.get(index)) is not None and producer.name == "RESHAPE":
        index = producer.inputs[0]
    return index


def _constant(tensor):
    """The elements of a constant of integers, else None."""
    if tensor.data is None or tensor.dtype not in ("int32", "int64"):
        return None
    return np.frombuffer(tensor.data, tensor.dtype).tolist()
