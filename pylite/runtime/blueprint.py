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

    from pylite.compiler.placement import Plan
    from pylite.ir.lowered import Lowered

    Executor = Any      # it imports this module

lock = RLock()         # a forked child makes another


class Blueprint:
    """A Lowered and its Plan: all of a BoundProgram but its memory.  Nothing changes it, so that programs share it.

    Its owners count: programs, and a Model that keeps it.  Values refer to themselves; so that this frees them, and
    constants with them, without the garbage collector, the last owner calls release().
    """
    __slots__ = ("lowered", "plan", "owners")

    def __init__(self, lowered: "Lowered", plan: "Plan") -> None:
        self.lowered = lowered
        self.plan = plan
        self.owners = 0

    def acquire(self) -> "Blueprint":
        """Count another owner."""
        with lock:
            self.owners += 1
        return self

    def release(self) -> None:
        """An owner needs it no longer."""
        with lock:
            self.owners -= 1
            if self.owners > 0:
                return
        for value in self.lowered.values:
            value.root = value.pad = None


class Share:
    """Owns a Blueprint until it is deleted."""
    __slots__ = ("blueprint",)

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint.acquire()

    def __del__(self, ending: "Callable[[], bool]" = sys.is_finalizing) -> None:
        if not ending():        # modules may be empty then
            self.blueprint.release()


def key_of(executor: "Executor") -> "Any":
    """What the blueprint of an executor's present shapes depends on, beside its model; None where on the executor."""
    if (executor.resolver is not default or not default.is_plain() or executor.plugins
            or executor.delegation is not None or executor.given or executor.max_memory is not None or executor.access
            or executor.subgraph is not executor.model.graph.subgraphs[executor.subgraph.index]):
        return None
    return (executor.subgraph.index, tuple(executor.shapes), executor.preserve, executor.guard, simd.current)


def is_shared(executor: "Executor", blueprint: Blueprint) -> bool:
    """May other executors use the blueprint of this one's present shapes?  Makes it forget this one.

    They may not where ops have asked the executor for other subgraphs or for state of the interpreter, and where
    kernels keep what belongs to one interpreter.
    """
    lowered = blueprint.lowered
    if lowered.boundary is not None or executor.callees or executor.shared.keys() != {"executors"}:
        return False
    if any(is_owned(kernel) for kernel in {call.kernel for call in lowered.calls}):
        return False
    lowered.model = None
    for node in {*lowered.nodes, *[call.node for call in lowered.calls]}:       # some have other operands
        node.host = None
    return True
