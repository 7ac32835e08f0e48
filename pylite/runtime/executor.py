"""One subgraph made runnable: shapes in, memory planned and bound, invoke."""
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.memory import aligned, memory_limit
from pylite._core.program import ExecutorBase, Program
from pylite._core.simd import begin_packing, finish_packing
from pylite.compiler import binding, lowering, memory_planner
from pylite.compiler.check import check
from pylite.errors import ExecutionError, MemoryLimitError, TensorError
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import default
from pylite.runtime.bound_program import BoundProgram
from pylite.runtime.tensor_access import TensorAccess

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pylite._core.simd import Pool
    from pylite.ir.graph import Operator, Subgraph
    from pylite.ir.host import Entry
    from pylite.ir.lowered import Lowered
    from pylite.ir.values import Node, Value
    from pylite.runtime.model import Model

    Array = np.ndarray[Any, Any]
    Shape = tuple[int, ...]

CACHED_SHAPES = 8       # sets of input shapes whose programs are kept
CACHED_DYNAMIC = 64     # the same for a graph whose shapes depend on data: what follows on a set is dropped with it
LARGE_ARENA = 1 << 28   # bytes from which an arena is compared with what the machine has


class Executor(TensorAccess, ExecutorBase):
    """Runs one subgraph of a model.

    model: Model; pool: simd.Pool; preserve: keep every intermediate tensor; guard: find writes out of bounds;
    max_memory: most bytes that the arena may take, or None;
    resolver: the OpResolver that finds the ops; shared: a dict for what the executors of an interpreter share.
    `readable` and `writable` hold the Memory of the tensors asked for since the last allocate(), by index: the fast
    path around every check; `ready`: may invoke() run?
    `plugins` holds an Op of its own for each operator that a plug-in runs, by operator index; a delegate also puts
    another Subgraph in place of `subgraph`, and `delegation` undoes that.  With plug-ins every allocation lowers anew,
    so that they are prepared.
    """

    def __init__(self, model: "Model", subgraph: "Subgraph", pool: "Pool", preserve: bool = False, guard: bool = False,
                 max_memory: "int | None" = None, resolver: "Any" = default,
                 shared: "dict[str, Any] | None" = None) -> None:
        self.model = model
        self.subgraph = subgraph
        self.plugins: dict[int, Any] = {}
        self.tables: Any = None     # what plug-ins in C see; made for the first one
        self.shared: dict[str, Any] = {} if shared is None else shared
        self.delegation: Any = None
        self.callees: set[Executor] = set()     # the executors of subgraphs that operators of this one call
        self.given: Mapping[int, Array] = {}    # {position of an input: its contents}, which the caller knows
        self.cached_shapes = CACHED_SHAPES
        self.stale = False      # set by an op that learns what ops lowered before should have known
        self.pool = pool
        self.preserve = preserve
        self.guard = guard
        self.max_memory = max_memory
        self.shapes = [subgraph.tensors[i].shape for i in subgraph.inputs]
        self.current = None  # type: ignore[assignment]     # the BoundProgram of the present input shapes
        self.segments = []      # of the last run: `current`, and what followed on shapes that depend on data
        self.ready = False
        self.fast_program = None    # the Program that invoke() runs, where that is all that it does
        self.readable = {}
        self.writable = {}
        self.variables: dict[int, Array] = {}
        self.loop_arenas: dict[int, Array] = {}     # memory of loops whose variables change shape, by operator index
        self._arenas: list[Array] = []  # one for each depth of segments: two of one depth never live together
        self._cache: dict[Any, BoundProgram] = {}   # input shapes -> BoundProgram, the one used last at the end
        # BoundProgram that follows on another -> (the other, what was found), oldest first.
        self.following: dict[BoundProgram, tuple[BoundProgram, Any]] = {}
        self.checked = False    # are all operators known to run?
        self._resolver = resolver
        if resolver.plugs():
            self._attach()

    def _attach(self) -> None:
        """Let the ops that have a state make it, once for each node."""
        try:
            for operator in self.subgraph.operators:
                op = self._resolver.find(operator)
                if op is not None and op.attach and op.versions[0] <= operator.version <= op.versions[1]:
                    self.plugins[operator.index] = op.attach(self, operator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free what the nodes of plug-ins hold, in the order of the nodes; nothing can run afterwards."""
        plugins, self.plugins = self.plugins, {}
        self.invalidate()
        failed = None
        for _, op in sorted(plugins.items()):
            try:
                op.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def resize(self, position: int, shape: "Shape") -> None:
        """Give graph input `position` another shape; takes effect at the next allocate()."""
        if self.shapes[position] != shape:
            self.shapes[position] = shape
            self.invalidate()
            if self.delegation is not None:
                self.delegation.resized()

    def rebind(self, pool: "Pool") -> None:
        """Use other worker threads; the contents of inputs and variables stay."""
        was_ready, self.pool = self.ready, pool
        if self.tables is not None:
            self.tables.host.set_threads(pool.threads)
        kept = [(i, self.array(i).copy()) for i in self.subgraph.inputs] if was_ready else []
        self._cache, self.following = {}, {}
        self.invalidate()
        if was_ready:
            self.activate()
            for index, contents in kept:
                array = self.array(index)
                if array.flags.writeable:
                    array[...] = contents

    def allocate(self) -> None:
        """Lower, plan and bind for the present input shapes, or activate what was bound for them before.

        Variables and generators of random numbers start anew, as in tf.lite, unless there was nothing to do.
        """
        if self.given:
            self.prepared(self.shapes, {})
        if not self.ready:
            self.reallocate()
            self.reset_variables()
            indices = {self.subgraph.index}
            for other in self.callees:
                other.reset_variables()
                indices.add(other.subgraph.index)
            for (index, _), (state, start) in self.shared.get("generators", {}).items():
                if index in indices and start is not None:
                    state[...] = start

    def reallocate(self) -> None:
        """What allocate() does when there is anything to do; variables keep their contents."""
        if self.delegation is not None:
            self.delegation.reallocate()
        if not self.ready:
            self.activate()

    def delegate(self, delegation: "Any") -> None:
        """Let delegates take nodes, now and whenever a new shape makes it necessary."""
        self.delegation = delegation
        delegation.apply()
        if self.ready:
            self.reset_variables()

    def substitute(self, subgraph: "Subgraph") -> None:
        """Run the nodes of `subgraph`, which has the same tensors, instead."""
        self.subgraph = subgraph
        self._cache, self.following = {}, {}
        self.checked = False
        self.invalidate()

    def lowers_anew(self) -> bool:
        """Is every allocation lowered anew, since there are plug-ins, here or in subgraphs that operators call?"""
        if self.plugins or not self.callees:
            return bool(self.plugins)
        from pylite.runtime import subgraph_calls
        return subgraph_calls.plugins_called(self)

    @property
    def operators(self) -> "Sequence[Operator]":
        """Every Operator by index: the file's, then the nodes of delegates, which replace some of them."""
        return self.subgraph.operators if self.delegation is None else self.delegation.operators

    def find(self, operator: "Operator") -> "Any":
        """The Op that runs `operator`, or None."""
        return self.plugins.get(operator.index) or self._resolver.find(operator)

    def check(self) -> None:
        """Raise UnsupportedOpError naming every operator that cannot run, all at once."""
        if not self.checked:
            check(self.model, [self.subgraph], find=self.find)
            self.checked = True

    # ---- what ops reach through node.host, a ir.host.Host ----------------------------------------------------
    def sibling(self, index: int) -> "Executor":
        """An Executor of another subgraph of the model, for the same interpreter."""
        return type(self)(self.model, self.model.graph.subgraphs[index], self.pool, self.preserve, self.guard,
                          self.max_memory, self._resolver, self.shared)

    def callee(self, index: int) -> "Executor":
        """The Executor of another subgraph, which an operator of this one calls."""
        from pylite.runtime import subgraph_calls  # imported for graphs with calls, as below
        return subgraph_calls.callee(self, index)

    def prepared(self, shapes: "Sequence[Shape]", given: "Mapping[int, Array]") -> BoundProgram:
        """The BoundProgram for these input shapes; given: {position of an input: its contents}."""
        from pylite.runtime import subgraph_calls
        return subgraph_calls.prepared(self, shapes, given)

    def entry(self, whole: bool = False) -> "Entry":
        """(Program, failure, inputs, outputs) for a kernel that runs this subgraph."""
        from pylite.runtime import subgraph_calls
        return subgraph_calls.entry(self, whole)

    def call(self, arrays: "Sequence[Array]") -> "list[Array]":
        """Run once on `arrays`; copies of the outputs."""
        from pylite.runtime import subgraph_calls
        return subgraph_calls.call(self, arrays)

    def run_loop(self, node: "Node", condition: "Executor", body: "Executor", arrays: "Sequence[Array]",
                 kernels: bool) -> "Sequence[Array]":
        """Run `body` while `condition` holds, on variables whose shapes may change."""
        from pylite.runtime import dynamic_loop
        return dynamic_loop.run(self, node, condition, body, arrays, kernels)

    # ---- lowering, planning, binding -------------------------------------------------------------------------
    def invalidate(self) -> None:
        """Nothing is ready any more: the next allocate() makes it so."""
        self.ready = False
        self.fast_program = self.first_segment = None
        self.readable = {}
        self.writable = {}

    def activate(self) -> None:
        """Make the program for the present input shapes the current one; variables keep their contents."""
        self.check()
        key = (*self.shapes, *[(i, id(data)) for i, data in self.given.items()])
        if self.lowers_anew():
            self._cache, self.following = {}, {}
        known = self._cache.pop(key, None)
        if known is None:
            known = self._cache[key] = self._compiled()
            self._evict()
        else:
            self._cache[key] = known
        self.current = known
        self.segments = [known]
        self.readable = known.readable
        self.writable = known.writable
        self.ready = True
        if not self.guard:
            self.fast_program, self.first_segment = (
                (known.program, None) if known.boundary is None else (None, known))

    def _compiled(self) -> BoundProgram:
        """The BoundProgram for the present input shapes, made anew."""
        begin_packing()     # weights are packed while lowering goes on
        try:
            lowered = None
            while lowered is None or self.stale:
                self.stale = False
                lowered = lowering.lower(self.model, self.subgraph, self.shapes, self.preserve, self.find, True, self)
            if lowered.boundary is not None:
                from pylite.runtime import dynamic_shapes  # imported for graphs that have such shapes
                self.cached_shapes, self.dynamic_shapes = max(self.cached_shapes, CACHED_DYNAMIC), dynamic_shapes
            return self.bind(lowered)
        finally:
            finish_packing()

    def bind(self, lowered: "Lowered", before: "Sequence[BoundProgram]" = ()) -> BoundProgram:
        """Plan and bind; before: the BoundPrograms of the segments that run first, whose results are read."""
        if self.tables is not None:
            self.tables.finish(lowered)
        plan = memory_planner.plan(lowered, self.preserve, self.guard)
        self._check_memory(lowered, plan, before)
        arena = self._arena(plan.total, len(before))
        storage = binding.Storage(self._arrays(lowered, before), arena, plan.offsets, plan.scratch)
        kernels = binding.bind(lowered.calls, storage, self.model)
        return BoundProgram(lowered, plan, storage, Program(kernels, self.pool), arena)

    def _check_memory(self, lowered: "Lowered", plan: "Any", before: "Sequence[BoundProgram]") -> None:
        """Raise MemoryLimitError where the arenas need more than `max_memory`, or than the machine has."""
        if self.max_memory is None and plan.total <= LARGE_ARENA:
            return
        beside = sum(b.plan.total for b in before) + sum(arena.nbytes for e in self.callees for arena in e._arenas)
        if self.max_memory is not None and plan.total + beside > self.max_memory:
            step, live = plan.peak()
            node = lowered.calls[step].node if lowered.calls else self.subgraph.name
            raise MemoryLimitError(
                f"the arena needs {plan.total + beside} bytes and max_memory is {self.max_memory}; the peak is at "
                f"{node} with {live} bytes alive. Make the inputs smaller or raise max_memory")
        if plan.total > LARGE_ARENA and plan.total + beside > memory_limit():
            raise MemoryLimitError(
                f"the arena needs {plan.total + beside} bytes and this machine has {memory_limit()}. Make the inputs "
                "smaller")

    def _arena(self, nbytes: int, depth: int) -> "Array":
        """The arena of `depth`, of at least `nbytes` bytes; a larger one replaces what was there."""
        arena = self._arenas[depth] if depth < len(self._arenas) else None
        if arena is None or nbytes > arena.nbytes:
            self.drop([segment for segment in self.following if segment.arena is arena])
            try:
                arena = aligned(nbytes + nbytes // 4 if depth else nbytes)
            except (MemoryError, OSError, ValueError):      # ValueError: of sizes that are no array's
                raise MemoryLimitError(f"there is no memory for an arena of {nbytes} bytes. Make the inputs "
                                       "smaller") from None
            self._arenas[depth:depth + 1] = [arena]
        return arena

    def _arrays(self, lowered: "Lowered", before: "Sequence[BoundProgram]") -> "dict[int, Array]":
        """{tensor index: array} of the values that have memory outside the arena."""
        arrays = {}
        for value in lowered.values:
            if value.kind == "variable":
                arrays[value.index] = self._variable(value)
            elif value.kind == "carried":
                held = next((a for a in (segment.array(value.index) for segment in before) if a is not None), None)
                if held is not None:
                    arrays[value.index] = held
            elif (value.data is None and value.root is value and NUMPY_DTYPES[value.dtype].hasobject
                  and value.index not in lowered.later):
                arrays[value.index] = np.full(value.shape, b"", object)     # strings live outside the arena
        return arrays

    def _variable(self, value: "Value") -> "Array":
        held = self.variables.get(value.index)
        if NUMPY_DTYPES[value.dtype].hasobject:
            raise TensorError(f"{value!r} is a variable, which cannot hold {value.dtype}")
        if held is None or held.shape != value.shape:
            held = aligned(value.nbytes).view(NUMPY_DTYPES[value.dtype]).reshape(value.shape)
            self.variables[value.index] = held
        return held

    def _evict(self) -> None:
        """Drop the shapes used longest ago: beyond `cached_shapes`, or while outgrown arenas outweigh the present."""
        arena = self._arenas[0]
        for key in list(self._cache)[:-1]:
            outgrown = {id(b.arena): b.arena.nbytes for b in self._cache.values() if b.arena is not arena}
            if len(self._cache) <= self.cached_shapes and sum(outgrown.values()) <= arena.nbytes:
                break
            self.drop([self._cache.pop(key)])

    def drop(self, segments: "Iterable[BoundProgram]") -> None:
        """Forget `segments` and whatever followed on them."""
        gone = set(segments)
        while going := [s for s, (before, _) in self.following.items() if s in gone or before in gone]:
            for segment in going:
                before, key = self.following.pop(segment)
                before.next.pop(key, None)
            gone.update(going)

    def reset_variables(self) -> None:
        """Set every variable tensor back to real zero (int8) or to the bits 0 (all others), as tf.lite does."""
        for index, held in self.variables.items():
            tensor = self.subgraph.tensors[index]
            q = tensor.quantization
            held[...] = int(q.zero_point[0]) if tensor.dtype == "int8" and q is not None and len(q.zero_point) else 0

    def invoke(self) -> None:
        """Run every node once.  ExecutionError names the node that failed."""
        if not self.ready:
            raise ExecutionError("Invoke called on model that is not ready. Run allocate_tensors() first, also "
                                 "after every resize_tensor_input() that changes a shape")
        self.run(self.current)
