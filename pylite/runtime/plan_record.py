"""Creates the record of a plan from bound programs; plan_store writes it."""
import marshal
import struct
from types import FunctionType
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.run.plans import KINDS
from pylite._core.run.program import Callee
from pylite.ir.graph import NUMPY_DTYPES
from pylite.runtime.cache_folder import ALIGNMENT
from pylite.runtime.plan_cache import ARENA, CONTENTS, DATA, DTYPES, WHY
from pylite.runtime.tensor_memory import initial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.bound_program import BoundProgram

    Executor = Any


class NotStorable(Exception):
    """The program needs an object that a file cannot hold."""


class RecordBuilder:
    """Creates the record of the programs that run a subgraph, and of their state; see plan_cache.

    Arrays are stored as a region of memory and an offset in it.  data: the record's data, objects of bytes: the memory
    of all arrays outside the other regions.
    """

    def __init__(self, executor: "Executor", bound: "BoundProgram") -> None:
        shared = executor.shared
        if shared.externals is not None:
            raise NotStorable("ops keep externals")
        self.data: list[Any] = []
        self._data_bytes = 0
        self._executor, self._bound = executor, bound
        self._executors = shared.executors
        # Programs, coded as plans.pyx reads them, callees first.
        self._programs: list[bytes] = []
        self._program_numbers: dict[BoundProgram, int] = {}
        self._failures: list[Any] = []                  # of each program: see plan_cache
        self._kernels: dict[tuple[str, Any], int] = {}  # {(name of a kernel, names of its last arguments): its number}
        # Arrays.
        self._arrays: list[bytes] = []                  # coded
        self._array_numbers: dict[Any, int] = {}        # {(address, type, shape, strides): its number}
        self._data_offsets: dict[tuple[int, int], int] = {}     # {addresses of memory in `data`: its offset}
        # Regions: the arena, `data`, the model's file, then those of the state.
        self._regions: list[tuple[int, int, int]] = []  # (number, address of its first byte, address past its last)
        self._region_count = CONTENTS + 1
        # State that outlives a run: see plan_state.State.
        self._arenas: dict[int, list[int]] = {}         # {subgraph: [number of the region, bytes]}
        self._variables: list[Any] = []
        self._known_variables: set[Any] = set()         # (subgraph, tensor)
        self._add_region(CONTENTS, np.frombuffer(memoryview(executor.model.contents), np.uint8))
        self._once = list(shared.once)
        self._generators = [(key, None if start is None else start.tobytes())
                            for key, (_, start) in shared.generators.items()]
        for array in (*shared.once.values(), *[state for state, _ in shared.generators.values()]):
            self._add_region(self._new_region(), array)
        self._resources = {}    # {id of an object that ops keep for the interpreter: (its number, attribute)}
        for number, resource in enumerate(shared.resources):
            self._resources[id(resource)] = number, ""
            if hasattr(resource, "number"):
                self._resources[id(resource.number)] = number, "number"

    def record(self, operands: "Sequence[Sequence[Any]]") -> "Any":
        """(bytes of the arena, input of plans.bind(), visible tensors, state, failures)."""
        self._bound.operands = operands
        self._program(self._bound)
        main, values, visible = self._executor.subgraph, self._bound.lowered.values, {}
        for index in (*main.inputs, *main.outputs):
            array = self._bound.array(index)
            if array is None:
                raise NotStorable(f"{values[index]!r} has no memory")
            visible[index] = self._array(array), values[index].dtype, self._bound.overwritten(index)
        main_arena = self._arenas.pop(main.index)
        body = b"".join([self._items(list(self._kernels)), _number(len(self._arrays)), *self._arrays,
                         *self._programs])
        return main_arena[1], body, visible, self._state(), marshal.dumps(self._failures)

    def _state(self) -> "Any":
        """The state that outlives a run, or None: see plan_state.State."""
        shared = self._executor.shared
        kinds_and_keys = {number: kind_and_key for kind_and_key, number in shared.resource_numbers.items()}
        resources = []
        for number, resource in enumerate(shared.resources):
            variable = resource.KIND == "variable"
            resources.append((*kinds_and_keys[number], resource.expected if variable else None,
                              variable and resource.varying, resource.reserved))
        arenas = [(subgraph, region, size) for subgraph, (region, size) in self._arenas.items()]
        state = arenas, self._variables, self._once, self._generators, resources
        return state if any(state) else None

    # ---- programs ------------------------------------------------------------------------------------------------
    def _program(self, bound: "BoundProgram") -> int:
        """Record a program, after the programs that it calls; returns its number."""
        known = self._program_numbers.get(bound)
        if known is not None:
            return known
        lowered, executor = bound.lowered, self._executors.get(bound.lowered.subgraph.index, self._executor)
        if lowered.boundary is not None:
            raise NotStorable("it has shapes that depend on data")
        if any(NUMPY_DTYPES[value.dtype].hasobject for value in lowered.values):
            raise NotStorable("it has tensors of strings")
        self._enter_arena(lowered.subgraph.index, bound)
        for value in lowered.values:
            if value.kind == "variable":
                self._enter_variable(lowered.subgraph.index, executor, value, bound)
        calls, operands = [], getattr(bound, "operands", None)
        if operands is None:
            raise NotStorable(f"subgraph {lowered.subgraph.index} was bound before")
        for call, args in zip(lowered.calls, operands, strict=True):
            if type(call.kernel) is not str:
                raise NotStorable(f"{call.node} runs in Python")
            kernel = self._kernels.setdefault((call.kernel, call.names), len(self._kernels))
            calls.append(_number(kernel) + self._items(args))
        texts: dict[Any, int] = {}
        texts_of_calls = [texts.setdefault(call.node, len(texts)) for call in lowered.calls]
        self._failures.append((texts_of_calls, [str(node.failure(WHY)) for node in texts]))
        self._programs.append(_number(len(calls)) + b"".join(calls))
        self._program_numbers[bound] = len(self._programs) - 1
        return len(self._programs) - 1

    def _enter_arena(self, subgraph: int, bound: "BoundProgram") -> None:
        """Make the arena of a program a region, which the programs of one subgraph share."""
        entry = self._arenas.get(subgraph)
        if entry is None:
            main = subgraph == self._executor.subgraph.index
            entry = self._arenas[subgraph] = [ARENA if main else self._new_region(), 0]
        entry[1] = max(entry[1], bound.placement.total)
        self._add_region(entry[0], bound.arena)

    def _enter_variable(self, subgraph: int, executor: "Executor", value: "Any", bound: "BoundProgram") -> None:
        """Make the memory of a variable a region, with its initial contents in the state."""
        array = executor.memory.variables.get(value.index)
        start = initial(value.tensor)
        if np.any(executor.memory.starts.get(value.index, start) != start):
            raise NotStorable(f"{value!r} is a variable whose initial contents an operator computes")
        if array is None or array.dtype not in DTYPES or bound.array(value.index) is not array:
            raise NotStorable(f"{value!r} is a variable that has been resized")
        if (subgraph, value.index) not in self._known_variables:
            self._known_variables.add((subgraph, value.index))
            region = self._new_region()
            self._variables.append((subgraph, value.index, region, DTYPES.index(array.dtype), array.shape,
                                    start))
            self._add_region(region, array)

    def _items(self, args: "Sequence[Any]") -> bytes:
        """The code of a list of arguments."""
        return _number(len(args)) + b"".join([self._item(arg) for arg in args])

    def _item(self, arg: "Any") -> bytes:
        """The code of an argument of a kernel."""
        kind = type(arg)
        if isinstance(arg, np.ndarray):
            return _kind("array") + _number(self._array(arg))
        if arg is None or kind is bool:
            return _kind("none" if arg is None else "true" if arg else "false")
        if kind is int:
            if not -1 << 63 <= arg < 1 << 63:
                raise NotStorable(f"a kernel takes the number {arg}")
            return _kind("integer") + _signed(arg)
        if kind is float:
            return _kind("float") + struct.pack("=d", arg)
        return self._item(arg.item()) if isinstance(arg, np.generic) else self._composed(kind, arg)

    def _composed(self, kind: type, arg: "Any") -> bytes:
        """The code of an argument that is not a number."""
        if kind is str:
            return _kind("text") + _bytes(arg.encode())
        if kind is bytes or kind is bytearray:
            return _kind("bytes") + _bytes(arg)
        if isinstance(arg, (list, tuple)):      # a NamedTuple becomes a tuple
            return _kind("list" if kind is list else "tuple") + self._items(arg)
        if kind is Callee:
            return (_kind("callee") + _number(self._program(arg.segment)) + self._items(arg.arrays[:arg.inputs])
                    + self._items(arg.arrays[arg.inputs:]))
        return self._reference(arg)

    def _reference(self, arg: "Any") -> bytes:
        """The code of an object that ops keep for the interpreter, of a method of one, or of a module's function."""
        resource = self._resources.get(id(arg))
        if resource is not None:
            return _kind("resource") + _number(resource[0]) + _bytes(resource[1].encode())
        owner = self._resources.get(id(getattr(arg, "__self__", None)))
        if owner is not None and not owner[1]:
            return _kind("resource") + _number(owner[0]) + _bytes(arg.__name__.encode())
        if type(arg) is FunctionType and arg.__closure__ is None and "." not in arg.__qualname__ and (
                arg.__name__ != "<lambda>"):
            return _kind("function") + _bytes(arg.__module__.encode()) + _bytes(arg.__name__.encode())
        raise NotStorable(f"a kernel takes a {type(arg).__name__}")

    # ---- arrays --------------------------------------------------------------------------------------------------
    def _new_region(self) -> int:
        """The number of a new region of the state."""
        self._region_count += 1
        return self._region_count - 1

    def _add_region(self, region: int, array: "NDArray[Any]") -> None:
        if array.nbytes:
            self._regions.append((region, *address_range(array)))

    def _array(self, array: "NDArray[Any]") -> int:
        """Add `array` to the table; returns its number."""
        if array.dtype not in DTYPES:
            raise NotStorable(f"a kernel takes an array of {array.dtype}")
        key = array.ctypes.data, array.dtype.str, array.shape, array.strides
        known = self._array_numbers.get(key)
        if known is None:
            region, offset = self._place(array)
            strides = () if array.flags.c_contiguous else array.strides
            head = region, DTYPES.index(array.dtype), offset, 2 * array.ndim + bool(strides), *array.shape
            self._arrays.append(b"".join([*map(_number, head), *map(_signed, strides)]))
            known = self._array_numbers[key] = len(self._arrays) - 1
        return known

    def _place(self, array: "NDArray[Any]") -> "tuple[int, int]":
        """(region, byte offset) of an array; adds its memory to `data` unless a region contains it."""
        if not array.size:
            return (ARENA if array.flags.writeable else DATA), 0
        low, high = address_range(array)
        first = array.ctypes.data - low
        for region, begin, end in self._regions:
            if begin <= low and high <= end:
                return region, low - begin + first
        known = self._data_offsets.get((low, high))
        if known is None:
            known = self._data_offsets[low, high] = self._data_bytes
            self.data += [memory_between(low, high), bytes((low - high) % ALIGNMENT)]
            self._data_bytes += high - low + len(self.data[-1])
        return DATA, known + first


def _kind(name: str) -> bytes:
    return bytes((KINDS[name],))


def _number(number: int) -> bytes:
    """The code of an integer of at least 0, as plans.pyx reads it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def _signed(number: int) -> bytes:
    """The code of an integer: 2 n if n >= 0, otherwise -2 n - 1."""
    return _number(2 * number if number >= 0 else -2 * number - 1)


def _bytes(content: "bytes | bytearray") -> bytes:
    """The code of a byte string, preceded by its length."""
    return _number(len(content)) + content


def address_range(array: "NDArray[Any]") -> "tuple[int, int]":
    """(address of the first byte of an array, address past its last one)."""
    low = high = array.ctypes.data
    for n, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + array.itemsize


def memory_between(low: int, high: int) -> "Any":
    """The bytes between two addresses, the address_range() of an array that the caller keeps alive."""
    import ctypes  # numpy has loaded it by the time weights are packed
    return memoryview((ctypes.c_char * (high - low)).from_address(low)).cast("B")
