"""Writes bound programs to a cache folder, for plan_cache to read in later processes."""
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES, Frozen
from pylite.runtime.cache_files import Store
from pylite.runtime.cache_folder import ALIGNMENT
from pylite.runtime.plan_cache import ARENA, CONTENTS, DATA, DTYPES, plan_name
from pylite.runtime.tensor_memory import LARGE_ARENA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.model import Model
    from pylite.runtime.plan_cache import PlanCache

    Executor = Any      # it imports this module

SETTLED = 2_000_000_000     # nanoseconds after which another change of a file gets another time
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))


class NotStorable(Exception):
    """The program needs what a file cannot hold."""


def store(plans: "PlanCache", executor: "Executor", bound: "BoundProgram",
          operands: "Sequence[Sequence[Any]]") -> None:
    """Write `bound`, whose kernels were made of `operands`, as the plan for the input shapes of `executor`.

    Whatever fails, the interpreter has its program: then nothing is written, and plans.problem says why.
    """
    if not plans.usable(executor):
        plans.problem = "plug-ins, delegates or other subgraphs take part"
        return
    try:
        with Store(plans.folder, create=True) as folder:
            _check(executor, bound)
            arrays = _Arrays(bound.arena, executor.model)
            program = program_record(executor, bound, operands, arrays)
            head = summary(executor)
            key, first = plans.key(plans.shapes(executor)), plans.key(None)
            label = os.path.basename(plans.source) if isinstance(plans.source, str) else ""
            if not folder.make_room(sum([len(piece) for piece in arrays.pieces])):
                raise NotStorable("its weights take more than the cache may")
            if not plans.unchanged():
                raise NotStorable("the file of the model has changed")
            if first != key and folder.read(plan_name(first)) is None:
                folder.write(plan_name(first), (first, head, None, label))      # so that the graph need not be read
            folder.write(plan_name(key), (key, head, program, label), arrays.pieces)
            if plans.identity is not None and _settled(plans.source):
                folder.write(plans.identity, (plans.identity, plans.digest))
    except (NotStorable, OSError) as problem:   # OSError: a full disk, one that is read only, a foreign folder
        plans.problem = str(problem)


def _settled(path: str) -> bool:
    """Would another change of this file get another time than the last one?"""
    status = os.stat(path)
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED


def _check(executor: "Executor", bound: "BoundProgram") -> None:
    """Raise NotStorable where more follows, kernels share what outlives a run, or the machine may lack the memory."""
    if any(NUMPY_DTYPES[v.dtype].hasobject or v.kind == "variable" for v in bound.lowered.values):
        raise NotStorable("it has variables or tensors of strings")
    if bound.boundary is not None or set(executor.shared) - {"executors"}:
        raise NotStorable("it has shapes that depend on data, or a state")
    if bound.plan.total > LARGE_ARENA:
        raise NotStorable(f"its arena takes more than {LARGE_ARENA} bytes")


def summary(executor: "Executor") -> "Any":
    """(signatures, name, inputs, outputs and number of tensors of the first subgraph, {index: the tensor}).

    Records are dicts of their fields.
    """
    graph = executor.model.graph
    main = graph.subgraphs[0]
    known = {index: _tensor(main.tensors[index]) for index in (*main.inputs, *main.outputs)}
    return [_fields(s) for s in graph.signatures], main.name, main.inputs, main.outputs, len(main.tensors), known


def _tensor(tensor: "Tensor") -> "Any":
    """The fields of a Tensor; not of those with contents, of several types, or whose details need other tensors."""
    if (tensor.data is not None or tensor.dtype == "bfloat16" or tensor.sparsity is not None or tensor.variants
            or tensor.external is not None or (tensor.quantization is not None and tensor.quantization.block_size)):
        raise NotStorable(f"tensor {tensor.index} ({tensor.name!r}), an input or output, is of a rare kind")
    return _fields(tensor)


def _fields(record: "Any") -> "dict[str, Any]":
    """The fields of a record: records among them as dicts, arrays as lists of their type and their bytes."""
    found = {}
    for (name, _), value in zip(record._FIELDS, record, strict=True):
        if isinstance(value, Frozen):
            value = _fields(value)
        elif isinstance(value, np.ndarray):
            value = [value.dtype.str, value.tobytes()]
        found[name] = value
    return found


