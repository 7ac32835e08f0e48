"""A lowered graph: the calls that compute it, and what the passes over them need to know."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from pylite.ir.graph import Subgraph
    from pylite.ir.values import Call, FoldablePad, Node, Value

ACTIVATIONS = frozenset(("RELU", "RELU_N1_TO_1", "RELU6"))      # operators that are also an option of others
STREAMED = 1 << 14      # bytes of a result from which it leaves the first-level cache before the next call reads it


class Lowered:
    """A subgraph for one set of input shapes: its values, and the calls that compute them.

    values: list of Value, by tensor index; nodes: list of Node; calls: list of Call in execution order, each with its
    Node; model: what packs weights for them; pads: [(Node, FoldablePad)].
    boundary: where a shape depends on data the calls stop before it, and this is what decides: a Value whose contents
    must be known, or a Node to evaluate; tail: the Subgraph that is left; later: the tensors that it computes.
    evaluated: the values that are filled in before the first call; notes: {node index: why nothing runs for it};
    folded: list of FoldedActivation.
    """
    __slots__ = ("subgraph", "values", "model", "nodes", "calls", "pads", "boundary", "tail", "later", "evaluated",
                 "notes", "folded")

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
        self.folded: Sequence[FoldedActivation] = ()

    def record(self, folded: "Sequence[FoldedActivation]") -> None:
        """Note which activations were folded into other operators, and what shapes their inputs would have."""
        self.folded = folded
        for item in folded:
            self.notes[item.operator] = f"folded into node {item.into}"
            self.values[item.x].shape = self.values[item.y].shape


class FoldedActivation:
    """An activation that another operator, `into`, applies: from tensor x, which then has no memory, to tensor y."""
    __slots__ = ("operator", "into", "x", "y")

    def __init__(self, operator: int, into: int, x: int, y: int) -> None:
        self.operator = operator
        self.into = into
        self.x = x
        self.y = y
