"""Subgraphs that nodes call, compared as models of their own on the inputs of the reference's calls.

Both sides of a called subgraph begin with the reference's activations, so errors do not add up from one iteration of a
loop to the next; errors of the calling node do.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.ir.graph import replace
from pylite.ir.registry import default
from pylite.runtime import subgraph_calls
from pylite.runtime.executor import Executor
from pylite.runtime.model import Model
from pylite.validation.feeding import exposed, feed
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.simd import Pool
    from pylite.ir.graph import Operator
    from pylite.validation.matching import Matching

    Arrays = Sequence[NDArray[Any]]
    Comparison = Any        # it imports this module

DEEPEST = 4     # levels of nested calls that are followed: their number multiplies with each level
BASE = 16       # calls of a sample that are measured between one power of BASE and the next; see _chosen()


class SubgraphCall:
    """A subgraph that a node calls, such as the body of a loop, compared with the reference's.

    node: the model's Operator; part: the name that parts_of() gives to the subgraph
    subgraphs: its index in the model and in the reference; comparison: the Comparison of the two, or None
    reason: why there is no Comparison; "" if there is nothing to compare
    same_grids: do the caller's tensors have the grids of the subgraph's?  If not, the call changes values, because it
    copies integers as they are.
    """

    def __init__(self, node: Operator, part: str, subgraphs: tuple[int, int]) -> None:
        self.node, self.part, self.subgraphs = node, part, subgraphs
        self.comparison: Comparison | None = None
        self.reason = ""
        self.same_grids = True

    @property
    def name(self) -> str:
        """Unique among the calls of a graph."""
        return f"{self.node.index}.{self.part.replace(' ', '_')}"


class SubgraphCalls:
    """The SubgraphCalls of a graph's nodes, ready to take samples.

    depth: number of calls between the main subgraph and this one; compared(model, reference): makes the Comparison of
    two Models whose main subgraphs are the called ones.
    """

    def __init__(self, model: Model, reference: Model, matching: Matching, pool: Pool, depth: int,
                 compared: Callable[[Model, Model], Comparison]) -> None:
        self._reference, self._pool = reference, pool
        self._executors: dict[int, Executor] = {}
        self._nodes: list[tuple[Operator, list[SubgraphCall]]] = []     # the reference's nodes
        for mine, theirs in _pairs(model, reference, matching):
            others = dict(parts_of(theirs))
            self._nodes.append((theirs, [
                _call(model, mine, part, called, reference, others[part], compared if depth < DEEPEST else None)
                for part, called in parts_of(mine) if part in others]))
        self._exposed: Executor | None = None
        if any(call.comparison is not None for call in self):
            wanted = [i for node, _ in self._nodes for i in node.inputs if i >= 0]
            self._exposed = exposed(reference, reference.graph.subgraphs[0], wanted, pool)

    def __iter__(self) -> Iterator[SubgraphCall]:
        return (call for _, parts in self._nodes for call in parts)

    def add(self, inputs: Arrays, local: bool, origins: bool) -> None:
        """Measure the calls that the reference makes for a sample."""
        if self._exposed is None:
            return
        feed(self._exposed, inputs)
        self._exposed.invoke()
        for node, parts in self._nodes:
            arrays = [self._exposed.array(i).copy() for i in node.inputs]
            known, counts = {call.part: call for call in parts}, dict.fromkeys([call.part for call in parts], 0)
            for part, given in self._calls(node, arrays):
                call = known.get(part)
                if call is not None:
                    if call.comparison is not None and _chosen(counts[part]):
                        self._measure(call, given, local, origins)
                    counts[part] += 1

    @staticmethod
    def _measure(call: SubgraphCall, arrays: Arrays, local: bool, origins: bool) -> None:
        assert call.comparison is not None
        try:
            call.comparison.add(arrays, local, origins)
        except ComparisonError as error:
            call.comparison, call.reason = None, str(error)

    def _calls(self, node: Operator, arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
        """(the part, its inputs) of all calls that a node of the reference makes for these inputs."""
        parts = dict(parts_of(node))
        if node.name != "WHILE":
            yield from _branch(node, list(parts), arrays)
            return
        while True:
            yield "condition", arrays
            if not self._run(parts["condition"], arrays)[0].any():
                return
            yield "body", arrays
            arrays = self._run(parts["body"], arrays)

    def _run(self, subgraph: int, arrays: Arrays) -> Arrays:
        executor = self._executors.get(subgraph)
        if executor is None:
            executor = self._executors[subgraph] = Executor(
                self._reference, self._reference.graph.subgraphs[subgraph], self._pool)
            executor.cache.capacity = subgraph_calls.CACHED_CALLS
        return subgraph_calls.call(executor, arrays)

    def sums(self) -> dict[str, Any]:
        """Copies of all sums by name."""
        return {f"{call.name}/{name}": sums for call in self if call.comparison is not None
                for name, sums in call.comparison.sums().items()}

    def take(self, sums: Mapping[str, Any]) -> dict[str, Any]:
        """Put the calls' sums in place of these; returns the others."""
        others: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, total in sums.items():
            place, _, inner = name.partition("/")
            if inner:
                parts.setdefault(place, {})[inner] = total
            else:
                others[name] = total
        for call in self:
            if call.comparison is not None and call.name in parts:
                mine = parts[call.name]
                call.comparison.take(mine, max(getattr(s, "samples", 0) for s in mine.values()))
        return others

    def clear(self) -> None:
        """Start over, with sums of no samples."""
        for call in self:
            if call.comparison is not None:
                call.comparison.clear()


