"""Graph to calls: infer every shape, choose every kernel, fold what is constant."""
from itertools import pairwise
from math import prod

import numpy as np

import pylite
from pylite._core.memory import most
from pylite.node import Call, Constant, Node, Packed, Padded, Value
from pylite.registry import default

ACTIVATIONS = frozenset(("RELU", "RELU_N1_TO_1", "RELU6"))      # that an option of other operators names, too
LARGE = 1 << 14         # bytes of a result from which on it pays not to write all of it before it is read
_MANY = 2**26           # elements from which on their bytes are compared with what the machine has
UNRESOLVED = "Didn't find op for builtin opcode"


class Lowered:
    """A subgraph for one set of input shapes: its values, and the calls that compute them.

    values: list of Value, by tensor index; calls: list of Call in execution order, each with its Node.
    Where a shape depends on data the calls stop before it, and `pause` is what must be known: a Value whose contents
    decide, or a Node to evaluate; tail is the Subgraph of what is left and later the tensors that it computes.
    evaluated: the values that are filled in before the first call; notes: {node index: why nothing runs for it};
    folded: of fusion.activations.
    """
    __slots__ = ("subgraph", "values", "nodes", "calls", "pause", "tail", "later", "evaluated", "notes", "folded")

    def __init__(self, subgraph, values, nodes, calls, pause=None, tail=None, later=frozenset()):
        self.subgraph = subgraph
        self.values = values
        self.nodes = nodes
        self.calls = calls
        self.pause = pause
        self.tail = tail
        self.later = later
        self.evaluated = ()
        self.notes = {}
        self.folded = ()

    def take_note(self, folded):
        """Say what was folded, and what shape it would have."""
        self.folded = folded
        for item in folded:
            self.notes[item.operator] = f"folded into node {item.into}"
            self.values[item.x].shape = self.values[item.y].shape


def check(model, subgraphs, unresolved_only=False, find=default.find):
    """Raise UnsupportedOpError naming every operator of `subgraphs` that cannot run, all at once; True if all can.

    find(operator): its Op, or None.
    unresolved_only: stay silent unless a builtin operator or its version is unknown, which tf.lite reports when a
    model is opened; custom ops and types it reports when tensors are allocated.
    """
    missing = {}
    for subgraph in subgraphs:
        for operator in subgraph.operators:
            reason = unsupported(subgraph, operator, find)
            if reason:
                where = f"{subgraph.index}:{operator.index}" if len(model.graph.subgraphs) > 1 else str(operator.index)
                missing.setdefault(reason, []).append(where)
    if unresolved_only and not any(reason.startswith(UNRESOLVED) for reason in missing):
        return not missing
    if missing:
        lines = [f"{reason}; node{'s' if len(at) > 1 else ''} {_few(at)}" for reason, at in missing.items()]
        raise pylite.UnsupportedOpError("the model needs what this runtime does not have: " + " | ".join(lines))
    return True


def unsupported(subgraph, operator, find=default.find):
    """Why `operator` cannot run, as a sentence, or None."""
    op = find(operator)
    if op is None:
        if operator.custom:
            return (f"Encountered unresolved custom op: {operator.name}. Register it as a custom op, or convert the "
                    "model without it")
        return f"{UNRESOLVED} '{operator.name}' version '{operator.version}'"
    low, high = op.versions
    if op.attach and not low <= operator.version <= high:
        return (f"Encountered unresolved custom op: {operator.name} in version {operator.version}. It is registered in "
                f"versions {low} to {high}")
    if operator.version > high:
        return (f"{UNRESOLVED} '{operator.name}' version '{operator.version}' "
                f"(versions {low} to {high} are known; the nearest is {high})")
    tensors = subgraph.tensors
    inputs = tuple([tensors[i].dtype if i >= 0 else None for i in operator.inputs])
    outputs = tuple([tensors[i].dtype if i >= 0 else None for i in operator.outputs])
    if not op.accepts(inputs, outputs):
        takes = ", ".join(str(d) for d in inputs)
        gives = ", ".join(str(d) for d in outputs)
        return f"{operator.name} version {operator.version} does not take the types ({takes}) -> ({gives})"
    if not op.attach and not op.blockwise:
        for i in operator.inputs:
            q = tensors[i].quantization if i >= 0 else None
            if q is not None and q.block_size > 0:
                return f"{operator.name} version {operator.version} does not take blockwise quantized operands"
    return None


@np.errstate(all="ignore")
def lower(model, subgraph, shapes, preserve=False, find=default.find, pausing=False, host=None):
    """Lower `subgraph` for the input `shapes` (one tuple per graph input).

    model: the LoadedModel that keeps folded constants and packed weights; preserve: give every tensor its own
    memory; find(operator): its Op; pausing: stop before a shape that depends on data instead of raising;
    host: the Executor, for ops that call other subgraphs or keep a state.
    Raises OpError (a RuntimeError) naming the node and tensor that cannot be prepared.
    """
    folded = ()
    if not preserve and not ACTIVATIONS.isdisjoint([operator.name for operator in subgraph.operators]):
        from pylite import fusion
        subgraph, folded = fusion.activations(subgraph, find)
    values = [Value(tensor, model.constant(tensor)) for tensor in subgraph.tensors]
    if host is not None:
        for position, data in host.given.items():
            values[subgraph.inputs[position]].data = data
    for index, shape in zip(subgraph.inputs, shapes, strict=True):
        values[index].shape = shape
        if values[index].data is None and values[index].kind != "variable":
            values[index].kind = "input"
    lowered = lower_values(model, subgraph, values, preserve, find, pausing, host)
    lowered.take_note(folded)
    return lowered


