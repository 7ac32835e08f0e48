"""A light Executor for programs of the plan cache, which imports few modules."""
from _thread import RLock  # threading.RLock, without importing threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pylite._core.run.memory import aligned
from pylite._core.run.program import ExecutorBase, Memory
from pylite.runtime.plan_cache import BoundPlan, PlanCache, Tensors, bind

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.simd import Pool
    from pylite.ir.interpreter_state import InterpreterState
    from pylite.runtime.executor import Executor
    from pylite.runtime.model import Model
    from pylite.runtime.planned_program import PlannedProgram

lock = RLock()      # ensures that threads create only one Executor; a forked child creates a new lock


class PlannedExecutor(ExecutorBase):
    """Runs one program of the cache; any other request turns the object into an Executor.

    This defers the import of the many modules of an Executor.  It has the same attributes as Executor.
    """
    # Programs of the cache have none of these; reading what is missing here would make an Executor.
    plugins: "dict[int, Any]" = {}
    callees: "set[Any]" = set()
    known_inputs: "dict[int, Any]" = {}
    delegation = access = None
    stale = False
    _bound: "BoundPlan | None" = None

    def __init__(self, model: "Model", pool: "Pool", shared: "InterpreterState", plans: PlanCache,
                 cached_shapes: int) -> None:
        self.model, self.pool, self.shared, self.plans = model, pool, shared, plans
        self.cached_shapes = cached_shapes
        self.preserve = plans.preserve
        summary = model.summary
        tensors = Tensors(model, summary.known, summary.count)
        self.subgraph: Any = SimpleNamespace(index=0, name=summary.name, inputs=summary.inputs,
                                             outputs=summary.outputs, tensors=tensors)
        self.shapes = [tensors[i].shape for i in summary.inputs]
        self.ready = False
        self.readable, self.writable = {}, {}

    def resize(self, position: int, shape: "tuple[int, ...]") -> None:
        if self.shapes[position] != shape:
            self._promote(graph=False).resize(position, shape)     # there may be a plan for that shape, too

    def allocate(self) -> None:
        if not self.ready:
            self._bound = bind(self, aligned)
            if self._bound is None:
                self._promote().allocate()
            else:
                self.fast_program, self.ready = self._bound.program, True
                if self._bound.stateful:
                    from pylite.runtime.plan_state import reset_generators
                    self.reset_variables()
                    reset_generators(self.shared.generators.values())

    def shape(self, index: int) -> "tuple[int, ...]":
        visible = self._visible(index)
        if visible is not None:
            return visible[0].shape
        if self._bound is None:
            return self.subgraph.tensors[index].shape
        return self._promote().shape(index)

    def dtype(self, index: int) -> str:
        if self._bound is None or index in self._bound.visible:
            return self.subgraph.tensors[index].dtype
        return self._promote().dtype(index)

    def to_read(self, index: int) -> "NDArray[Any]":
        visible = self._visible(index)
        if visible is None or visible[2] or visible[1] in ("bfloat16", "resource"):   # callers see other arrays
            return self._promote().to_read(index)
        self.readable[index] = Memory(visible[0])
        return visible[0]

    def to_write(self, index: int) -> "NDArray[Any]":
        visible = self._visible(index)
        if visible is None or not visible[0].flags.writeable or visible[1] == "bfloat16":
            return self._promote().to_write(index)
        if visible[1] not in ("int4", "uint4", "int2"):     # NARROW: all values are checked
            self.writable[index] = Memory(visible[0])
        return visible[0]

    def reset_variables(self) -> None:
        for memory in self.shared.planned.values():
            memory.reset()

    reset_variables_and_ops = reset_variables        # there are no plug-ins

    def check_file(self) -> None:
        if self.model.lost_pages or (self._bound is not None and self._bound.pages.lost):
            self._promote().check_file()

    def close(self) -> None:
        self.ready, self.fast_program, self.readable, self.writable = False, None, {}, {}

    def release(self) -> None:
        self.close()
        self._bound = None

    def _visible(self, index: int) -> "Any":
        return None if self._bound is None else self._bound.visible.get(index)

    @property
    def segments(self) -> "Any":  # type: ignore[override]
        return self._promote().segments

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._promote(), name)

    def _promote(self, graph: bool = True) -> "Executor":
        """Turn this object into an Executor with the same program.  graph: load the graph's subgraph, too?"""
        from pylite.runtime.executor import Executor
        from pylite.runtime.planned_program import PlannedProgram
        with lock:
            if type(self) is PlannedExecutor:
                self._change(Executor, PlannedProgram)
        became: Any = self
        if graph:
            became.use_graph()
        return became

    def _change(self, executor_class: "type[Executor]", program_class: "type[PlannedProgram]") -> None:
        executor = executor_class(      # plug-ins registered after the interpreter was created do not count
            self.model, self.subgraph, self.pool, self.preserve, shared=self.shared, attach=False,
            half=self.model.computes_half(self.plans.precision))
        executor.cache.capacity = self.cached_shapes
        executor.checked, executor.ready, executor.plans, executor.access = True, self.ready, self.plans, self.access
        bound, segments = self._bound, []
        if bound is not None:
            program = program_class(executor, bound)
            program.executor, program.readable, program.writable = cast("Executor", self), self.readable, self.writable
            executor.memory.arenas[:] = [bound.arena]
            executor.cache.add(tuple(bound.shapes), program)
            executor.cache.note(bound.shapes, {})
            executor.current = program
            segments = [program]
        ExecutorBase.segments.__set__(self, segments)  # type: ignore[attr-defined]
        vars(self).update(vars(executor))
        vars(self).pop("_bound", None)
        self.__class__ = executor_class  # type: ignore[assignment]     # both have a dict and what ExecutorBase has
