"""One subgraph made runnable: shapes in, memory planned and bound, invoke."""
import numpy as np

import pylite
from pylite import binding, lowering, planning
from pylite._core.memory import aligned, most
from pylite._core.program import Bound, Memory, Program
from pylite._core.simd import begin_packing, finish_packing
from pylite.allocation import Allocation
from pylite.graph import NUMPY_DTYPES
from pylite.registry import default

CACHED = 8          # sets of input shapes whose programs are kept
PAUSING = 64        # the same of a graph whose shapes depend on data, too: what follows is lost with them
LARGE_ARENA = 1 << 28   # bytes from which on it is compared with what the machine has


class Executor(Bound):
    """Runs one subgraph of a model.

    model: Model; pool: simd.Pool; preserve: keep every intermediate tensor; guard: find writes out of bounds;
    max_memory: most bytes that the arena may take, or None;
    resolver: the OpResolver that tells the ops; shared: a dict for what the executors of an interpreter share.
    `readable` and `writable` hold the Memory of the tensors asked for since the last allocate(), by index: the way of
    a steady-state caller around every check; `ready` tells whether invoke() may run.
    `plugins` holds an Op of its own for each operator that a plug-in runs, by operator index; a delegate also puts
    another Subgraph in place of `subgraph`, and `delegation` knows how.  With plug-ins every allocation lowers anew,
    so that they are prepared.
    """

    def __init__(self, model, subgraph, pool, preserve=False, guard=False, max_memory=None,
                 resolver=default, shared=None):
        self.model = model
        self.subgraph = subgraph
        self.plugins = {}
        self.tables = None      # what plug-ins in C see; made for the first one
        self.shared = {} if shared is None else shared
        self.delegation = None
        self.callees = set()    # the executors of subgraphs that operators of this one call
        self.given = {}         # inputs that the caller, an operator, knows to be constant: {position: contents}
        self.kept = CACHED      # sets of input shapes to remember
        self.stale = False      # set by an op that learns what ops lowered before should have known
        self.pool = pool
        self.preserve = preserve
        self.guard = guard
        self.max_memory = max_memory
        self.shapes = [subgraph.tensors[i].shape for i in subgraph.inputs]
        self.current = None
        self.parts = []         # of the last run: `current`, and what followed on shapes that depend on data
        self.ready = False
        self.steady = None      # the Program that invoke() runs, where that is all that it does
        self.readable = {}
        self.writable = {}
        self.variables = {}
        self.rooms = {}         # memory for the variables of loops that change their shapes, by operator index
        self._arenas = []       # one for each depth of parts, since the parts of one depth never live together
        self._cache = {}        # input shapes -> Allocation, the one used last at the end
        self.following = {}     # Allocation that followed on another -> (the other, what was found), oldest first
        self.checked = False    # are all operators known to run?
        self._resolver = resolver
        if resolver.plugs():
            self._attach()

    def _attach(self):
        """Let the ops that have a state make it, once for each node."""
        try:
            for operator in self.subgraph.operators:
                op = self._resolver.find(operator)
                if op is not None and op.attach and op.versions[0] <= operator.version <= op.versions[1]:
                    self.plugins[operator.index] = op.attach(self, operator)
        except BaseException:
            self.close()
            raise

    def close(self):
        """Free what the nodes of plug-ins hold, in the order of the nodes; nothing can run afterwards."""
        plugins, self.plugins = self.plugins, {}
        self.suspend()
        failed = None
        for _, op in sorted(plugins.items()):
            try:
                op.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def resize(self, position, shape):
        """Give graph input `position` another shape; takes effect at the next allocate()."""
        if self.shapes[position] != shape:
            self.shapes[position] = shape
            self.suspend()
            if self.delegation is not None:
                self.delegation.resized()

    def rebind(self, pool):
        """Use other worker threads; the contents of inputs and variables stay."""
        was_ready, self.pool = self.ready, pool
        if self.tables is not None:
            self.tables.host.set_threads(pool.threads)
        kept = [(i, self.array(i).copy()) for i in self.subgraph.inputs] if was_ready else []
        self._cache, self.following = {}, {}
        self.suspend()
        if was_ready:
            self.take_up()
            for index, contents in kept:
                array = self.array(index)
                if array.flags.writeable:
                    array[...] = contents

    def shape(self, index):
        """The shape that tensor `index` has now: as resized, else as inferred, else as the file declares it."""
        if index in self.subgraph.inputs:
            return self.shapes[self.subgraph.inputs.index(index)]
        return (self.parts[-1].lowered.values if self.parts else self.subgraph.tensors)[index].shape

    def dtype(self, index):
        """The data type that tensor `index` has now: the file's, unless a plug-in gave it another."""
        return (self.parts[-1].lowered.values if self.parts else self.subgraph.tensors)[index].dtype

    def allocate(self):
        """Lower, plan and bind for the present input shapes, or take up what was bound for them before.

        Variables and generators of random numbers start anew, as in tf.lite, unless there was nothing to do.
        """
        if self.given:
            from pylite.calls import prepared  # seldom wanted
            prepared(self, self.shapes, {})
        if not self.ready:
            self.renew()
            self.reset_variables()
            indices = {self.subgraph.index}
            for other in self.callees:
                other.reset_variables()
                indices.add(other.subgraph.index)
            for (index, _), (state, start) in self.shared.get("generators", {}).items():
                if index in indices and start is not None:
                    state[...] = start

    def renew(self):
        """What allocate() does when there is anything to do; variables keep their contents."""
        if self.delegation is not None:
            self.delegation.renew()
        if not self.ready:
            self.take_up()

    def delegate(self, delegation):
        """Let delegates take nodes, now and whenever a new shape makes it necessary."""
        self.delegation = delegation
        delegation.apply()
        if self.ready:
            self.reset_variables()

    def substitute(self, subgraph):
        """Run the nodes of `subgraph`, which has the same tensors, instead."""
        self.subgraph = subgraph
        self._cache, self.following = {}, {}
        self.checked = False
        self.suspend()

    def sibling(self, index):
        """An Executor of another subgraph of the model, for the same interpreter."""
        return type(self)(self.model, self.model.graph.subgraphs[index], self.pool, self.preserve, self.guard,
                          self.max_memory, self._resolver, self.shared)

    def renews(self):
        """Is every allocation lowered anew, since there are plug-ins, here or in subgraphs that operators call?"""
        if self.plugins or not self.callees:
            return bool(self.plugins)
        from pylite.calls import plugins_called
        return plugins_called(self)

    @property
    def operators(self):
        """Every Operator by index: the file's, then the nodes of delegates, which replace some of them."""
        return self.subgraph.operators if self.delegation is None else self.delegation.operators

    def find(self, operator):
        """The Op that runs `operator`, or None."""
        return self.plugins.get(operator.index) or self._resolver.find(operator)

    def check(self):
        """Raise UnsupportedOpError naming every operator that cannot run, all at once."""
        if not self.checked:
            lowering.check(self.model, [self.subgraph], find=self.find)
            self.checked = True

    def suspend(self):
        """Nothing is ready any more: the next allocate() makes it so."""
        self.ready = False
        self.steady = self.first = None
        self.readable = {}
        self.writable = {}

    def take_up(self):
        """What allocate() does when there is anything to do; variables keep their contents."""
        self.check()
        key = (*self.shapes, *[(i, id(data)) for i, data in self.given.items()])
        if self.renews():
            self._cache, self.following = {}, {}
        known = self._cache.pop(key, None)
        if known is None:
            begin_packing()     # weights are packed while lowering goes on
            try:
                lowered = None
                while lowered is None or self.stale:
                    self.stale = False
                    lowered = lowering.lower(self.model, self.subgraph, self.shapes, self.preserve, self.find, True,
                                             self)
                if lowered.pause is not None:
                    from pylite import pausing  # seldom wanted
                    self.kept, self.pausing = max(self.kept, PAUSING), pausing
                known = self.bind(lowered)
            finally:
                finish_packing()
            self._cache[key] = known
            self._evict()
        else:
            self._cache[key] = known
        self.current = known
        self.parts = [known]
        self.readable = known.readable
        self.writable = known.writable
        self.ready = True
        if not self.guard:
            self.steady, self.first = (known.program, None) if known.pause is None else (None, known)

    def bind(self, lowered, before=()):
        """Plan and bind; before: the Allocations of the parts that run first, whose results are read."""
        if self.tables is not None:
            self.tables.finish(lowered)
        plan = planning.plan(lowered, self.preserve, self.guard)
        depth = len(before)
        beside = sum(a.plan.total for a in before) + sum(arena.nbytes for e in self.callees for arena in e._arenas)
        if self.max_memory is not None and plan.total + beside > self.max_memory:
            step, live = plan.peak()
            node = lowered.calls[step].node if lowered.calls else self.subgraph.name
            raise pylite.MemoryLimitError(
                f"the arena needs {plan.total + beside} bytes and max_memory is {self.max_memory}; the peak is at "
                f"{node} with {live} bytes alive. Make the inputs smaller or raise max_memory")
        if plan.total > LARGE_ARENA and plan.total + beside > most():
            raise pylite.MemoryLimitError(
                f"the arena needs {plan.total + beside} bytes and this machine has {most()}. Make the inputs smaller")
        arena = self._arenas[depth] if depth < len(self._arenas) else None
        if arena is None or plan.total > arena.nbytes:
            self.drop([part for part in self.following if part.arena is arena])
            try:
                arena = aligned(plan.total + plan.total // 4 if depth else plan.total)
            except (MemoryError, OSError, ValueError):      # ValueError: of sizes that are no array's
                raise pylite.MemoryLimitError(f"there is no memory for an arena of {plan.total} bytes. Make the inputs "
                                              "smaller") from None
            self._arenas[depth:depth + 1] = [arena]
        arrays = {}
        for value in lowered.values:
            if value.kind == "variable":
                arrays[value.index] = self._variable(value)
            elif value.kind == "carried":
                held = next((a for a in (part.array(value.index) for part in before) if a is not None), None)
                if held is not None:
                    arrays[value.index] = held
            elif (value.data is None and value.root is value and NUMPY_DTYPES[value.dtype].hasobject
                  and value.index not in lowered.later):
                arrays[value.index] = np.full(value.shape, b"", object)     # strings live outside the arena
        storage = binding.Storage(arrays, arena, plan.offsets, plan.scratch)
        kernels = binding.bind(lowered.calls, storage, self.model)
        return Allocation(lowered, plan, storage, Program(kernels, self.pool), arena)

    def _variable(self, value):
        held = self.variables.get(value.index)
        if NUMPY_DTYPES[value.dtype].hasobject:
            raise pylite.TensorError(f"{value!r} is a variable, which cannot hold {value.dtype}")
        if held is None or held.shape != value.shape:
            held = aligned(value.nbytes).view(NUMPY_DTYPES[value.dtype]).reshape(value.shape)
            self.variables[value.index] = held
        return held

    def _evict(self):
        """Forget the shapes used longest ago: beyond CACHED, or while outgrown arenas weigh more than the present."""
        arena = self._arenas[0]
        for key in list(self._cache)[:-1]:
            outgrown = {id(a.arena): a.arena.nbytes for a in self._cache.values() if a.arena is not arena}
            if len(self._cache) <= self.kept and sum(outgrown.values()) <= arena.nbytes:
                break
            self.drop([self._cache.pop(key)])

    def drop(self, parts):
        """Forget `parts` and whatever followed on them."""
        gone = set(parts)
        while going := [part for part, (before, _) in self.following.items() if part in gone or before in gone]:
            for part in going:
                before, key = self.following.pop(part)
                before.next.pop(key, None)
            gone.update(going)

    def reset_variables(self):
        """Set every variable tensor back to real zero (int8) or to the bits 0 (all others), as tf.lite does."""
        for index, held in self.variables.items():
            tensor = self.subgraph.tensors[index]
            q = tensor.quantization
            held[...] = int(q.zero_point[0]) if tensor.dtype == "int8" and q is not None and len(q.zero_point) else 0

    def array(self, index):
        """The array that tensor `index` lives in.  NotAllocatedError before allocate() or when it has no memory."""
        if self.current is None or (not self.ready and index in self.subgraph.inputs):
            raise pylite.NotAllocatedError(f"Tensor data is null. Run allocate_tensors() first (tensor {index}, "
                                           f"{self.subgraph.tensors[index].name!r})")
        return self.found(index)[1]

    def found(self, index):
        """(the part that has memory for tensor `index`, its array)"""
        for part in self.parts:
            array = part.array(index)
            if array is not None:
                return part, array
        value = self.parts[-1].lowered.values[index]
        if not value.size:
            return self.parts[-1], np.empty(value.shape, NUMPY_DTYPES[value.dtype])
        lowered, notes = self.parts[-1].lowered, {}
        for part in self.parts:
            notes.update(part.lowered.notes)
        folded = next((o for o in self.subgraph.operators if index in (*o.inputs, *o.outputs)
                       and notes.get(o.index, "").startswith("folded")), None)
        if index in lowered.later:
            reason = "its shape is known once the model has run"
        elif folded is not None:
            reason = f"the operator that {'computes' if index in folded.outputs else 'reads'} it is " \
                     f"{notes[folded.index]}. Create the interpreter with " \
                     "experimental_preserve_all_tensors=True to read it; results are the same"
        else:
            reason = "no operator that runs and no caller of this graph uses it"
        raise pylite.NotAllocatedError(f"Tensor data is null: {value!r} has no memory, since {reason}")

    def to_read(self, index):
        """array(index), or an error where a later node of the last run has reused its memory."""
        array = self.array(index)
        part = self.found(index)[0]
        value = part.lowered.values[index]
        if part.plan.overwritten(value):
            raise pylite.NotAllocatedError(
                f"Tensor data is null: {value!r} is an intermediate result whose memory later nodes reuse. Create the "
                "interpreter with experimental_preserve_all_tensors=True to read it; results are the same")
        if self.ready:
            self.readable[index] = Memory(array)
        return array

    def to_write(self, index):
        """array(index), or an error where the tensor is a constant or must not be written now."""
        if not self.ready:
            raise pylite.NotAllocatedError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() "
                                           f"first (tensor {index}, {self.subgraph.tensors[index].name!r})")
        array = self.array(index)
        if not array.flags.writeable:
            raise pylite.TensorError(f"Cannot set tensor: {self.current.lowered.values[index]!r} is a constant of the "
                                     "model, which its interpreters share")
        self.writable[index] = Memory(array)
        return array

    def invoke(self):
        """Run every node once.  ExecutionError names the node that failed."""
        if not self.ready:
            raise pylite.ExecutionError("Invoke called on model that is not ready. Run allocate_tensors() first, also "
                                        "after every resize_tensor_input() that changes a shape")
        self.run(self.current)
