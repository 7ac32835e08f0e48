"""The smallest set of nodes that a repaired model should run in float, after all other steps."""
from __future__ import annotations

import hashlib
import math
from functools import cache, partial
from typing import TYPE_CHECKING

from pylite.runtime.model import Model
from pylite.validation.mixture import Mixture
from pylite.validation.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pylite.ir.graph import Subgraph
    from pylite.validation.repair_steps import Repairer

    Nodes = frozenset[int]

LEAST_DB = 1.0          # least gain of each node in float, if there is no target
TRIED = 3               # candidates, those that gain most alone, that are tried before one is chosen
NAME = "nodes in float"


def keep_in_float(repairer: Repairer, reference: Model, target: float | None = None,
                  progress: Callable[[int, int], object] | None = None) -> tuple[Step, bytes, list[int]] | None:
    """(the step, the file with these nodes in float, the nodes) after a Repairer's other steps; None if no node helps.

    The set is the smallest one found that brings the SQNR of the fitted samples to `target`, in decibels; without a
    target, nodes are added while each gains LEAST_DB. It is kept only if the held-out samples gain, too.
    progress: called with the number of nodes and pairs of nodes tried, and of all.
    """
    contents = repairer.written()
    model = Model(contents)
    mixture = Mixture(model, reference)

    file = hashlib.sha256(contents).hexdigest()

    @cache
    def value(nodes: Nodes) -> float:
        return repairer.journal.number(f"float {sorted(nodes)} {file}",
                                     lambda: repairer.fit.measure(mixture.of(nodes), mixture.places(nodes)))
    parts = [frozenset({node}) for node in mixture.candidates]
    parts += _neighbours(model.graph.subgraphs[0], frozenset(mixture.candidates))
    for number, part in enumerate(parts):
        value(part)
        if progress is not None:
            progress(number + 1, len(parts))
    chosen = _smallest(value, parts, target)
    if not chosen:
        return None
    fitted = value(chosen) - value(frozenset())
    held = repairer.held.measure(mixture.of(chosen), mixture.places(chosen)) - repairer.held_value
    step = Step(NAME, len(chosen), held, fitted, False, ", ".join(map(str, sorted(chosen))))
    repairer.decide(step, partial(mixture.of, chosen))
    return step, mixture.written(chosen) if step.kept else contents, sorted(chosen) if step.kept else []


def _neighbours(graph: Subgraph, candidates: Nodes) -> list[Nodes]:
    """Pairs of nodes of which one reads the other's result: in float together, they need not round it."""
    producer = {i: o for o in graph.operators for i in o.outputs}
    found: dict[Nodes, None] = {}
    for operator in graph.operators:
        waiting = [i for i in operator.inputs if i in producer] if operator.index in candidates else []
        while waiting:
            other = producer[waiting.pop()]
            if other.index in candidates:
                found[frozenset({operator.index, other.index})] = None
            else:       # it only moves values
                waiting += [i for i in other.inputs if i in producer]
    return list(found)


def _smallest(value: Callable[[Nodes], float], parts: Sequence[Nodes], target: float | None) -> Nodes:
    """A small set of nodes that reaches the target, or the best found; without one, each gains LEAST_DB."""
    least, wanted = (LEAST_DB, math.inf) if target is None else (0.0, target)
    none: Nodes = frozenset()
    able = [part for part in parts if value(part) > -math.inf]
    order = sorted(able, key=lambda part: (-(value(part) - value(none)) / len(part), sorted(part)))
    found = none
    while value(found) < wanted:
        larger = [found | part for part in [part for part in order if not part <= found][:TRIED]]
        best = max(larger, key=lambda nodes: (value(nodes) - value(found)) / len(nodes - found), default=found)
        if best == found or value(best) < value(found) + least * len(best - found):
            break
        found = best
    for node in sorted(found, key=lambda node: value(frozenset({node}))):
        if value(found - {node}) >= min(wanted, value(found) - least):
            found -= {node}
    return found
