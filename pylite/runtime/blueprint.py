"""Blueprints: subgraphs lowered and planned for one set of input shapes, which all interpreters of a Model share."""
import sys
from _thread import RLock
from typing import TYPE_CHECKING

from pylite._core import simd
from pylite.ir.registry import default
from pylite.ir.values import is_owned

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pylite.compiler.placement import Placement
    from pylite.ir.lowered import Lowered

    Executor = Any      # it imports this module

lock = RLock()         # a forked child creates a new one


class Blueprint:
    """A Lowered and its Placement: a BoundProgram without its memory.  It is immutable, so that programs can share it.

    It counts its owners: programs, and a Model that keeps it.  Its Values refer to themselves, so the last owner calls
    release() to free them, and constants with them, without the garbage collector.
    """
    __slots__ = ("lowered", "placement", "owners")

    def __init__(self, lowered: "Lowered", placement: "Placement") -> None:
        self.lowered = lowered
        self.placement = placement
        self.owners = 0

    def acquire(self) -> "Blueprint":
        """Count another owner."""
        with lock:
            self.owners += 1
        return self

    def release(self) -> None:
        """Drop one owner."""
        with lock:
            self.owners -= 1
            if self.owners > 0:
                return
        for value in self.lowered.values:
            value.root = value.pad = None


class Blueprints:
    """The Blueprints that a Model keeps for all its interpreters, up to `capacity`, by key_of(), the newest last."""
    __slots__ = ("kept", "capacity")

    def __init__(self, capacity: int = 8) -> None:
        self.kept: dict[Any, Blueprint] = {}
        self.capacity = capacity

    def __del__(self, ending: "Callable[[], bool]" = sys.is_finalizing) -> None:
        if not ending():        # when Python shuts down, modules may be empty
            for blueprint in self.kept.values():
                blueprint.release()

    def find(self, key: "Any") -> "Blueprint | None":
        """The Blueprint kept for `key`, acquired, or None."""
        with lock:
            entry = self.kept.get(key)
            return None if entry is None else entry.acquire()

    def keep(self, key: "Any", blueprint: Blueprint) -> None:
        """Keep a Blueprint, in place of the one for `key` or of the oldest."""
        with lock:
            if key in self.kept or len(self.kept) == self.capacity:
                self.kept.pop(key if key in self.kept else next(iter(self.kept))).release()
            self.kept[key] = blueprint.acquire()


class Share:
    """Owns a Blueprint until it is deleted."""
    __slots__ = ("blueprint",)

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint.acquire()

    def __del__(self, ending: "Callable[[], bool]" = sys.is_finalizing) -> None:
        if not ending():        # when Python shuts down, modules may be empty
            self.blueprint.release()


def key_of(executor: "Executor") -> "Any":
    """The key under which a model may share the blueprint of an executor's current shapes; None if it may not."""
    if (executor.resolver is not default or not default.is_plain() or executor.plugins
            or executor.delegation is not None or executor.known_inputs or executor.max_memory is not None or
            executor.access or executor.subgraph is not executor.model.graph.subgraphs[executor.subgraph.index]):
        return None
    return (executor.subgraph.index, tuple(executor.shapes), executor.preserve, executor.guard, executor.half,
            simd.current)


def is_shared(executor: "Executor", blueprint: Blueprint) -> bool:
    """May other executors use this blueprint?  If so, removes its references to this executor.

    They may not if ops have asked the executor for other subgraphs or for the interpreter's state, or if kernels keep
    objects of one interpreter.
    """
    lowered = blueprint.lowered
    if lowered.boundary is not None or executor.callees or not executor.shared.may_share_blueprints():
        return False
    if any(is_owned(kernel) for kernel in {call.kernel for call in lowered.calls}):
        return False
    lowered.model = None
    for node in {*lowered.nodes, *[call.node for call in lowered.calls]}:       # calls may have rewritten nodes
        node.host = None
    return True
