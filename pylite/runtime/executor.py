"""Makes one subgraph runnable: takes shapes, obtains a program for them, runs it.

Modules imported on demand hold what only some graphs need: compiling, planned_program, recorded_program,
dynamic_shapes, dynamic_loop, subgraph_calls, partial_run.  This file is longer than others because all of its methods
share the state of one object.
"""
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core.run.program import ExecutorBase
from pylite.ir.interpreter_state import InterpreterState
from pylite.ir.registry import default
from pylite.runtime.bound_program import BoundProgram, ProgramCache
from pylite.runtime.tensor_access import TensorAccess
from pylite.runtime.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np

    from pylite._core.run.program import Callee
    from pylite._core.run.reshaping import CalledProgram
    from pylite._core.simd import Pool
    from pylite.compiler.placement import Access
    from pylite.ir.graph import Operator, Subgraph
    from pylite.ir.lowered import Lowered
    from pylite.ir.values import Node
    from pylite.runtime.model import Model
    from pylite.runtime.plan_cache import PlanCache

    Array = np.ndarray[Any, Any]
    Shape = tuple[int, ...]

DEEPEST = 1000          # levels of calls between subgraphs, each of which takes some of the stack


class Executor(TensorAccess, ExecutorBase):
    """Runs one subgraph of a model; a host.Host for its ops.

    Call resize() and allocate(), then invoke() any number of times, and so on.  allocate() activates a
    BoundProgram for the input shapes: one that it has kept, or else one that activate() obtains.  lower_again() makes
    all programs stale, and close() ends the plug-ins.

    What the caller chose, at construction:
    model                   the Model
    subgraph                the Subgraph that runs: the file's, or a delegate's with the same tensors
    pool                    the simd.Pool
    preserve, guard         keep every intermediate tensor?  Detect out-of-bounds writes?
    max_memory              bytes that the tensors may take, or None
    resolver                the OpResolver that finds the ops
    half                    compute products of float32 in float16?  Default: the model's choice
    shared                  the InterpreterState of all executors of an interpreter

    What programs are made for:
    shapes                  of the inputs
    known_inputs            {position of an input: its contents}, which the calling operator knows to be constant
    access                  the placement.Access of a caller that uses tensors in the middle of a run, or None
    checked                 is every operator known to be supported?
    stale                   were programs lowered on assumptions that no longer hold?  See lower_again()

    What keeps programs and tensors:
    cache, memory           the ProgramCache; the TensorMemory
    plans                   the PlanCache with the programs of earlier processes, or None

    Plug-ins:
    plugins                 {operator index: Op} of nodes that plug-ins run; if any, every allocation lowers again
    plugin_structs          the PluginStructs for plug-ins in C, or None before the first one
    delegation              the Delegation, which can restore the file's subgraph, or None

    Calls between subgraphs:
    callees, depth          the Executors of subgraphs that operators of this one call, and the levels of their calls
    recorded_callee         the CalledProgram that stands for this subgraph while its caller is recorded, else None
    tensors_read            what operators read, and the outputs, as tensor indices; None before first use

    The last allocation, and the last run:
    current                 the BoundProgram of the current shapes, or None before the first allocate()
    ready                   may invoke() run?
    segments                segments of the last run: `current`, then those whose shapes depend on data
    ExecutorBase (_core/run/program.pyx) has attributes for the fast path and for shapes that depend on data.
    """

    def __init__(self, model: "Model", subgraph: "Subgraph", pool: "Pool", preserve: bool = False,
                 guard: bool = False, max_memory: "int | None" = None, resolver: "Any" = default,
                 shared: "InterpreterState | None" = None, attach: bool = True,
                 half: "bool | None" = None) -> None:
        """attach: attach the resolver's plug-ins."""
        self.model = model
        self.subgraph = subgraph
        self.pool = pool
        self.preserve = preserve
        self.guard = guard
        self.max_memory = max_memory
        self.resolver = resolver
        self.half: bool = model.half if half is None else half
        self.shared = InterpreterState() if shared is None else shared
        self.shapes = [subgraph.tensors[i].shape for i in subgraph.inputs]
        self.known_inputs: Mapping[int, Array] = {}
        self.access: Access | None = None
        self.checked = self.stale = False
        self.cache = ProgramCache()
        self.memory = TensorMemory(max_memory)
        planned = self.shared.planned.pop(subgraph.index, None)
        if planned is not None:     # a plan already has memory for this subgraph
            self.memory.arenas, self.memory.variables = planned.arenas, planned.variables
        self.plans: PlanCache | None = None
        self.plugins: dict[int, Any] = {}
        self.plugin_structs: Any = None     # as `delegation`, of a layer above
        self.delegation: Any = None
        self.callees: set[Executor] = set()
        self.depth = 0
        self.recorded_callee: CalledProgram | None = None
        self.tensors_read: frozenset[int] | None = None
        self.current = None  # type: ignore[assignment]     # until allocate()
        self.ready = False
        self.segments = []
        self.fast_program = None
        self.readable = {}
        self.writable = {}
        if attach and resolver.plugs():
            self._attach()

    def resize(self, position: int, shape: "Shape") -> None:
        """Change the shape of graph input `position`; takes effect at the next allocate()."""
        if self.shapes[position] != shape:
            inputs = self.subgraph.inputs
            tensor = self.subgraph.tensors[inputs[position]]
            if tensor.data is not None:
                raise errors.ResizeError(
                    f"Attempting to resize a fixed-size tensor: input {tensor.index} ({tensor.name!r}) has contents of "
                    f"shape {list(tensor.shape)} in the file, and cannot take the shape {list(shape)}")
            for i, index in enumerate(inputs):      # which may name a tensor twice
                if index == tensor.index:
                    self.shapes[i] = shape
            self.invalidate()
            if self.delegation is not None:
                self.delegation.resized()

    def allocate(self) -> None:
        """Lower, place and bind for the current input shapes, or activate the program that was bound for them before.

        Resets variables and random number generators, as tf.lite does, unless the executor was ready.
        """
        if self.known_inputs:
            self.prepared(self.shapes, {})
        if self.stale and self.ready:
            self.renew()
        if not self.ready:
            try:
                self.reallocate()
            except errors.PyliteError as error:
                if self.current is not None:
                    self.check_file()       # zeros in place of constants explain the error
                if type(error) is errors.OpError:
                    error.args = (f"{error}{self._resized()}",)
                raise
            if self.callees or self.memory.variables or self.shared.generators or self.shared.planned:
                self._reset_state()

    def _resized(self) -> str:
        """The end of an error message: the inputs whose shapes differ from the file's, which may explain the error."""
        tensors = [self.subgraph.tensors[i] for i in self.subgraph.inputs]
        return "".join(f"; input {tensor.name!r} was resized from {list(tensor.shape)} to {list(shape)}"
                       for tensor, shape in zip(tensors, self.shapes, strict=True) if shape != tensor.shape)

    def reallocate(self) -> None:
        """allocate(), but variables keep their contents."""
        if self.delegation is not None:
            self.delegation.reallocate()
        if not self.ready and not self.cache.activate(self):
            self.activate()

    def _reset_state(self) -> None:
        """Reset the variables and random number generators of this subgraph and of the subgraphs it calls."""
        self.reset_variables()
        indices = {self.subgraph.index}
        for other in self.callees:
            if other.memory.variables:
                other.reset_variables()
            indices.add(other.subgraph.index)
        for (index, _), (state, start) in self.shared.generators.items():
            if index in indices and start is not None:
                state[...] = start

    def reset_variables(self) -> None:
        """Set every variable tensor to zero, as tf.lite does."""
        self.memory.reset_variables(self.subgraph.tensors)
        if not self.subgraph.index:
            for memory in self.shared.planned.values():      # of subgraphs that only a plan has called
                memory.reset()

    def reset_variables_and_ops(self) -> None:
        """reset_variables(), and reset the state of plug-ins' ops."""
        self.reset_variables()
        for op in self.plugins.values():
            if hasattr(op, "reset"):
                op.reset()

    def invoke(self) -> None:
        """Run every node once.  ExecutionError names the node that failed."""
        if not self.ready:
            raise errors.ExecutionError("Invoke called on model that is not ready. Run allocate_tensors() first, also "
                                        "after every resize_tensor_input() that changes a shape")
        if self.stale:
            self.renew()
        self.run(self.current)

    def run_nodes(self, start: int, stop: "int | None") -> None:
        """Run the nodes from `start` to `stop` (None: the last one) on the tensors' current contents."""
        from pylite.runtime import partial_run  # to debug
        partial_run.run(self, start, stop)

    def check_file(self) -> None:
        """Raise ExecutionError if the model's file has lost pages, because these weights are zeros now."""
        lost = self.model.lost_pages + self.current.lost_pages
        if lost:
            raise errors.ExecutionError(
                f"the file of the model, or its plan in the cache, was truncated while it was in use: "
                f"{lost} pages are lost, and results are wrong. Load it again; put another file in "
                "its place by renaming, or pass model_content, which is a copy")

    def rebind(self, pool: "Pool") -> None:
        """Use other worker threads; inputs and variables keep their contents."""
        self.pool = pool
        if self.plugin_structs is not None:
            self.plugin_structs.host.set_threads(pool.threads)
        self.renew()

    def renew(self) -> None:
        """Drop all programs; if allocated, make the current one again.  Inputs and variables keep their contents."""
        was_ready = self.ready
        contents = [(i, self.array(i).copy()) for i in self.subgraph.inputs] if was_ready else []
        self.forget()
        if was_ready:
            self.activate()
            for index, data in contents:
                array = self.array(index)
                if array.flags.writeable:
                    array[...] = data

    def check(self) -> None:
        """Raise UnsupportedOpError naming every operator that cannot run, all at once."""
        if not self.checked:
            from pylite.compiler.check import check  # on demand, as below: cached programs need no compiler
            check(self.model, [self.subgraph], find=self.find)
            self.checked = True

    # ---- plug-ins and delegates ------------------------------------------------------------------------------
    def _attach(self) -> None:
        """Attach the ops of plug-ins to their nodes."""
        try:
            self.use_graph()
            for operator in self.subgraph.operators:
                op = self.resolver.find(operator)
                if op is not None and op.attach and op.versions[0] <= operator.version <= op.versions[1]:
                    self.plugins[operator.index] = op.attach(self, operator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the ops of plug-ins, in the order of the nodes; nothing can run afterwards."""
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

    def release(self) -> None:
        """Drop all programs and their memory, and thereby the references from nodes to this executor."""
        self.invalidate()
        self.cache.clear()
        self.memory = TensorMemory(self.max_memory)
        self.current = None  # type: ignore[assignment]
        self.segments = []
        self.callees = set()
        self.known_inputs = {}
        self.plugin_structs = self.delegation = None

    def find(self, operator: "Operator") -> "Any":
        """The Op that runs `operator`, or None."""
        return self.plugins.get(operator.index) or self.resolver.find(operator)

    @property
    def operators(self) -> "Sequence[Operator]":
        """Every Operator by index: the file's, then the nodes of delegates."""
        self.use_graph()
        return self.subgraph.operators if self.delegation is None else self.delegation.operators

    def delegate(self, delegation: "Any") -> None:
        """Let delegates claim nodes, now and whenever a new shape requires it."""
        self.delegation = delegation
        delegation.apply()
        if self.ready:
            self.reset_variables()

    def substitute(self, subgraph: "Subgraph") -> None:
        """Run the nodes of another Subgraph with the same tensors."""
        self.subgraph = subgraph
        self.cache.clear()
        self.tensors_read = None
        self.checked = False
        self.invalidate()

    def always_relowers(self) -> bool:
        """Does every allocation lower again?  With plug-ins, here or in subgraphs that operators call."""
        if self.plugins or not self.callees:
            return bool(self.plugins)
        from pylite.runtime import subgraph_calls
        return subgraph_calls.plugins_called(self)

    # ---- ir.host.Host: the methods that ops reach through node.host ------------------------------------------
    def sibling(self, index: int) -> "Executor":
        """An Executor of another subgraph of the model, for the same interpreter."""
        return type(self)(self.model, self.model.graph.subgraphs[index], self.pool, preserve=self.preserve,
                          guard=self.guard, max_memory=self.max_memory, resolver=self.resolver, shared=self.shared,
                          half=self.half)

    def callee(self, index: int) -> "Executor":
        """The Executor of another subgraph, which an operator of this one calls."""
        from pylite.runtime import subgraph_calls  # imported for graphs with calls, so too below
        return subgraph_calls.callee(self, index)

    def note_callees(self) -> None:
        """Add what the callees call to them; OpError if they call each other too deeply."""
        self.depth = 1 + max([other.depth for other in self.callees], default=0)
        if self.depth > DEEPEST:
            raise errors.OpError(f"subgraph {self.subgraph.index} calls others, which call others, in more than "
                                 f"{DEEPEST} levels; convert the model with its functions inlined")
        self.callees.update(*[other.callees for other in self.callees])

    def prepared(self, shapes: "Sequence[Shape]", known_inputs: "Mapping[int, Array]") -> BoundProgram:
        """The BoundProgram for these input shapes.  known_inputs: {position of an input: its contents}."""
        self.use_graph()
        from pylite.runtime import subgraph_calls
        return subgraph_calls.prepared(self, shapes, known_inputs)

    def entry(self, whole: bool = False) -> "Callee":
        """The Callee for a kernel that runs this subgraph."""
        from pylite.runtime import subgraph_calls
        return subgraph_calls.entry(self, whole)

    def call(self, arrays: "Sequence[Array]") -> "list[Array]":
        """Run once on `arrays`; returns copies of the outputs."""
        from pylite.runtime import subgraph_calls
        return subgraph_calls.call(self, arrays)

    def run_loop(self, node: "Node", condition: "Executor", body: "Executor", arrays: "Sequence[Array]",
                 kernels: bool) -> "Sequence[Array]":
        """Run `body` while `condition` holds, on variables that may change shape."""
        from pylite.runtime import dynamic_loop
        return dynamic_loop.run(self, node, condition, body, arrays, kernels)

    def lower_again(self) -> None:
        """Lower all subgraphs of the interpreter again: at once if one is being lowered now, else before it runs."""
        for executor in {self, *self.shared.executors.values()}:
            executor.outdate()

    # ---- programs --------------------------------------------------------------------------------------------
    def outdate(self) -> None:
        """Mark all programs as stale.  A running one continues; segments after its current one are lowered again."""
        self.stale = True
        self.fast_program = self.first_segment = None
        self.cache.drop_segments()

    def forget(self) -> None:
        """Drop all programs; require an allocate() before the next run."""
        self.stale = False
        self.cache.clear()
        self.invalidate()

    def invalidate(self) -> None:
        """Require an allocate() before the next run."""
        self.ready = False
        self.fast_program = self.first_segment = None
        self.readable = {}
        self.writable = {}

    def activate(self) -> None:
        """Make the program for the current input shapes `current`; variables keep their contents."""
        self.check()
        if self.stale:
            self.forget()
        key = tuple(self.shapes)
        if self.known_inputs:
            key += tuple([(i, id(data)) for i, data in self.known_inputs.items()])
        if self.always_relowers():
            self.cache.clear()
        bound = self.cache.get(key)
        if bound is None:
            history_key = self.cache.note(self.shapes, self.known_inputs)
            bound = (self._recorded(history_key, record_if_needed=False) or self._planned(history_key)
                     or self._recorded(history_key, record_if_needed=True))
            if bound is None:
                from pylite.runtime import compiling
                bound = compiling.program(self)
            self.cache.add(key, bound)
        self.enter(bound)

    def _planned(self, history_key: "Any") -> BoundProgram | None:
        """The plan cache's program for the current input shapes, or None; decides if it gets the next program.

        history_key: what ProgramCache.note() returned for the shapes.
        """
        if self.plans is None:
            return None
        from pylite.runtime import planned_program
        bound = planned_program.bind(self)
        if bound is None and self.plans.decide(history_key):
            from pylite.runtime import subgraph_calls
            for other in subgraph_calls.called(self):   # a plan needs the operands of their programs
                other.outdate()
        return bound

    def _recorded(self, history_key: "Any", record_if_needed: bool) -> BoundProgram | None:
        """A program for the current input shapes from a recording, or None.

        history_key: as for _planned(); record_if_needed: record, if no recording covers the shapes.
        """
        if history_key is None or (self.plans and self.plans.writing):
            return None
        if not (record_if_needed or self.cache.has_recorded(history_key)):
            return None
        self.use_graph()
        from pylite.runtime import recorded_program
        return recorded_program.bind(self, history_key, record_if_needed)

    def use_graph(self) -> None:
        """Replace a plan's summary of the subgraph by the graph's record."""
        if not isinstance(self.subgraph, tuple):        # records are tuples
            self.subgraph = self.model.graph.subgraphs[0]

    def bind(self, lowered: "Lowered", before: "Sequence[BoundProgram]") -> BoundProgram:
        """Plan and bind a segment.  before: the segments that run first and whose results it reads."""
        from pylite.runtime import compiling
        return compiling.bind(self, compiling.blueprint_of(self, lowered), before)
