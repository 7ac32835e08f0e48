"""Graph to calls: infer every shape, choose every kernel, fold what is constant."""
from itertools import pairwise
from math import prod

import numpy as np

from pylite import binding
from pylite._core.memory import most
from pylite.errors import DataDependentError, OpError, UnsupportedOpError
from pylite.graph import NUMPY_DTYPES
from pylite.node import Alias, Call, Constant, Node, Padded, Value
from pylite.records import replace
from pylite.registry import default

_MANY = 2**26           # elements from which on their bytes are compared with what the machine has
UNRESOLVED = "Didn't find op for builtin opcode"


class Lowered:
    """A subgraph for one set of input shapes: its values, and the calls that compute them.

    values: list of Value, by tensor index; calls: list of Call in execution order, each with its Node.
    Where a shape depends on data the calls stop before it, and `pause` is what must be known: a Value whose contents
    decide, or a Node to evaluate; tail is the Subgraph of what is left and later the tensors that it computes.
    evaluated: the values that are filled in before the first call; notes: {node index: why nothing runs for it}.
    """
    __slots__ = ("subgraph", "values", "nodes", "calls", "pause", "tail", "later", "evaluated", "notes")

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
        raise UnsupportedOpError("the model needs what this runtime does not have: " + " | ".join(lines))
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
    inputs = tuple(tensors[i].dtype if i >= 0 else None for i in operator.inputs)
    outputs = tuple(tensors[i].dtype if i >= 0 else None for i in operator.outputs)
    if not op.accepts(inputs, outputs):
        takes = ", ".join(str(d) for d in inputs)
        gives = ", ".join(str(d) for d in outputs)
        return f"{operator.name} version {operator.version} does not take the types ({takes}) -> ({gives})"
    if not op.attach and not op.blockwise and any(i >= 0 and _blockwise(tensors[i]) for i in operator.inputs):
        return f"{operator.name} version {operator.version} does not take blockwise quantized operands"
    return None


def _blockwise(tensor):
    return tensor.quantization is not None and tensor.quantization.block_size > 0


@np.errstate(all="ignore")
def lower(model, subgraph, shapes, preserve=False, find=default.find, pausing=False, host=None):
    """Lower `subgraph` for the input `shapes` (one tuple per graph input).

    model: the LoadedModel that keeps folded constants and packed weights; preserve: give every tensor its own
    memory; find(operator): its Op; pausing: stop before a shape that depends on data instead of raising;
    host: the Executor, for ops that call other subgraphs or keep a state.
    Raises OpError (a RuntimeError) naming the node and tensor that cannot be prepared.
    """
    values = [Value(tensor, model.constant(tensor)) for tensor in subgraph.tensors]
    if host is not None:
        for position, data in host.given.items():
            values[subgraph.inputs[position]].data = data
    for index, shape in zip(subgraph.inputs, shapes, strict=True):
        values[index].shape = shape
        if values[index].data is None and values[index].kind != "variable":
            values[index].kind = "input"
    return _lower(model, subgraph, values, preserve, find, pausing, host)


@np.errstate(all="ignore")
def resume(model, before, found, preserve=False, find=default.find, host=None):
    """Lower what is left after the pause of `before`.

    found: the contents of the Value that it waits for, or the shapes of the outputs of the Node that was evaluated.
    """
    values = []
    for old in before.values:
        value = Value(old.tensor, old.data)
        value.shape, value.fixed, value.dtype = old.shape, old.fixed, old.dtype
        if old.data is None and old.kind != "variable" and old.index not in before.later:
            value.kind = "carried"
        values.append(value)
    pause, evaluated = before.pause, []
    if type(pause) is Node:
        for old, shape in zip([v for v in pause.outputs if v is not None], found, strict=True):
            value = values[old.index]
            value.kind, value.shape = "temporary", shape
            evaluated.append(value)
    else:
        for old in before.values:       # the same elements under other shapes are known as well
            if old.root is pause.root and old.dtype == pause.dtype and old.data is None:
                values[old.index].data = found.reshape(old.shape)
    lowered = _lower(model, before.tail, values, preserve, find, True, host)
    lowered.evaluated = evaluated
    return lowered


def _lower(model, subgraph, values, preserve, find, pausing, host):
    outputs = set(subgraph.outputs)
    strings = "string" in [value.dtype for value in values]
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
        except DataDependentError as problem:
            if not pausing:
                raise
            return _paused(subgraph, position, values, nodes, calls, problem.cause)
        nodes.append(node)
        if emitted is None:
            notes[node.index] = (
                "known beforehand" if node.outputs and node.outputs[0].data is not None else "its outputs are empty")
            continue
        if not isinstance(emitted, list):
            emitted = [emitted]
        if strings and _strings(node) and getattr(op, "reference", None) and not _in_python(emitted[0]):
            emitted = [_by_reference(op, node)]
        if foldable:
            _fold(model, subgraph, node, emitted)
            notes[node.index] = "computed once, from constants"
            continue
        for item in emitted:
            if type(item) is Call:
                item.node = node
                calls.append(item)
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
    chained = not preserve and any(a.kernel == b.kernel == "elementwise.Unary" for a, b in pairwise(calls))
    if folded or chained:
        from pylite import rewriting  # seldom wanted
        if folded:
            rewriting.drop_pads(lowered, pads)
        if chained:
            rewriting.join_tables(lowered, model)
    return lowered


