"""A delegate compared with pylite's own kernels, node by node.

    from pylite.validation import delegated
    found = delegated.compare("model.tflite", pylite.load_delegate("libmine.so"), "samples.npz")
    print(found)
"""
from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pylite._core.simd import Pool
from pylite.display import text_table
from pylite.errors import ComparisonError, PyliteError, counted
from pylite.ir.graph import replace
from pylite.media import models
from pylite.plugins.delegates import apply
from pylite.runtime.executor import Executor
from pylite.runtime.model import Model
from pylite.validation.agreement import COMPARABLE, VERSION, Agreement, Difference, ExposedModel, compare_results
from pylite.validation.data import Samples, source_of
from pylite.validation.feeding import feed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from pylite.display.text_table import Table
    from pylite.ir.graph import Operator, Subgraph
    from pylite.validation.data import Numbers

    Array = NDArray[Any]

CPU = "the CPU"


@dataclass
class Claim:
    """A partition: its delegate's name, and the nodes that one kernel of the delegate replaces."""
    delegate: str
    nodes: list[int]


@dataclass(repr=False)
class Delegated(Agreement):
    """How a delegate's results compare with those of pylite's own kernels.

    differences: of the whole model, from its inputs on, in results that the delegate leaves visible; nodes: how many
    the model has; claims: the nodes that the delegate takes; ops: {op: their number}; alone: {"compared": claimed nodes
    that ran one at a time on the CPU's operands, "differences": theirs, "left_out": {node: why}}.
    """
    nodes: int = 0
    claims: list[Claim] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    alone: dict[str, Any] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Are all results the same, and is there a node that the delegate takes?"""
        return bool(self.claims) and not self.differences and not self.alone["differences"]

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON; "first_difference" is the first node that differs by itself, or None."""
        own = self.alone["differences"]
        return {"version": VERSION, "equal": self.equal, **asdict(self),
                "first_difference": own[0].node if own else None,
                "alone": {**self.alone, "differences": [asdict(d) for d in own]}}

    def lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """What the delegate claims, and how its nodes and the whole model differ.  table: makes the lines of tables."""
        claimed = sum(len(claim.nodes) for claim in self.claims)
        ops = ", ".join(f"{count} {op}" for op, count in self.ops.items())
        name = os.path.basename(self.model)
        if not self.claims:
            return [f"{self.other} claims none of the {counted(self.nodes, 'node')} of {name}, so nothing was compared"]
        text = [f"{self.other} claims {claimed} of {counted(self.nodes, 'node')} of {name}, in "
                f"{counted(len(self.claims), 'partition')}: {ops}", self._about(), self._whole()]
        rows = [(d.node, d.op, d.name, what, str(d)) for what, differences in (
            ("alone", self.alone["differences"]), ("in the model", self.differences)) for d in differences[:top]]
        if rows:
            text += ["", *table(("node", "op", "tensor", "run", "difference"), rows, ("node",), ("tensor",))]
        return text + [f"node {node} was not compared by itself: {why}"
                       for node, why in self.alone["left_out"].items()]

    def _about(self) -> str:
        own = self.alone["differences"]
        which = f"{counted(self.alone['compared'], 'node')} one at a time"
        if not own:
            return f"equal: {which}, on {CPU}'s operands: {counted(self.samples, 'sample')}"
        worst = max(own, key=lambda d: d.largest or 0.0)
        return (f"differs: {len({d.node for d in own})} of {which}, on {CPU}'s operands; most node {worst.node} "
                f"({worst.op}, {worst.name!r}), by up to {worst.amount}")

    def _whole(self) -> str:
        if not self.differences:
            return f"equal: the model from its inputs on: {counted(self.tensors, 'visible tensor')}"
        worst = max(self.differences, key=lambda d: d.largest or 0.0)
        return (f"differs: the model from its inputs on, in {len(self.differences)} of "
                f"{counted(self.tensors, 'visible tensor')}; most node {worst.node} ({worst.op}, {worst.name!r}), "
                f"by up to {worst.amount}")


def compare(model: str | os.PathLike[str], delegate: Any,
            data: str | os.PathLike[str] | Sequence[Sequence[ArrayLike]], *, samples: int | None = None,
            mean: Numbers | None = None, std: Numbers | None = None, rate: float | None = None,
            pictures: str | os.PathLike[str] | None = None, threads: int = 1) -> Delegated:
    """The Delegated of a model with a delegate: integers are compared bit for bit, real numbers by `agreement.CLOSE`.

    Each claimed node runs by itself on the operands that pylite's kernels compute, and the model as a whole from its
    inputs.  delegate: what load_delegate() returns, a PythonDelegate, or a list of these, applied in this order.
    The other arguments are those of pylite.validation.compare().
    Raises DelegationError (a RuntimeError) if the delegate fails, ComparisonError if the data do not fit.
    """
    delegates = list(delegate) if isinstance(delegate, (list, tuple)) else [delegate]
    path = models.named(model)
    opened = Model(path)
    graph = opened.graph.subgraphs[0]
    taken = Samples(source_of(data, [graph.tensors[i] for i in graph.inputs]), graph, mean, std, samples, rate=rate,
                    metadata=opened.graph.metadata, pictures=None if pictures is None else os.fspath(pictures))
    with ExitStack() as stack:
        plain = stack.enter_context(_DelegatedModel(opened, graph, delegates, threads))
        return _compared(os.fspath(path), opened, taken, plain, stack)