def parts_of(node: Operator) -> list[tuple[str, int]]:
    """[(part, index of its subgraph)] of a node that calls."""
    options: Any = node.options
    if node.name == "WHILE":
        return [("condition", options.cond_subgraph_index), ("body", options.body_subgraph_index)]
    if node.name == "IF":
        return [("then", options.then_subgraph_index), ("else", options.else_subgraph_index)]
    if node.name == "STABLEHLO_CASE":
        return [(f"branch {i}", called) for i, called in enumerate(options.branch_subgraph_indices)]
    if node.name == "STABLEHLO_COMPOSITE":
        return [("decomposition", options.decomposition_subgraph_index)]
    return []


def _branch(node: Operator, parts: Sequence[str], arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
    """The only call of a node that takes a branch."""
    if node.name == "STABLEHLO_COMPOSITE":
        yield parts[0], arrays
        return
    from pylite.ops.conditional import taken
    yield parts[taken(arrays[0], arrays[0], len(parts))], arrays[1:]


def _call(model: Model, node: Operator, part: str, called: int, reference: Model, theirs: int,
          compared: Callable[[Model, Model], Comparison] | None) -> SubgraphCall:
    """The SubgraphCall of a part; called, theirs: indices of the model's subgraph and of the reference's."""
    call = SubgraphCall(node, part, (called, theirs))
    call.same_grids = _have_same_grids(model, node, called, part != "condition")
    if compared is None:
        call.reason = f"{DEEPEST} calls lead to it, and more are not followed"
        return call
    if _has_state(reference, theirs):
        call.reason = "it keeps variables"
        return call
    try:
        comparison = compared(_entered(model, called), _entered(reference, theirs))
    except ComparisonError as error:
        call.reason = str(error)
        return call
    if comparison.measured:
        call.comparison = comparison
    elif comparison.matching.unmatched:     # others compute integers, as the condition of a loop does
        call.reason = "no tensor of it has a counterpart in the reference"
    return call


def _have_same_grids(model: Model, node: Operator, called: int, results: bool) -> bool:
    """Do a call's operands have the grids of the subgraph's inputs?  results: and its results those of the outputs?"""
    own, inner = model.graph.subgraphs[0].tensors, model.graph.subgraphs[called]
    given = node.inputs[len(node.inputs) - len(inner.inputs):]      # the first of IF says which branch it takes
    pairs = [*zip(given, inner.inputs, strict=False),
             *(zip(node.outputs, inner.outputs, strict=False) if results else ())]
    grids = [[Grid.of(own[i]), Grid.of(inner.tensors[j])] for i, j in pairs if i >= 0]
    return all(a is None or b is None or (a.dtype, a.scale, a.zero_point) == (b.dtype, b.scale, b.zero_point)
               for a, b in grids)


def _pairs(model: Model, reference: Model, matching: Matching) -> list[tuple[Operator, Operator]]:
    """(node of the model, its counterpart in the reference), of nodes that call: by their results, else by order."""
    ours, theirs = (list(filter(parts_of, m.graph.subgraphs[0].operators)) for m in (model, reference))
    counterparts = _by_results(ours, theirs, matching)
    taken = {other.index for other in counterparts.values()}
    rest, left = [o for o in ours if o.index not in counterparts], [o for o in theirs if o.index not in taken]
    if len(rest) == len(left):
        counterparts |= {node.index: other for node, other in zip(rest, left, strict=True)}
    return [(node, counterparts[node.index]) for node in ours
            if node.index in counterparts and counterparts[node.index].name == node.name]


def _by_results(ours: Sequence[Operator], theirs: Sequence[Operator], matching: Matching) -> dict[int, Operator]:
    """{index of a node of `ours`: the one of `theirs` with a result that matches}"""
    producer = {i: o for o in theirs for i in o.outputs}
    counterparts: dict[int, Operator] = {}
    for node in ours:
        for match in filter(None, map(matching.matches.get, node.outputs)):
            if match.reference in producer:
                counterparts[node.index] = producer[match.reference]
    return counterparts


def _has_state(model: Model, subgraph: int) -> bool:
    """Would running the subgraph, or one that it calls, a second time give other results?"""
    graph = model.graph.subgraphs[subgraph]
    for operator in graph.operators:
        op, called = default.find(operator), parts_of(operator)
        if any(_has_state(model, i) for _, i in called) or (not called and (op is None or op.stateful)):
            return True
    return any(t.is_variable for t in graph.tensors)


def _entered(model: Model, subgraph: int) -> Model:
    """The model with a called subgraph as its main one; the others keep their places, which calls name."""
    graphs = model.graph.subgraphs
    entered = Model(model.graph.contents, _graph=replace(
        model.graph, subgraphs=(replace(graphs[subgraph], index=0), *graphs[1:])))
    entered.half = model.half
    return entered


def _chosen(number: int) -> bool:
    """Is the call with this number in a sample measured?  The first 16, every 16th up to 256, and so on."""
    step = 1
    while number >= step * BASE:
        step *= BASE
    return number % step == 0
