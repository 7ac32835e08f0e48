"""Graphs whose shapes depend on data: they run in parts, each lowered once what decides on its shapes is known."""
import numpy as np

from pylite import lowering
from pylite.graph import replace
from pylite.node import Node, Value

KEPT = 512          # parts that follow on what was found at run time, to remember
LARGE = 4096        # bytes of what is found, such as computed weights, from which on only the last part is kept


# ---- lowering: up to a pause, and on from there --------------------------------------------------------------
def paused(subgraph, position, values, nodes, calls, pause):
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
    head = replace(subgraph, operators=head, outputs=tuple(sorted(kept - later)))
    return lowering.Lowered(head, values, nodes, calls, pause, replace(subgraph, operators=tail, inputs=()), later)


@np.errstate(all="ignore")
def resume(model, before, found, preserve, find, host):
    """Lower what is left after the pause of `before`.

    found: the contents of the Value that it waits for, or the shapes of the outputs of the Node that was evaluated; the
    others as in lower().
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
    lowered = lowering.lower_values(model, before.tail, values, preserve, find, True, host)
    lowered.evaluated = evaluated
    lowered.take_note(before.folded)
    return lowered


# ---- running: what Bound.run() in _core/program.pyx asks for the first time ------------------------------------
def watch(executor, part):
    """Note what `part` looks at when it has run: the memory of the value that decides, or what is evaluated."""
    pause = part.pause
    if type(pause) is Node:
        part.evaluate = evaluate = executor.find(pause.operator).evaluate
        if None in pause.outputs:
            part.evaluate = lambda node, *arrays: [
                y for v, y in zip(node.outputs, evaluate(node, *arrays), strict=True) if v is not None]
        part.watched = [None if v is None else executor.found(v.index)[1] for v in pause.inputs]
    else:
        part.watched = executor.found(pause.index)[1]


def follow(executor, part, key):
    """The Allocation that goes on after `part`, which is new."""
    following, pause = executor.following, part.pause
    if len(key) > LARGE or executor.renews():
        executor.drop(list(part.next.values()))
    if part.evaluate is None:
        found = part.watched.copy()
        found.flags.writeable = False
    else:
        found = key if len([v for v in pause.outputs if v is not None]) != 1 else (key,)
    lowered = resume(executor.model, part.lowered, found, executor.preserve, executor.find, executor)
    known = executor.bind(lowered, executor.parts)
    if part.evaluate is not None:
        known.evaluated = [known.array(v.index) for v in pause.outputs if v is not None]
    while len(following) >= KEPT:
        oldest = next(iter(following))
        if oldest.used:         # since it was looked at last: it may stay
            oldest.used = False
            following[oldest] = following.pop(oldest)
        else:
            executor.drop([oldest])
    following[known] = part, key
    part.next[key] = known
    return known
