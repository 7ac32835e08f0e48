"""Writes of one element of a TensorArray in a loop body are one operator whose shapes are known.

TensorFlow's converter writes element i as x[:i], the element and x[i + 1:] joined, whose sizes depend on data in each
iteration.  It is one DYNAMIC_UPDATE_SLICE, whose shapes are known.
"""
import numpy as np

from pylite.ir.graph import Operator, replace

WRITE = "DYNAMIC_UPDATE_SLICE"
WRITE_CODE = 151


def run(subgraph):
    """The Subgraph with a DYNAMIC_UPDATE_SLICE for each such join, and without what was only needed for it."""
    makers = {i: operator for operator in subgraph.operators for i in operator.outputs}
    writes = {}
    for operator in subgraph.operators:
        found = operator.name == "CONCATENATION" and len(operator.inputs) == 3 and _write(subgraph, operator, makers)
        if found:
            writes[operator.index] = found
    if not writes:
        return subgraph
    operators = [writes.get(operator.index, operator) for operator in subgraph.operators]
    pruned = {i for write in writes.values() for i in subgraph.operators[write.index].inputs}
    while True:
        used = {i for operator in operators for i in operator.inputs}.union(subgraph.outputs)
        kept = [o for o in operators if not o.outputs or used.intersection(o.outputs) or not _only(o, pruned)]
        if len(kept) == len(operators):
            return replace(subgraph, operators=tuple(kept))
        for operator in operators:
            if operator not in kept:
                pruned.update(operator.inputs)
        operators = kept


def _only(operator, pruned):
    """Was it there for what has been pruned?"""
    return operator.name in ("SLICE", "CONCATENATION", "RESHAPE") and pruned.issuperset(operator.outputs)


def _write(subgraph, join, makers):
    """The Operator that does what `join` does, or None."""
    tensors = subgraph.tensors
    before, item, after = join.inputs
    head, tail = makers.get(before), makers.get(after)
    if not head or not tail or head.name != "SLICE" or tail.name != "SLICE" or head.inputs[0] != tail.inputs[0]:
        return None
    x, y = tensors[head.inputs[0]], tensors[join.outputs[0]]
    rank, row = len(x.shape), tensors[item]
    if (not rank or join.options.axis not in (0, -rank) or join.options.fused_activation_function != "NONE"
            or -1 in (*x.shape_signature[1:], *row.shape_signature) or row.shape != (1, *x.shape[1:])
            or y.shape[1:] != x.shape[1:] or not _alike(x.quantization, row.quantization)
            or not _alike(x.quantization, y.quantization)):
        return None
    rest = [_constant(tensors[i]) for i in (head.inputs[1], tail.inputs[2])]
    if rest != [[0] * rank, [-1] * rank] and rest != [[0] * rank, [-1, *x.shape[1:]]]:
        return None
    size, begin = (_led(tensors, operand, makers) for operand in (head.inputs[2], tail.inputs[1]))
    if size is None or begin is None or begin[1] != [0] * (rank - 1) or size[1] not in (
            [-1] * (rank - 1), list(x.shape[1:])):
        return None
    step = makers.get(begin[0])
    if step is None or step.name != "ADD" or step.options.fused_activation_function != "NONE":
        return None
    a, b = (_source(i, makers) for i in step.inputs)
    if (size[0], [1]) not in ((a, _constant(tensors[b])), (b, _constant(tensors[a]))):
        return None
    return Operator(join.index, WRITE, WRITE_CODE, False, 1, (x.index, item, head.inputs[2]), join.outputs, None)


def _led(tensors, index, makers):
    """(tensor, constants) where tensor `index` is one element of the tensor and the constants after it, else None."""
    index = _source(index, makers)
    maker = makers.get(index)
    if maker is None or maker.name != "CONCATENATION":
        return index, []
    rest = _constant(tensors[maker.inputs[1]]) if len(maker.inputs) == 2 else None
    return None if rest is None else (_source(maker.inputs[0], makers), rest)


def _source(index, makers):
    """The tensor that tensor `index` has its elements from."""
    while (maker := makers.get(index)) is not None and maker.name == "RESHAPE":
        index = maker.inputs[0]
    return index


def _constant(tensor):
    """The elements of a constant of integers, else None."""
    if tensor.data is None or tensor.dtype not in ("int32", "int64"):
        return None
    return np.frombuffer(tensor.data, tensor.dtype).tolist()


def _alike(a, b):
    if a is None or b is None:
        return a is b
    return np.array_equal(a.scale, b.scale) and np.array_equal(a.zero_point, b.zero_point)
