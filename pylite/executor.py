"""One subgraph made runnable: shapes in, memory planned and bound, invoke."""
import numpy as np

from pylite import binding, lowering, planning
from pylite._core.program import Program
from pylite.errors import ExecutionError, MemoryLimitError, NotAllocatedError
from pylite.graph import NUMPY_DTYPES

CACHED = 8          # sets of input shapes whose programs are kept
ALIGNMENT = 64
GUARD_BYTE = 0xA5


def aligned(nbytes):
    """A zeroed uint8 array of `nbytes` whose first byte lies on a cache line."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + nbytes]


class Allocation:
    """A subgraph bound to memory for one set of input shapes."""
    __slots__ = ("lowered", "plan", "storage", "program", "arena")

    def __init__(self, lowered, plan, storage, program, arena):
        self.lowered = lowered
        self.plan = plan
        self.storage = storage
        self.program = program
        self.arena = arena


class Executor:
    """Runs one subgraph of a model.

    model: Model; pool: simd.Pool; preserve: keep every intermediate tensor; guard: find writes out of bounds;
    max_memory: most bytes that the arena may take, or None.
    """

    def __init__(self, model, subgraph, pool, preserve=False, guard=False, max_memory=None):
        self.model = model
        self.subgraph = subgraph
        self.pool = pool
        self.preserve = preserve
        self.guard = guard
        self.max_memory = max_memory
        self.shapes = [subgraph.tensors[i].shape for i in subgraph.inputs]
        self.current = None
        self.variables = {}
        self._arena = aligned(0)
        self._cache = {}

    def resize(self, position, shape):
        """Give graph input `position` another shape; takes effect at the next allocate()."""
        if self.shapes[position] != shape:
            self.shapes[position] = shape
            self.current = None

    def allocate(self):
        """Lower, plan and bind for the present input shapes, or take up what was bound for them before."""
        key = tuple(self.shapes)
        known = self._cache.pop(key, None)
        if known is None:
            known = self._bind(lowering.lower(self.model, self.subgraph, self.shapes, self.preserve))
        self._cache[key] = known
        self._evict()
        self.current = known

    def _bind(self, lowered):
        plan = planning.plan(lowered, self.preserve, self.guard)
        if self.max_memory is not None and plan.total > self.max_memory:
            step, live = plan.peak()
            node = lowered.calls[step].node if lowered.calls else self.subgraph.name
            raise MemoryLimitError(
                f"the arena needs {plan.total} bytes and max_memory is {self.max_memory}; the peak is at {node} with "
                f"{live} bytes alive. Make the inputs smaller or raise max_memory")
        if plan.total > self._arena.nbytes:
            self._arena = aligned(plan.total)
        arrays = {}
        for value in lowered.values:
            if value.kind == "variable":
                arrays[value.index] = self._variable(value)
        storage = binding.Storage(arrays, self._arena, plan.offsets, plan.scratch)
        kernels = binding.bind(lowered.calls, storage, self.model)
        return Allocation(lowered, plan, storage, Program(kernels, self.pool), self._arena)

    def _variable(self, value):
        held = self.variables.get(value.index)
        if held is None or held.shape != value.shape:
            held = aligned(value.nbytes).view(NUMPY_DTYPES[value.dtype]).reshape(value.shape)
            held[...] = value.zero_point
            self.variables[value.index] = held
        return held

    def _evict(self):
        """Forget the shapes used longest ago: beyond CACHED, or while outgrown arenas weigh more than the present."""
        for key in list(self._cache)[:-1]:
            outgrown = {id(a.arena): a.arena.nbytes for a in self._cache.values() if a.arena is not self._arena}
            if len(self._cache) <= CACHED and sum(outgrown.values()) <= self._arena.nbytes:
                break
            del self._cache[key]

    def reset_variables(self):
        """Set every variable tensor back to its zero point."""
        for index, held in self.variables.items():
            q = self.subgraph.tensors[index].quantization
            held[...] = int(q.zero_point[0]) if q is not None and len(q.zero_point) else 0

    def array(self, index):
        """The array that tensor `index` lives in.  NotAllocatedError before allocate() or when it has no memory."""
        if self.current is None:
            raise NotAllocatedError("Tensor data is null. Run allocate_tensors() first")
        lowered, storage = self.current.lowered, self.current.storage
        value = lowered.values[index]
        if value.data is None and value.index not in storage.arrays and value.root.index not in storage.offsets:
            raise NotAllocatedError(f"tensor {value!r} has no memory: no operator or caller of this graph uses it")
        return storage.array(value)

    def readable(self, index):
        """array(index), or an error where a later node of the last run has reused its memory."""
        array = self.array(index)
        value = self.current.lowered.values[index]
        if self.current.plan.overwritten(value.root):
            raise NotAllocatedError(
                f"tensor {value!r} is an intermediate result whose memory later nodes reuse. Create the interpreter "
                "with experimental_preserve_all_tensors=True to read it; results are the same")
        return array

    def invoke(self):
        """Run every node once.  ExecutionError names the node that failed."""
        if self.current is None:
            raise ExecutionError("Invoke called on model that is not ready. Run allocate_tensors() first")
        failed = self._guarded() if self.guard else self.current.program.run()
        if failed is not None:
            step, status = failed
            kernel = self.current.program.kernels[step]
            node = self.current.lowered.calls[step].node
            raise ExecutionError(f"{node} failed: {kernel.ERRORS.get(status, f'status {status}')}; its tensors: "
                                 f"{', '.join(repr(v) for v in (*node.inputs, *node.outputs) if v is not None)}")

    def _guarded(self):
        """Run step by step with a band of known bytes behind every live block."""
        arena, blocks = self.current.arena, self.current.plan.blocks
        for step in range(self.current.program.size):
            for _, offset, nbytes, first, _ in blocks:
                if first == step:
                    arena[offset + nbytes:offset + nbytes + planning.GUARD] = GUARD_BYTE
            failed = self.current.program.run(step, step + 1)
            if failed is not None:
                return failed
            for owner, offset, nbytes, first, last in blocks:
                if first <= step <= last:
                    band = arena[offset + nbytes:offset + nbytes + planning.GUARD]
                    if (band != GUARD_BYTE).any():
                        node = self.current.lowered.calls[step].node
                        raise ExecutionError(f"{node} wrote out of bounds, behind {owner!r}")
        return None
