"""Measures what single nodes cost the outputs: each of a few noisy nodes in turn computes as the reference's does.

A node's own noise does not tell how it affects the outputs: logits may saturate, and their softmax stays the same.
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
NODES = 3       # nodes to try: those with the most noise, and as many with faults that the graphs show
ENOUGH_DB = 6.0     # a node that costs as much has three quarters of the noise, so the others need no trial


def regained(comparison: Comparison, report: Report, samples: Sequence[Sequence[Any]], threads: int
             ) -> dict[int, float]:
    """{node: decibels that the outputs gain if it alone computes as the reference's node does}, for a few nodes.

    Nodes whose noise is the fault of the tried node compute so together with it.  Empty if the model is good, if nodes
    by themselves were not measured, or if nothing can be tried.
    """
    if report.verdict["level"] not in (FAIR, POOR) or not (report.local_samples and worst_output(report)):
        return {}
    by_node = dict[int, float]()
    try:
        judge = Judge(comparison.reference, _outputs(comparison, report), samples, threads)
        mixture = Mixture(comparison.model, comparison.reference, faithful=True)
        measured = cache(lambda nodes: np.array(judge.each(mixture.of(nodes), mixture.places(nodes))))
        for node, tried, beside in _groups(comparison, report):
            gains = measured(tried) - measured(beside)
            if np.isfinite(gains).any():
                by_node[node] = float(gains[np.isfinite(gains)].max())
            if gains[0] >= ENOUGH_DB:
                break
    except (PyliteError, ValueError, RuntimeError):     # samples of other shapes, perhaps
        return {}
    return by_node


def _groups(comparison: Comparison, report: Report) -> Iterator[tuple[int, frozenset[int], frozenset[int]]]:
    """(node to try, all nodes that compute in real numbers with it, those among them whose noise is not its fault)

    If the range of the node's result is wrong, its readers belong to them: otherwise they would read the wrong range.
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
    """The nodes to try: suspicious ones if there are any, because a sound node that costs much is not to blame."""
    suspects = [n for n in noisy if report.suspicion(report.by_node(n)) >= SUSPICIOUS_DB] or noisy
    shown = [n for n in suspects if report.by_node(n).cause in SHOWN]
    return list(dict.fromkeys([*suspects[:NODES], *shown[:NODES]]))


def _readers(subgraph: Subgraph, node: int) -> set[int]:
    """The nodes that read a node's results, directly or through others that only move them."""
    readers = set[int]()
    for operator in subgraph.operators:
        if set(operator.inputs) & set(subgraph.operators[node].outputs) and operator.name not in CASTS and (
                not parts_of(operator)):
            readers |= {operator.index} | (_readers(subgraph, operator.index) if operator.name in MOVING else set())
    return readers


def _outputs(comparison: Comparison, report: Report) -> list[tuple[int, int]]:
    """[(tensor, its counterpart)]: the worst output; if it is good, also the tensor that a softmax there reads, since
    the few levels of the softmax hide errors."""
    producer = {i: o for o in comparison.subgraph.operators for i in o.outputs}
    worst, outputs = worst_output(report), list[int]()
    index = worst.tensor
    while index in comparison.measured:
        outputs.append(index)
        if worst.sqnr_db < GOOD_DB or producer[index].name not in (*FIXED_GRIDS, *CASTS):
            break
        index = producer[index].inputs[0]
    return [(i, comparison.matching.matches[i].reference) for i in outputs]
