"""Graphs whose shapes depend on data run in segments, each lowered once what decides on its shapes is known."""
from typing import TYPE_CHECKING

import numpy as np

from pylite.compiler import lowering
from pylite.ir.values import Node, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pylite.ir.host import Host
    from pylite.ir.lowered import Lowered
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.model import Model

    Executor = Any      # it imports this module

CACHED_SEGMENTS = 512   # segments that follow on what was found at run time, to remember
LARGE_KEY = 4096        # bytes of what is found, such as computed weights, from which only the last segment is kept


# ---- lowering: on from a boundary ----------------------------------------------------------------------------
@np.errstate(all="ignore")
def resume(model: "Model", before: "Lowered", found: "Any", preserve: bool, find: "Callable[..., Any]",
           host: "Host") -> "Lowered":
    """Lower what is left after the boundary of `before`.

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
    boundary, evaluated = before.boundary, []
    if type(boundary) is Node:
        for old, shape in zip([v for v in boundary.outputs if v is not None], found, strict=True):
            value = values[old.index]
            value.kind, value.shape = "temporary", shape
            evaluated.append(value)
    else:
        for old in before.values:       # the same elements under other shapes are known as well
            if old.root is boundary.root and old.dtype == boundary.dtype and old.data is None:
                values[old.index].data = found.reshape(old.shape)
    lowered = lowering.lower_values(model, before.tail, values, preserve, find, True, host)
    lowered.evaluated = evaluated
    lowered.record(before.fused)
    return lowered


# ---- running: what ExecutorBase.run() in _core/program.pyx asks for the first time -----------------------------
def watch(executor: "Executor", segment: "BoundProgram") -> None:
    """Note what `segment` looks at when it has run: the memory of the value that decides, or what is evaluated."""
    boundary = segment.boundary
    if type(boundary) is Node:
        segment.evaluate = evaluate = executor.find(boundary.operator).evaluate
        if None in boundary.outputs:
            segment.evaluate = lambda node, *arrays: [
                y for v, y in zip(node.outputs, evaluate(node, *arrays), strict=True) if v is not None]
        segment.watched = [None if v is None else executor.found(v.index)[1] for v in boundary.inputs]
    else:
        segment.watched = executor.found(boundary.index)[1]


def follow(executor: "Executor", segment: "BoundProgram", key: "Any") -> "BoundProgram":
    """The BoundProgram that goes on after `segment`, which is new."""
    following, boundary = executor.following, segment.boundary
    if len(key) > LARGE_KEY or executor.lowers_anew():
        executor.drop(list(segment.next.values()))
    if segment.evaluate is None:
        found = segment.watched.copy()
        found.flags.writeable = False
    else:
        found = key if len([v for v in boundary.outputs if v is not None]) != 1 else (key,)
    lowered = resume(executor.model, segment.lowered, found, executor.preserve, executor.find, executor)
    known = executor.bind(lowered, executor.segments)
    if segment.evaluate is not None:
        known.evaluated = [known.array(v.index) for v in boundary.outputs if v is not None]
    while len(following) >= CACHED_SEGMENTS:
        oldest = next(iter(following))
        if oldest.used:         # since it was looked at last: it may stay
            oldest.used = False
            following[oldest] = following.pop(oldest)
        else:
            executor.drop([oldest])
    following[known] = segment, key
    segment.next[key] = known
    return known