def _prepared(op, node, foldable):
    """Infer the outputs' shapes; what computes the outputs, None where there is nothing to compute."""
    shapes = op.infer(node)
    if shapes is None:
        if not foldable:
            raise DataDependentError(f"{node}: its outputs' shapes depend on data", node)
        return _evaluate(op, node)
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


def _paused(subgraph, position, values, nodes, calls, pause):
    """What is lowered before operator `position`, which waits for `pause`; a node that is evaluated is then done."""
    evaluated = type(pause) is Node
    head, tail = subgraph.operators[:position], subgraph.operators[position + evaluated:]
    later = frozenset(i for operator in tail for i in operator.outputs)
    kept = {i for operator in tail for i in operator.inputs if i >= 0} | set(subgraph.outputs)
    if evaluated:
        later = later.union(pause.operator.outputs)
        kept.update(value.index for value in pause.inputs if value is not None)
    else:
        kept.add(pause.index)
    return Lowered(replace(subgraph, operators=head, outputs=tuple(sorted(kept - later))), values, nodes, calls, pause,
                   replace(subgraph, operators=tail, inputs=()), later)


def _evaluate(op, node):
    """Compute the outputs of a node whose inputs are known, now."""
    results = op.evaluate(node, *[None if value is None else value.data for value in node.inputs])
    for value, result in zip(node.outputs, results, strict=True):
        if value is not None:
            value.data, value.shape = np.ascontiguousarray(result).reshape(result.shape), result.shape


def _strings(node):
    return any(value is not None and value.dtype == "string" for value in (*node.inputs, *node.outputs))


def _in_python(emitted):
    return type(emitted) is Constant or (type(emitted) is Call and emitted.kernel == "python_op.PythonOp")


def _by_reference(op, node):
    """Strings are objects, which no kernel handles: numpy does, by what the op means.

    Where an op only moves the elements of one tensor, where each comes from is found out once, on their numbers.
    """
    count, (y, *others) = len(node.inputs), node.outputs
    moved = [value for value in node.inputs if value is not None and value.data is None]
    if len(moved) == 1 and moved[0].dtype == y.dtype == "string" and not others:
        x = moved[0]
        places = op.reference(*[np.arange(x.size).reshape(x.shape) if value is x else value.data
                                for value in node.inputs if value is not None], node.options)
        if places.dtype == np.int64:
            places = np.ascontiguousarray(places).reshape(y.shape)

            def copy(x, y):
                y[...] = x

            def take(x, y):
                x.take(places, None, y, "clip")
            if x.shape == y.shape and (places.reshape(-1) == np.arange(x.size)).all():
                take = copy
            return Call("python_op.PythonOp", take, 1, 1, x, y)

    def run(*arrays):
        results = op.reference(*[x for x in arrays[:count] if x is not None], node.options)
        for y, result in zip(arrays[count:], results if isinstance(results, list) else [results], strict=True):
            y[...] = result
    return Call("python_op.PythonOp", run, count, len(node.outputs), *node.inputs, *node.outputs)


def _may_share(y, x, outputs):
    """May y live in x's memory?  Not when the caller could see or change one through the other."""
    root = x.root
    if root.data is not None or root.kind == "variable":
        return False
    return not (y.index in outputs and (root.kind in ("input", "carried") or root.index in outputs))


def _fold(model, subgraph, node, emitted):
    """Run a node whose inputs are all known, now; results from the file alone are kept with the model."""
    fixed = all(value is None or value.fixed for value in node.inputs)
    for value in node.outputs:
        if value is None:
            continue
        known = model.folded.get((subgraph.index, value.index)) if fixed else None
        if known is not None:
            value.data, value.fixed = known, True
    if all(value is None or value.data is not None for value in node.outputs):
        return
    calls = []
    fresh = {}
    for item in emitted:
        if type(item) is Call:
            calls.append(item)
        elif type(item) is Constant:
            item.y.data = np.asarray(item.data, order="C")
        elif type(item) is Alias:
            bits = np.ascontiguousarray(item.x.data).reshape(-1).view(NUMPY_DTYPES[item.y.dtype])
            item.y.data = bits.reshape(item.y.shape)
    for value in node.outputs:
        if value is not None and value.data is None:
            fresh[value.index] = np.zeros(value.shape, NUMPY_DTYPES[value.dtype])
    kernels = binding.bind(calls, binding.Storage(fresh), model)
    for kernel in kernels:
        status = kernel.run()
        if status:
            raise OpError(f"{node}: {kernel.ERRORS.get(status, f'status {status}')}")
    for value in node.outputs:
        if value is None:
            continue
        if value.index in fresh:
            value.data = fresh[value.index]
        value.data.flags.writeable = False
        if fixed:
            value.fixed = True
            model.folded[subgraph.index, value.index] = value.data


def _few(indices):
    shown = ", ".join(indices[:8])
    return shown if len(indices) <= 8 else f"{shown} and {len(indices) - 8} more"
