"""Writes bound programs to a cache folder, for plan_cache to read in later processes."""
import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import Frozen, replace
from pylite.runtime import cache_files
from pylite.runtime.cache_files import Store, remember
from pylite.runtime.plan_cache import NOT_PLAIN, plan_name
from pylite.runtime.plan_record import NotStorable, RecordBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pylite.ir.graph import Tensor
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.plan_cache import PlanCache

    Executor = Any      # it imports this module


def store(plans: "PlanCache", executor: "Executor", bound: "BoundProgram",
          operands: "Sequence[Sequence[Any]]") -> None:
    """Write `bound`, whose kernels take `operands`, as the plan for the input shapes of `executor`.

    A failure does not affect the interpreter, which has its program.  plans.problem then says why, and if the reason is
    the model itself, later processes do not try again.
    """
    if not plans.usable(executor):
        plans.problem = plans.problem or NOT_PLAIN
        return
    shapes = plans.shapes(executor)
    if shapes in plans.refused:
        return
    data: Sequence[Any] = ()
    plan: Any = None
    facts, problem = None, ""
    try:
        writer = RecordBuilder(executor, bound)
        plan = writer.record(operands)
        facts = summary(executor)
        data = checked(writer.data)
    except NotStorable as reason:
        plan, facts, problem = None, None, str(reason)
        plans.problem = problem
        plans.refused.add(shapes)
    try:
        with Store(plans.folder, create=True) as folder:
            key, first = plans.key(shapes), plans.key(None)
            label = os.path.basename(plans.source) if isinstance(plans.source, str) else ""
            folder.make_room(sum(map(len, data)))
            if not plans.unchanged():
                raise NotStorable("the file of the model has changed")
            if first != key and facts is not None and folder.read(plan_name(first)) is None:
                folder.write(plan_name(first), (first, facts, "", None, label))      # its summary replaces the graph
            folder.write(plan_name(key), (key, facts, problem, plan, label), data)
            remember(plans, folder)
    except NotStorable as reason:
        plans.problem = str(reason)
    except OSError as error:    # a full or read-only disk, or another user's folder
        plans.could_not_write(error)


def checked(data: "Sequence[Any]") -> "Sequence[Any]":
    """`data`, objects of bytes, which fit into the cache once all other files are gone."""
    nbytes = sum(map(len, data))
    if nbytes > cache_files.LIMIT:
        raise NotStorable(f"its weights take {nbytes} bytes, and the cache at most {cache_files.LIMIT}")
    return data


def summary(executor: "Executor") -> "Any":
    """(signatures, name, inputs, outputs and number of tensors of the first subgraph, {index: the tensor}).

    Records are dicts of their fields.
    """
    graph = executor.model.graph
    main = graph.subgraphs[0]
    known = {index: _tensor(main.tensors[index]) for index in (*main.inputs, *main.outputs)}
    return [_fields(s) for s in graph.signatures], main.name, main.inputs, main.outputs, len(main.tensors), known


def _tensor(tensor: "Tensor") -> "Any":
    """The fields of a Tensor without its contents (only whether it has any); not for tensors that refer to others."""
    if (tensor.sparsity is not None or tensor.variants or tensor.external is not None
            or (tensor.quantization is not None and tensor.quantization.block_size)):
        raise NotStorable(f"tensor {tensor.index} ({tensor.name!r}), an input or output, is of a rare kind")
    return _fields(tensor if tensor.data is None else replace(tensor, data=b""))


def _fields(record: "Any") -> "dict[str, Any]":
    """The fields of a record; nested records become dicts, arrays become lists of their type and bytes."""
    result = {}
    for (name, _), value in zip(record._FIELDS, record, strict=True):
        if isinstance(value, Frozen):
            value = _fields(value)
        elif isinstance(value, np.ndarray):
            value = [value.dtype.str, value.tobytes()]
        result[name] = value
    return result
