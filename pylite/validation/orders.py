"""Two orders of nodes, by the noise that they add and by the gain in float, and why they differ."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.validation.analysis import analyse
from pylite.validation.causes import NOTABLE_DB
from pylite.validation.comparison import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from pylite.runtime.model import Model
    from pylite.validation.report import Report

KEPT = "wrong option", "wrong operand"      # causes that a node in float has as well


def noise(model: Model, reference: Model, samples: Iterable[Sequence[Any]], threads: int) -> Report:
    """The Report on the noise of each node by itself, for its ranking."""
    comparison = Comparison(model, reference, threads)
    for arrays in samples:
        comparison.add(arrays, True)
    return analyse(comparison)


def explained(report: Report, ranking: Sequence[Any], form: Callable[[float], str]) -> str:
    """Sentences: is the first of `ranking`, sensitivity's Nodes, also the first by its own noise; if not, why.

    form: formats the gain of a node.
    """
    if not report.ranking or not ranking:
        return ""
    first, most = report.by_node(report.ranking[0]), ranking[0]
    if most.regained <= 0 or form(most.regained) == form(0.0):
        if first.cause in KEPT:
            return (f"No single node regains anything: node {first.node} ({first.op}) keeps its fault in float: "
                    f"{first.cause}, {first.detail}.")
        return ("No single node regains anything: the error comes from the inputs, the weights or the output's own "
                "scale.")
    if first.node in most.nodes:
        return f"By the noise that it adds itself, node {first.node} ({first.op}) is the first, too."
    regained = next((row.regained for row in ranking if first.node in row.nodes), None)
    begin = (f"By the noise that it adds itself, node {first.node} ({first.op}) is the first, "
             f"{first.excess_db:.1f} dB above that of a good quantization, and not node {most.node}")
    if regained is None:
        return f"{begin}: it was not tried in float."
    if max((report.by_node(node).excess_db or 0.0 for node in most.nodes if node in report.ranking),
           default=0.0) < NOTABLE_DB:
        return (f"{begin}: in float it regains {form(regained)}. Node {most.node} adds no more noise than its scheme "
                "makes, but that noise is not damped on its way to the outputs, so only more bits help.")
    return (f"{begin}: in float it regains {form(regained)}, because later nodes damp its noise more than that of node "
            f"{most.node}.")
