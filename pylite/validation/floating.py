"""The last step of a repair: a small set of nodes runs in float."""
from __future__ import annotations

import hashlib
import math
from functools import cache, partial
from typing import TYPE_CHECKING

from pylite.runtime.model import Model
from pylite.validation.mixture import Mixture
from pylite.validation.node_search import small_set
from pylite.validation.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from pylite.ir.graph import Subgraph
    from pylite.validation.repairer import Repairer

    Nodes = frozenset[int]

LEAST_DB = 1.0          # least gain of each node in float, if there is no target
NAME = "nodes in float"


def keep_in_float(repairer: Repairer, reference: Model, target: float | None = None,
                  progress: Callable[[int, int], object] | None = None) -> tuple[Step, bytes, list[int]] | None:
    """(the step, the file with these nodes in float, the nodes) after a Repairer's other steps; None if no node helps.

    The set is a small one that brings the SQNR of the fitted samples to `target`, in decibels; without a target, each
    of its nodes gains LEAST_DB.  It is kept only if the held-out samples gain, too.
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
    quantized = value(frozenset())
    order = sorted((part for part in parts if value(part) > -math.inf),
                   key=lambda part: (-(value(part) - quantized) / len(part), sorted(part)))
    chosen = (small_set(value, [order], least_gain=LEAST_DB) if target is None
              else small_set(value, [order], target, least_gain=0.0))
    if not chosen:
        return None
    fitted = value(chosen) - quantized
    held = repairer.held.measure(mixture.of(chosen), mixture.places(chosen)) - repairer.held_db
    step = Step(NAME, len(chosen), held, fitted, False, ", ".join(map(str, sorted(chosen))))
    repairer.decide(step, partial(mixture.of, chosen))
    return step, mixture.written(chosen) if step.kept else contents, sorted(chosen) if step.kept else []


def _neighbours(graph: Subgraph, candidates: Nodes) -> list[Nodes]:
    """Pairs of nodes of which one reads the other's result: in float together, they need not round it."""
    producer = {i: o for o in graph.operators for i in o.outputs}
    pairs: dict[Nodes, None] = {}
    for operator in graph.operators:
        waiting = [i for i in operator.inputs if i in producer] if operator.index in candidates else []
        while waiting:
            other = producer[waiting.pop()]
            if other.index in candidates:
                pairs[frozenset({operator.index, other.index})] = None
            else:       # it only moves values
                waiting += [i for i in other.inputs if i in producer]
    return list(pairs)
