"""Searches for a small set of nodes that should run in float."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Nodes = frozenset[int]

TRIED = 3       # candidates of each order that are tried before one is chosen


def small_set(value: Callable[[Nodes], float], orders: Sequence[Sequence[Nodes]], target: float = math.inf,
              least_gain: float = -math.inf) -> Nodes:
    """A small set of nodes whose value reaches the target, or the best set found.

    Candidates join the set one after the other, the one that gains most for each of its nodes first; then nodes that
    the value does not need leave it.

    value(nodes): the quality of the model with these nodes in float, the higher the better
    orders: the candidates, each a set of nodes, in one or several orders, the most promising first
    least_gain: stop if no candidate gains as much for each of its nodes; by default, all candidates may join
    """
    chosen: Nodes = frozenset()

    def gain(nodes: Nodes) -> float:
        return (value(nodes) - value(chosen)) / len(nodes - chosen)
    while value(chosen) < target:
        larger = {chosen | part for order in orders for part in [part for part in order if not part <= chosen][:TRIED]}
        best = max(sorted(larger, key=sorted), key=gain, default=chosen)
        if best == chosen or value(best) < value(chosen) + least_gain * len(best - chosen):
            break
        chosen = best
    for node in sorted(chosen, key=lambda node: (value(frozenset({node})), -node)):
        if value(chosen - {node}) >= min(target, value(chosen) - max(least_gain, 0.0)):
            chosen -= {node}
    return chosen
