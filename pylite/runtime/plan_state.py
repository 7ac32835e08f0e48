"""The state that outlives runs of a plan: variables, resources, random number generators, arenas of subgraphs."""
import os
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.kernels import kernel_class
from pylite._core.run.memory import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray


class PlannedMemory:
    """The memory that plans own for one subgraph, until the subgraph's Executor takes it over.

    arenas: [the arena]; variables: {tensor: array}; initial: {tensor: the number with which the variable is filled}.
    """
    __slots__ = ("arenas", "variables", "initial")

    def __init__(self) -> None:
        self.arenas: list[NDArray[Any]] = []
        self.variables: dict[int, NDArray[Any]] = {}
        self.initial: dict[int, int] = {}

    def arena(self, nbytes: int) -> "NDArray[Any]":
        """The arena, of at least `nbytes`."""
        if not self.arenas or self.arenas[0].nbytes < nbytes:
            self.arenas = [aligned(nbytes)]
        return self.arenas[0]

    def reset(self) -> None:
        """Reset the variables to their initial contents."""
        for index, array in self.variables.items():
            array[...] = self.initial[index]


class State:
    """The state that outlives runs of a plan; it is taken from the InterpreterState, or created there.

    regions: the memory of all regions after CONTENTS, in order; resources: objects that ops keep for the interpreter,
    by number.
    """

    def __init__(self, executor: "Any", record: "Any", dtypes: "list[np.dtype[Any]]", first: int) -> None:
        """record: five lists, from plan_record.RecordBuilder:

        arenas          (subgraph, region, bytes), of called subgraphs
        variables       (subgraph, tensor, region, number of the type, shape, initial number)
        once            subgraphs that CALL_ONCE runs, each with a flag
        generators      (key, initial state or None if it is random), of random numbers
        resources       (kind, key, expected shape, varying, reserved bytes)

        dtypes: the types by number; first: the region of the first flag, which those of the other flags and of the
        generators follow.  Raises ValueError if the interpreter has another state, or has run a subgraph by itself.
        """
        arenas, variables, once, generators, resources = record
        shared = executor.shared
        regions: dict[int, Any] = {}
        for subgraph, region, nbytes in arenas:
            holder = memory_of(executor, subgraph)
            if type(holder) is not PlannedMemory:
                raise ValueError(f"subgraph {subgraph} has an Executor, whose tensors are those of a run by it")
            regions[region] = holder.arena(nbytes)
        for subgraph, index, region, dtype, shape, start in variables:
            holder = memory_of(executor, subgraph)
            array = holder.variables.get(index)
            if array is None or array.shape != shape:
                array = holder.variables[index] = _filled(shape, dtypes[dtype], start)
            if type(holder) is PlannedMemory:
                holder.initial[index] = start
            regions[region] = array
        region = first
        for subgraph in once:
            regions[region] = shared.once.setdefault(subgraph, np.zeros(1, np.uint8))
            region += 1
        for key, start in generators:
            if key not in shared.generators:
                shared.generators[key] = _generator(start)
            regions[region] = shared.generators[key][0]
            region += 1
        self.regions = [regions[region] for region in sorted(regions)]
        self.resources = shared.resources
        for number, (kind, key, *details) in enumerate(resources):
            self._resource(shared.resource_numbers, number, kind, key, details)

    def _resource(self, numbers: "dict[Any, int]", number: int, kind: str, key: "Any", details: "Any") -> None:
        """Make resource `number` if it is the next one, and note its details, as in `record`."""
        if (kind, key) not in numbers and len(self.resources) == number:
            numbers[kind, key] = number
            self.resources.append(_made(kind))
        resource: Any = self.resources[number]
        if numbers.get((kind, key)) != number:
            raise ValueError(f"the resource {key} has another number")
        expected, varying, reserved = details
        if kind == "variable":
            if resource.expected is not None and (resource.expected, resource.varying) != (expected, varying):
                raise ValueError(f"the variable {key} has had other shapes")
            resource.expected, resource.varying = expected, varying
        resource.reserved = max(resource.reserved, reserved)


def memory_of(executor: "Any", subgraph: int) -> "Any":
    """The owner of a subgraph's memory: a PlannedMemory or, once the subgraph has an Executor, its TensorMemory."""
    other = executor.shared.executors.get(subgraph)
    memory = None if other is None else vars(other).get("memory")
    if memory is None:
        return executor.shared.planned.setdefault(subgraph, PlannedMemory())
    return memory


def _filled(shape: "Any", dtype: "np.dtype[Any]", number: int) -> "NDArray[Any]":
    count = 1
    for n in shape:
        count *= n
    array = aligned(count * dtype.itemsize).view(dtype).reshape(shape)
    if number:
        array[...] = number
    return array


def _generator(start: "bytes | None") -> "Any":
    """(state, initial state) of a generator of random numbers, as ops.random_numbers keeps it."""
    if start is None:
        from pylite.ops.random_numbers import state_of  # few models have any
        return state_of(np.frombuffer(os.urandom(16), np.int64)), None
    initial = np.frombuffer(start, np.uint32)
    return initial.copy(), initial


def _made(kind: str) -> "Any":
    if kind == "variable":
        return kernel_class("variables.Variable")()
    from pylite.ops.state import HashTable  # few models have any
    return HashTable()


def reset_generators(kept: "Iterable[Any]") -> None:
    """Reset random number generators.  kept: (state, initial state, or None if it is random) of each."""
    for state, start in kept:
        if start is not None:
            state[...] = start