def lower_values(model, subgraph, values, preserve, find, pausing, host):
    """The rest of lower(): the Lowered of `subgraph` whose `values` hold what is known beforehand."""
    outputs = set(subgraph.outputs)
    has_strings = "string" in [value.dtype for value in values]
    calls = []
    nodes = []
    pads = []
    notes = {}
    for position, operator in enumerate(subgraph.operators):
        node = Node(operator.index, operator, values, host)
        op = find(operator)
        foldable = not op.stateful
        if foldable:
            for value in node.inputs:
                if value is not None and value.data is None:
                    foldable = False
                    break
        try:
            emitted = _prepared(op, node, foldable)
        except pylite.DataDependentError as problem:
            if not pausing:
                raise
            from pylite import pausing  # seldom wanted, as are those below
            return pausing.paused(subgraph, position, values, nodes, calls, problem.cause)
        nodes.append(node)
        if emitted is None:
            notes[node.index] = (
                "known beforehand" if node.outputs and node.outputs[0].data is not None else "its outputs are empty")
            continue
        if not isinstance(emitted, list):
            emitted = [emitted]
        if has_strings:
            from pylite import strings
            emitted = strings.by_reference(op, node, emitted)
        if foldable:
            from pylite import folding
            folding.fold(model, subgraph, node, emitted)
            notes[node.index] = "computed once, from constants"
            continue
        for item in emitted:
            if type(item) is Call:
                item.node = node
                calls.append(item)
                for a in item.args:
                    if type(a) is Packed:
                        model.pack(a)       # now, for another thread can do it while this one goes on
            elif type(item) is Constant:
                item.y.data = np.asarray(item.data, order="C")
                notes[node.index] = "known beforehand"
            elif type(item) is Padded:
                if not preserve:
                    item.y.padded = item
                    pads.append((node, item))
            elif preserve or not _may_share(item.y, item.x, outputs):
                copy = Call("movement.Copy", item.x.view((item.x.nbytes,), dtype="uint8"),
                            item.y.view((item.y.nbytes,), dtype="uint8"))
                copy.node = node
                calls.append(copy)
            else:
                item.y.root, item.y.at = item.x.root, item.x.at
                notes[node.index] = f"alias of tensor {item.x.index}"
    lowered = Lowered(subgraph, values, nodes, calls)
    lowered.notes = notes
    folded = any(padded.folded for _, padded in pads)
    chained = not preserve and any(_chained(a, b) for a, b in pairwise(calls))
    if folded:
        from pylite import rewriting
        rewriting.drop_pads(lowered, pads)
    if chained:
        from pylite import chains
        chains.join_tables(lowered, model)
        chains.join_blocks(lowered)
    return lowered


def _prepared(op, node, foldable):
    """Infer the outputs' shapes; what computes the outputs, None where there is nothing to compute."""
    shapes = op.infer(node)
    if shapes is None:
        if not foldable:
            raise pylite.DataDependentError(f"{node}: its outputs' shapes depend on data", node)
        from pylite import folding
        return folding.evaluate(op, node)
    if len(shapes) != len(node.outputs):
        raise node.error(f"has {len(node.outputs)} outputs where {len(shapes)} are computed")
    empty = True
    for value, shape in zip(node.outputs, shapes, strict=True):
        if value is not None:
            value.shape = shape
            if 0 not in shape:
                empty = False
                if prod(shape) > _MANY and value.nbytes > most():
                    raise node.error(f"its shape would be {list(shape)}, which takes {value.nbytes} bytes; this "
                                     f"machine has {most()}. Make the inputs smaller", value)
    if empty and node.outputs and not op.stateful:
        return None
    try:
        return op.lower(node)
    except (ValueError, ArithmeticError) as problem:     # scales that no multiplier can express, above all
        raise node.error(str(problem)) from problem


def _may_share(y, x, outputs):
    """May y live in x's memory?  Not when the caller could see or change one through the other."""
    root = x.root
    if root.data is not None or root.kind == "variable":
        return False
    return not (y.index in outputs and (root.kind in ("input", "carried") or root.index in outputs))


def _chained(a, b):
    """May chains.py make these two calls one?"""
    unary, binary = "elementwise.Unary", "elementwise.Binary"
    if b.kernel != unary and b.kernel != binary:
        return False
    return (a.kernel == unary and (b.kernel == unary or a.args[3].shape[0] >= LARGE)) or (
        a.kernel == binary and a.args[6].shape[0] >= LARGE)


def _few(indices):
    shown = ", ".join(indices[:8])
    return shown if len(indices) <= 8 else f"{shown} and {len(indices) - 8} more"
