"""A lowered graph: the calls that compute it, and constants that passes and ops share."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, Self

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph
    from pylite.ir.values import Call, FoldablePad, Node, Value

ACTIVATIONS = frozenset(("RELU", "RELU_N1_TO_1", "RELU6"))      # operators that others can apply by an option
# Kernels that the compiler looks for in calls; ops call them by these names.
COPY, READ, ASSIGN = "movement.Copy", "variables.Read", "variables.Assign"
UNARY, BINARY = "elementwise.Unary", "elementwise.Binary"
# Positions among the arguments of their calls: (function, n, x, y, parameters), and
# (function, shape, a, b, y, strides of a, strides of b, parameters).
FUNCTION, COUNT, UNARY_X, UNARY_Y = range(4)
BINARY_A, BINARY_Y = 2, 4
STREAMED = 1 << 14      # larger results leave the first-level cache before the next call reads them


class Lowered:
    """A subgraph for one set of input shapes: its values, and the calls that compute them.

    values: list of Value, by tensor index; nodes: list of Node; calls: list of Call in execution order, each with its
    Node; model: packs weights for them; pads: [(Node, FoldablePad)].
    boundary: if the calls stop before a shape that depends on data, the Value whose contents determine the shape, or
    the Node to evaluate; tail: the Subgraph of the operators after it; later: the tensors that these compute.
    evaluated: the values that are filled in before the first call; notes: {node index: why nothing runs for it};
    fused: list of FusedActivation; half: may tensors be stored as float16, see compiler/float16.py?
    starts: {tensor index: the contents with which a variable begins} where an operator computes them from constants
    """
    __slots__ = ("subgraph", "values", "model", "nodes", "calls", "pads", "boundary", "tail", "later", "evaluated",
                 "notes", "fused", "half", "starts")

    def __init__(self, subgraph: "Subgraph", values: "list[Value]", model: "Any") -> None:
        self.subgraph = subgraph
        self.values = values
        self.model = model
        self.nodes: list[Node] = []
        self.calls: list[Call] = []
        self.pads: list[tuple[Node, FoldablePad]] = []
        self.boundary: Any = None
        self.tail: Subgraph | None = None
        self.later: Collection[int] = frozenset()
        self.evaluated: Sequence[Value] = ()
        self.notes: dict[int, str] = {}
        self.fused: Sequence[FusedActivation] = ()
        self.half = False
        self.starts: dict[int, NDArray[Any]] = {}

    def record(self, fused: "Sequence[FusedActivation]") -> None:
        """Record which activations other operators apply, and the shapes of the tensors that no longer exist."""
        self.fused = fused
        for item in fused:
            self.notes[item.operator] = Folded(item.into)
            self.values[item.x].shape = self.values[item.y].shape


class Folded(str):
    """The note of a node whose work other nodes do, those numbered `into`."""
    __slots__ = ()

    def __new__(cls, *into: int) -> "Self":
        return super().__new__(cls, f"folded into node {', '.join(map(str, into))}")


class FusedActivation:
    """An activation that another operator, `into`, applies: from tensor x, which has no memory, to tensor y."""
    __slots__ = ("operator", "into", "x", "y")

    def __init__(self, operator: int, into: int, x: int, y: int) -> None:
        self.operator = operator
        self.into = into
        self.x = x
        self.y = y
