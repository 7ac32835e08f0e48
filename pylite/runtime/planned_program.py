"""Programs of the plan cache in an Executor.  Anything that needs their graph, such as inspection, lowers it again."""
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core import simd
from pylite.runtime import plan_cache
from pylite.runtime.blueprint import Share
from pylite.runtime.bound_program import BoundProgram

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Executor = Any      # it imports this module


class PlannedProgram(BoundProgram):
    """A BoundProgram from a file.  Its Blueprint and Storage are created on first use."""
    __slots__ = ("executor", "_bound")

    def __init__(self, executor: "Executor", bound: plan_cache.BoundPlan) -> None:
        self.executor, self._bound = executor, bound
        self.start(bound.program, bound.arena)

    @property
    def lost_pages(self) -> int:  # type: ignore[override]
        """Number of pages that were read after the file had lost them."""
        return self._bound.pages.lost

    def __getattr__(self, name: str) -> "Any":
        if name not in ("share", "lowered", "placement", "storage"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._lower()
        return getattr(self, name)

    def array(self, index: int) -> "NDArray[Any] | None":
        visible = self._bound.visible.get(index)
        return super().array(index) if visible is None else visible[0]

    def shape(self, index: int) -> "tuple[int, ...]":
        visible = self._bound.visible.get(index)
        return super().shape(index) if visible is None else visible[0].shape

    def dtype(self, index: int) -> str:
        visible = self._bound.visible.get(index)
        return super().dtype(index) if visible is None else visible[1]

    def overwritten(self, index: int) -> bool:
        visible = self._bound.visible.get(index)
        return super().overwritten(index) if visible is None else visible[2]

    def failure(self, step: int, status: int) -> "errors.ExecutionError":
        return self._bound.failure(step, status)

    def _lower(self) -> None:
        """Lower and place the graph as for the file, so that each tensor gets the same place."""
        from pylite.compiler import binding
        from pylite.runtime import compiling
        executor, bound, isa = self.executor, self._bound, simd.current
        executor.use_graph()
        if isa != bound.isa:
            simd.use(bound.isa)
        try:
            lowered = compiling.lowered(executor, bound.shapes)
        finally:
            if isa != bound.isa:
                simd.use(isa)
        blueprint = compiling.blueprint_of(executor, lowered)
        placement = blueprint.placement
        storage = binding.Storage(executor.memory.outside(lowered, ()), bound.arena, placement.offsets,
                                  placement.scratch)
        for index, (array, _, _) in bound.visible.items():
            same = storage.array(lowered.values[index])
            if placement.total != bound.total or (same.shape, same.dtype) != (array.shape, array.dtype) or (
                    array.flags.writeable and same.ctypes.data != array.ctypes.data):
                raise errors.ExecutionError(
                    f"the plan in the cache has another place for {lowered.values[index]!r} than pylite finds now. "
                    "Remove it with `pylite cache clear`, and report the model")
        self.storage, self.placement, self.lowered, self.share = storage, placement, lowered, Share(blueprint)


def bind(executor: "Executor") -> "PlannedProgram | None":
    """A program for the current input shapes of `executor`; None if the cache has none."""
    bound = plan_cache.bind(executor, lambda nbytes: executor.memory.arena(nbytes, 0, executor.cache.drop_arena))
    return None if bound is None else PlannedProgram(executor, bound)
