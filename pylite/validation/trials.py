"""What single nodes cost the outputs: the few with the most noise of their own compute as the reference does, in turn.

A node's own noise says nothing of what later nodes make of it: logits may saturate, and their softmax stays the same.
"""
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import PyliteError
from pylite.validation.analysis import blamed
from pylite.validation.called import parts_of
from pylite.validation.causes import NOTABLE_DB, RANGES, SHOWN, SUSPICIOUS_DB
from pylite.validation.differences import MOVING
from pylite.validation.judging import Judge
from pylite.validation.matching import CASTS
from pylite.validation.mixture import Mixture
from pylite.validation.ranking import FIXED_GRIDS
from pylite.validation.verdict import FAIR, GOOD_DB, POOR, worst_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from pylite.ir.graph import Subgraph
    from pylite.validation.comparison import Comparison
    from pylite.validation.report import Report

SAMPLES = 8
NODES = 3       # with the most noise, and as many with faults that the graphs show
ENOUGH_DB = 6.0     # three quarters of the noise: then no other node can have as much


def regained(comparison: Comparison, report: Report, samples: Sequence[Sequence[Any]], threads: int
             ) -> dict[int, float]:
    """{node: decibels that the outputs gain if it alone computes as the reference's node does}, of a few nodes.

    Those whose noise is the fault of such a node compute so together with it.  Empty where the model is good, nodes by
    themselves were not measured, or nothing can be tried.
    """
    if report.verdict["level"] not in (FAIR, POOR) or not (report.local_samples and worst_output(report)):
        return {}
    found = dict[int, float]()
    try:
        judge = Judge(comparison.reference, _outputs(comparison, report), samples, threads)
        mixture = Mixture(comparison.model, comparison.reference, faithful=True)
        measured = cache(lambda nodes: np.array(judge.each(mixture.of(nodes), mixture.places(nodes))))
        for node, tried, beside in _groups(comparison, report):
            gains = measured(tried) - measured(beside)
            if np.isfinite(gains).any():
                found[node] = float(gains[np.isfinite(gains)].max())
            if gains[0] >= ENOUGH_DB:
                break
    except (PyliteError, ValueError, RuntimeError):     # samples of other shapes, perhaps
        return {}
    return found


def _groups(comparison: Comparison, report: Report) -> Iterator[tuple[int, frozenset[int], frozenset[int]]]:
    """(node to try, it and those that go with it, those of them whose noise is not its fault)

    A result whose range is wrong is right only where its readers take it as real numbers.
    """
    noisy = [n for n in report.ranking if report.suspicion(report.by_node(n)) >= NOTABLE_DB
             and not parts_of(comparison.subgraph.operators[n])]
    faults = {n: set(blamed(comparison, report, n)) for n in noisy}
    chosen = _chosen(report, noisy)
    for node in chosen:
        if not faults[node] & set(chosen):
            group = frozenset([node, *(n for n in noisy if node in faults[n])])
            read = _readers(comparison.subgraph, node) - group if report.by_node(node).cause in RANGES else set()
            yield node, group | read, frozenset(read if read & set(noisy) else ())


def _chosen(report: Report, noisy: list[int]) -> list[int]:
    """The nodes to try.  What sound nodes cost is no reason to blame them instead of one that is at fault."""
    suspects = [n for n in noisy if report.suspicion(report.by_node(n)) >= SUSPICIOUS_DB] or noisy
    shown = [n for n in suspects if report.by_node(n).cause in SHOWN]
    return list(dict.fromkeys([*suspects[:NODES], *shown[:NODES]]))


def _readers(subgraph: Subgraph, node: int) -> set[int]:
    """The nodes that read a node's results, directly or behind others that only move them."""
    found = set[int]()
    for operator in subgraph.operators:
        if set(operator.inputs) & set(subgraph.operators[node].outputs) and operator.name not in CASTS and (
                not parts_of(operator)):
            found |= {operator.index} | (_readers(subgraph, operator.index) if operator.name in MOVING else set())
    return found


def _outputs(comparison: Comparison, report: Report) -> list[tuple[int, int]]:
    """The tensor of the worst output, and the reference's; if it is good, also what a softmax there reads, whose few
    levels hide errors."""
    producer = {i: o for o in comparison.subgraph.operators for i in o.outputs}
    worst, found = worst_output(report), list[int]()
    index = worst.tensor
    while index in comparison.measured:
        found.append(index)
        if worst.sqnr_db < GOOD_DB or producer[index].name not in (*FIXED_GRIDS, *CASTS):
            break
        index = producer[index].inputs[0]
    return [(i, comparison.matching.matches[i].reference) for i in found]
