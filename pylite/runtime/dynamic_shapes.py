"""Runs graphs whose shapes depend on data in segments; each is lowered when the data for its shapes is known."""
from typing import TYPE_CHECKING

import numpy as np

from pylite.compiler import lowering
from pylite.errors import PyliteError
from pylite.ir.values import Node, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.host import Host
    from pylite.ir.lowered import Lowered
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.model import Model

    Executor = Any      # it imports this module

LARGE_KEY = 4096        # for data of more bytes, such as computed weights, only the last segment is kept


# ---- lowering after a boundary -------------------------------------------------------------------------------
@np.errstate(all="ignore")
def resume(model: "Model", before: "Lowered", contents: "Any", preserve: bool, find: "Callable[..., Any]",
           host: "Host") -> "Lowered":
    """Lower the operators after the boundary of `before`.

    contents: the contents of the Value at the boundary, or the output shapes of the Node that was evaluated there;
    other arguments: as for lowering.lower().
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
        for old, shape in zip([v for v in boundary.outputs if v is not None], contents, strict=True):
            value = values[old.index]
            value.kind, value.shape = "temporary", shape
            evaluated.append(value)
    else:
        for old in before.values:       # reshaped aliases of the known value are known, too
            if old.root is boundary.root and old.dtype == boundary.dtype and old.data is None:
                values[old.index].data = contents.reshape(old.shape)
    lowered = lowering.lower_values(model, before.tail, values, preserve=preserve, find=find, dynamic=True, host=host)
    lowered.evaluated = evaluated
    lowered.record(before.fused)
    return lowered


# ---- running: ExecutorBase.run() in _core/run/program.pyx calls these the first time --------------------------------
def watch(executor: "Executor", segment: "BoundProgram") -> None:
    """Set `segment.watched`: the array of the value at its boundary, or the inputs of the node there."""
    boundary = segment.boundary
    if type(boundary) is Node:
        segment.evaluate = evaluate = executor.find(boundary.operator).evaluate
        if None in boundary.outputs:
            segment.evaluate = lambda node, *arrays: [
                y for v, y in zip(node.outputs, evaluate(node, *arrays), strict=True) if v is not None]
        segment.watched = [None if v is None else executor.locate(v.index)[1] for v in boundary.inputs]
    else:
        segment.watched = executor.locate(boundary.index)[1]


def evaluated(segment: "BoundProgram") -> "list[NDArray[Any]]":
    """The results of the node at the boundary of `segment`."""
    try:
        return segment.evaluate(segment.boundary, *segment.watched)
    except PyliteError:
        raise
    except Exception as problem:
        raise segment.boundary.wrapped(problem) from problem


def follow(executor: "Executor", segment: "BoundProgram", key: "Any") -> "BoundProgram":
    """A new BoundProgram for the segment after `segment` for the data `key`."""
    boundary = segment.boundary
    if len(key) > LARGE_KEY or executor.always_relowers():
        executor.cache.drop(list(segment.next.values()))
    if segment.evaluate is None:
        content = segment.watched.copy()
        content.flags.writeable = False
    else:
        content = key if len([v for v in boundary.outputs if v is not None]) != 1 else (key,)
    lowered = resume(executor.model, segment.lowered, content, executor.preserve, executor.find, executor)
    following = executor.bind(lowered, executor.segments)
    if segment.evaluate is not None:
        following.evaluated = [following.array(v.index) for v in boundary.outputs if v is not None]
    executor.cache.add_segment(segment, key, following)
    return following