def program_record(executor: "Executor", bound: "BoundProgram", operands: "Sequence[Sequence[Any]]",
                   arrays: "_Arrays") -> "Any":
    """(bytes of the arena, table of arrays, names of kernels, calls, visible tensors).

    A call: (number of its kernel, its args, [position, number of an array, ...], [(position, [(is it an array?, its
    number or a value), ...]), ...]), the latter for tuples of arrays.  Visible: {index: (number of its array, type, is
    it overwritten?)} of the tensors that callers read and write.
    """
    names: dict[str, int] = {}
    calls = []
    for call, args in zip(bound.lowered.calls, operands, strict=True):
        if type(call.kernel) is not str:
            raise NotStorable(f"{call.node} runs in Python")
        calls.append((names.setdefault(call.kernel, len(names)), *_call(args, arrays)))
    main, values, visible = executor.subgraph, bound.lowered.values, {}
    for index in (*main.inputs, *main.outputs):
        array = bound.array(index)
        if array is None:
            raise NotStorable(f"{values[index]!r} has no memory")
        visible[index] = arrays.number(array), values[index].dtype, bound.overwritten(index)
    return bound.plan.total, arrays.table, list(names), calls, visible


def _call(args: "Sequence[Any]", arrays: "_Arrays") -> "Any":
    """(args, positions and numbers of arrays, tuples of arrays) of a call."""
    plain, places, nested = list(args), [], []
    for i, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            plain[i] = None
            places += [i, arrays.number(arg)]
        elif type(arg) is tuple and any(isinstance(item, np.ndarray) for item in arg):
            plain[i] = None
            nested.append((i, [(True, arrays.number(item)) if isinstance(item, np.ndarray) else (False, _plain(item))
                               for item in arg]))
        else:
            plain[i] = _plain(arg)
    return plain, places, nested


def _plain(arg: "Any") -> "Any":
    """A parameter as marshal takes it."""
    kind = type(arg)
    if kind in _PLAIN:
        return arg
    if kind is tuple or kind is list:
        return kind([_plain(item) for item in arg])
    if isinstance(arg, np.generic):
        return _plain(arg.item())
    if kind is bytearray:
        return bytes(arg)
    raise NotStorable(f"a kernel takes a {kind.__name__}")


class _Arrays:
    """The table of arrays of a file, and the memory behind its record.

    table: [(region, type, shape, byte offset, strides), ...]; pieces: the bytes.
    """

    def __init__(self, arena: "NDArray[Any]", model: "Model") -> None:
        self.table: list[Any] = []
        self.pieces: list[Any] = []
        self._size = 0
        self._numbers: dict[Any, int] = {}
        self._offsets: dict[tuple[int, int], int] = {}
        self._regions = [(region, *_ends(np.frombuffer(memory, np.uint8)))
                         for region, memory in ((ARENA, arena.data), (CONTENTS, memoryview(model.contents)))
                         if len(memory)]

    def number(self, array: "NDArray[Any]") -> int:
        """The position of `array` in the table."""
        if array.dtype not in DTYPES:
            raise NotStorable(f"a kernel takes an array of {array.dtype}")
        key = array.ctypes.data, array.dtype.str, array.shape, array.strides
        known = self._numbers.get(key)
        if known is None:
            region, offset = self._place(array)
            self.table.append((region, DTYPES.index(array.dtype), array.shape, offset,
                               None if array.flags.c_contiguous else array.strides))
            known = self._numbers[key] = len(self.table) - 1
        return known

    def _place(self, array: "NDArray[Any]") -> "tuple[int, int]":
        """(region, byte offset) of an array, whose memory is added unless it is the arena's or the model's."""
        if not array.size:
            return (ARENA if array.flags.writeable else DATA), 0
        low, high = _ends(array)
        for region, begin, end in self._regions:
            if begin <= low and high <= end:
                return region, low - begin
        known = self._offsets.get((low, high))
        if known is None:
            known = self._offsets[low, high] = self._size
            piece = np.lib.stride_tricks.as_strided(array, ((high - low) // array.itemsize,), (array.itemsize,))
            self.pieces += [piece.view(np.uint8), bytes((low - high) % ALIGNMENT)]
            self._size += high - low + len(self.pieces[-1])
        return DATA, known


def _ends(array: "NDArray[Any]") -> "tuple[int, int]":
    """(address of the first byte of an array, address behind its last one)."""
    if any(n % array.itemsize or n < 0 for n in array.strides):
        raise NotStorable("a kernel reads a constant in another order")
    low = array.ctypes.data
    last = sum([(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)])
    return low, low + last + array.itemsize
