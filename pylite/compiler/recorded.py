"""A subgraph lowered once for all input shapes that satisfy the same guards: see _core/graph/dimensions.pyx."""
from functools import cached_property

from pylite._core.graph.dimensions import Computed, Recording, UnrecordableError
from pylite._core.graph.tapes import ShapeTape
from pylite._core.run.copies import Copies
from pylite._core.run.rebinding import Rebinder
from pylite.compiler import lowering, memory_planner
from pylite.compiler.placement import Placement
from pylite.compiler.settling import settle
from pylite.ir.lowered import Lowered
from pylite.ir.values import FoldablePad, Node, roots


class RecordedProgram:
    """A subgraph lowered for input shapes with Dims.

    lowered, lifetimes: with Dims; tape: evaluates the recording; rebinder: the Rebinder that binds the calls;
    variables: the variables' Values; unread: outputs that are computed from shapes and that no call reads, so that
    binding does not compute them.
    """

    def __init__(self, lowered, lifetimes, recording, shapes, varying, io_views):
        """varying: [(input, axis)] of the Dims; io_views: Views of the bytes of inputs and outputs, for callers."""
        self.lowered, self.lifetimes = lowered, lifetimes
        for call in lowered.calls:
            settle(call)
        self.tape = ShapeTape(recording, list(shapes), varying)      # closes the recording
        self.tape.evaluate([recording.values[i] for i in range(len(varying))])
        self.variables = [value for value in lowered.values if value.kind == "variable"]
        read = {root for call in lowered.calls for root in roots(call)}
        outputs = [lowered.values[i] for i in lowered.subgraph.outputs]
        self.unread = [value for value in outputs if type(value.data) is Computed and value not in read]
        self.rebinder = Rebinder(self.tape, lowered.calls, io_views, self.instance(self.tape.numbers_now()),
                                 Blocks(lifetimes))

    def evaluate(self, shapes):
        """Evaluate the tape for input `shapes`; False if the graph must be lowered for them."""
        return self.tape.evaluate_shapes(shapes)

    def instance(self, numbers):
        """The Instance for Numbers, which stand for one set of shapes."""
        return Instance(self.lowered, numbers)

    def variable_values(self, numbers):
        """The variables, with their current shapes."""
        return self.variables and [self.instance(numbers).copy(value) for value in self.variables]


class Blocks:
    """The blocks of an arena, in the order of placement.place(): roots by tensor index, then Scratches.

    owners: the root or Scratch of each block; roots: number of roots; sizes: bytes, with Dims; firsts, lasts: the first
    and the last step in which a block is used.
    """
    __slots__ = ("owners", "roots", "sizes", "firsts", "lasts")

    def __init__(self, lifetimes):
        first, last = lifetimes.first, lifetimes.last
        roots = sorted(first, key=lambda root: root.index)
        steps = [step for _, step in lifetimes.scratch]
        self.owners = roots + [scratch for scratch, _ in lifetimes.scratch]
        self.roots = len(roots)
        self.sizes = [lifetimes.sizes[owner] for owner in self.owners]
        self.firsts = [first[root] for root in roots] + steps
        self.lasts = [last[root] for root in roots] + steps


# ---- recording -----------------------------------------------------------------------------------------------
def record(model, subgraph, shapes, varying, *, preserve, find, host, is_called):
    """The RecordedProgram of `subgraph` in which the dimensions `varying`, [(input, axis)], change.

    shapes: of the inputs now; preserve, find, host: as for lowering.lower(); is_called: do other subgraphs call it?
    Raises UnrecordableError, or an error of lowering, if the subgraph must be lowered for each set of shapes.
    """
    recording = Recording()
    dims = [list(shape) for shape in shapes]
    for position, axis in varying:
        dims[position][axis] = recording.add_input(dims[position][axis])
    lowered = lowering.lower(model, subgraph, [tuple(shape) for shape in dims], preserve=preserve, find=find,
                             dynamic=True, host=host)
    if lowered.boundary is not None:
        raise UnrecordableError("shapes depend on data")
    lifetimes = memory_planner.lifetimes(lowered, preserve)
    if lifetimes.banded:
        raise UnrecordableError("guard bands")
    called = [lowered.values[i] for i in (*subgraph.inputs, *subgraph.outputs)] if is_called else []
    io_views = [] if "string" in [value.dtype for value in called] else [value.bytes for value in called]
    return RecordedProgram(lowered, lifetimes, recording, shapes, varying, io_views)


# ---- copies with numbers ---------------------------------------------------------------------------------------
class Instance(Copies):
    """Copies of the parts of a Lowered, with numbers in place of Dims; each copy is created on first use."""

    def __init__(self, lowered, numbers):
        super().__init__(numbers)
        self._source, self._filled = lowered, numbers.filled

    @cached_property
    def values(self):
        return [self.copy(value) for value in self._source.values]

    @cached_property
    def calls(self):
        return [self.call(call) for call in self._source.calls]

    def lowered(self):
        """The Lowered for these numbers."""
        source = self._source
        copy = Lowered(source.subgraph, self.values, source.model)
        nodes = {id(node): self._node(node) for node in [*source.nodes, *[call.node for call in source.calls]]}
        copy.nodes = [nodes[id(node)] for node in source.nodes]
        copy.calls = self.calls
        for call, original in zip(copy.calls, source.calls, strict=True):
            call.node = nodes[id(original.node)]
        copy.pads = [(nodes[id(node)], self._pad(pad)) for node, pad in source.pads if id(node) in nodes]
        copy.later, copy.evaluated = source.later, source.evaluated
        copy.notes, copy.fused = dict(source.notes), source.fused
        return copy

    def _node(self, node):
        copy = Node(node.index, node.operator, self.values, node.host)
        copy.inputs = [self.copy(value) for value in node.inputs]     # None for an absent one
        copy.outputs = [self.copy(value) for value in node.outputs]
        return copy

    def _pad(self, pad):
        copy = FoldablePad(self.copy(pad.y), self.copy(pad.x), self._filled(tuple(pad.pairs)), pad.fill)
        copy.folded = pad.folded
        return copy

    def placement(self, lifetimes, rebinder_offsets, total):
        """The Placement with the offsets of a Rebinder; lifetimes: with Dims."""
        blocks = Blocks(lifetimes)
        placed = list(zip(map(self.copy, blocks.owners), rebinder_offsets, map(self._filled, blocks.sizes),
                          blocks.firsts, blocks.lasts, strict=True))
        offsets = {root.index: offset for root, offset, *_ in placed[:blocks.roots]}
        scratch = {owner: offset for owner, offset, *_ in placed[blocks.roots:]}
        unreadable = {self.copy(value) for value in lifetimes.unreadable}
        return Placement(offsets, scratch, total, placed, unreadable)