def _compared(path: str, opened: Model, taken: Samples, plain: _DelegatedModel, stack: ExitStack) -> Delegated:
    """The Delegated of samples; plain: the model with the delegates; stack: closes what is opened."""
    graph, claims = opened.graph.subgraphs[0], plain.claims
    numbers = sorted(node for claim in claims for node in claim.nodes)
    other = ", ".join(str(delegate.name) for delegate in plain.delegates)
    ops = dict(Counter(graph.operators[i].name for i in numbers))
    result = Delegated(path, other, len(taken), tensors=0, nodes=len(graph.operators), claims=claims, ops=ops,
                       alone={"compared": 0, "differences": [], "left_out": {}})
    if not claims:
        return result
    whole = stack.enter_context(plain.showing())
    singles, left_out = _singles(plain, numbers, stack)
    exposed = ExposedModel(opened, plain.threads)
    in_model: dict[int, Difference] = {}
    alone: dict[int, Difference] = {}
    for number in range(len(taken)):
        given, expected = exposed.run(taken[number])
        expected = {i: array.copy() for i, array in expected.items()}
        compare_results(in_model, exposed, number, expected, whole.run(given))
        known = {**dict(zip(graph.inputs, given, strict=True)), **expected}
        for single in singles.values():
            compare_results(alone, exposed, number, expected, single.run([known[i] for i in single.inputs]))
    result.tensors = len(whole.results)
    result.differences = sorted(in_model.values(), key=lambda d: (d.node, d.tensor))
    result.alone = {"compared": len(singles), "left_out": left_out,
                    "differences": sorted(alone.values(), key=lambda d: (d.node, d.tensor))}
    return result


class _DelegatedModel:
    """A graph with delegates.  claims: the nodes they take; inputs, results: the tensors to set, and to read."""

    def __init__(self, model: Model, graph: Subgraph, delegates: Sequence[Any], threads: int) -> None:
        self.model, self.graph, self.delegates, self.threads = model, graph, delegates, threads
        self._executor = Executor(model, graph, Pool(threads))
        apply([self._executor], delegates)
        self._executor.allocate()
        partitions = () if self._executor.delegation is None else self._executor.delegation.partitions.values()
        self.claims = [Claim(str(owner.name), list(part.nodes)) for owner, part in partitions]
        self.inputs = graph.inputs
        self.results = [i for i in graph.outputs if graph.tensors[i].dtype in COMPARABLE]

    def __enter__(self) -> _DelegatedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()

    def of(self, graph: Subgraph) -> _DelegatedModel:
        """The same of another graph of the model."""
        return _DelegatedModel(self.model, graph, self.delegates, self.threads)

    def showing(self) -> _DelegatedModel:
        """The same with every result as an output that is computed anyhow."""
        visible = [i for o in self._executor.subgraph.operators for i in o.outputs
                   if self.graph.tensors[i].dtype in COMPARABLE]
        return self.of(replace(self.graph, outputs=tuple(dict.fromkeys((*self.graph.outputs, *visible)))))

    def run(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """{tensor: contents}, valid until the next run; inputs as tensors store them."""
        feed(self._executor, inputs)
        self._executor.invoke()
        return {i: self._executor.array(i) for i in self.results}


def _singles(plain: _DelegatedModel, nodes: Sequence[int],
             stack: ExitStack) -> tuple[dict[int, _DelegatedModel], dict[int, str]]:
    """({node: a _DelegatedModel of it alone}, {node: why there is none})"""
    by_node: dict[int, _DelegatedModel] = {}
    left_out: dict[int, str] = {}
    for node in nodes:
        try:
            single = stack.enter_context(plain.of(_alone(plain.graph, plain.graph.operators[node])))
        except (PyliteError, RuntimeError, ValueError) as error:
            left_out[node] = str(error)
            continue
        if single.claims:
            by_node[node] = single
        else:
            left_out[node] = "the delegate takes it only together with others"
    return by_node, left_out


def _alone(graph: Subgraph, operator: Operator) -> Subgraph:
    """The graph of one node."""
    tensors = graph.tensors
    read = tuple(i for i in dict.fromkeys(operator.inputs)
                 if i >= 0 and tensors[i].data is None and not tensors[i].is_variable)
    if any(tensors[i].dtype not in COMPARABLE for i in read):
        raise ComparisonError("it reads a tensor that is not an array of numbers")
    return replace(graph, operators=(replace(operator, index=0),), inputs=read, outputs=tuple(operator.outputs))
