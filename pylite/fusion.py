"""Operators that are better run as one: activations with what they follow, and writes of loop bodies.

TensorFlow's converter writes element i of a TensorArray as x[:i], the element and x[i + 1:] joined, whose sizes depend
on data in each turn. It is one DYNAMIC_UPDATE_SLICE, whose shapes are known.
"""
import numpy as np

from pylite import registry
from pylite.graph import Operator, replace
from pylite.lowering import ACTIVATIONS

WRITE = "DYNAMIC_UPDATE_SLICE"
WRITE_CODE = 151


def activations(subgraph, find):
    """The Subgraph in which operators apply the activations of floats that follow them, and these: a list of Folded.

    find(operator): its Op.  An operator is left alone whose result somebody else wants, too.
    """
    tensors, operators, readers, makers, found = subgraph.tensors, list(subgraph.operators), {}, {}, []
    for operator in operators:
        for i in operator.inputs:
            readers[i] = readers.get(i, 0) + 1
    for i in subgraph.outputs:
        readers[i] = readers.get(i, 0) + 1
    for position, operator in enumerate(operators):
        makers.update((i, position) for i in operator.outputs)
        if operator.name not in ACTIVATIONS or operator.inputs[0] not in makers:
            continue
        x, y = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
        maker = operators[makers[x.index]]
        if (x.dtype == y.dtype == "float32" and not (x.is_variable or y.is_variable) and readers[x.index] == 1
                and find(operator).lower is registry.find(operator.name).lower      # not the user's own
                and len(maker.outputs) == 1 and find(maker).clamps
                and getattr(maker.options, "fused_activation_function", None) == "NONE"):
            options = maker.options.TABLE(**maker.options.__dict__ | {"fused_activation_function": operator.name})
            operators[makers[x.index]] = replace(maker, outputs=operator.outputs, options=options)
            found.append(Folded(operator.index, maker.index, x.index, y.index))
    gone = {folded.operator for folded in found}
    return replace(subgraph, operators=tuple([o for o in operators if o.index not in gone])), found


class Folded:
    """An operator that another one, `into`, does as well: from tensor x, which nobody has then, to tensor y."""
    __slots__ = ("operator", "into", "x", "y")

    def __init__(self, operator, into, x, y):
        self.operator = operator
        self.into = into
        self.x = x
        self.y = y


def array_writes(subgraph):
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
