"""The blocks of a graph: the nodes between a tensor that several nodes read and the node where these paths meet again.

A residual block is one, and so are an attention block with its skip connection and the gate of squeeze and excitation.
Nodes of a plain chain form no block.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pylite.ir.graph import Subgraph

LARGEST = 32        # most candidates in a block: larger blocks, such as a whole U-Net, say little


def blocks(subgraph: Subgraph, candidates: Collection[int]) -> list[tuple[int, ...]]:
    """The candidates (nodes) in disjoint groups: the largest blocks, and each remaining node as its own group."""
    regions: list[tuple[int, ...]] = []
    taken: set[int] = set()
    inside = [tuple(n for n in nodes if n in candidates) for nodes in _regions(subgraph)]
    for nodes in sorted(set(inside), key=lambda nodes: (-len(nodes), nodes)):
        if 1 < len(nodes) <= LARGEST and taken.isdisjoint(nodes):
            regions.append(nodes)
            taken.update(nodes)
    return sorted(regions + [(n,) for n in candidates if n not in taken])


def _regions(subgraph: Subgraph) -> list[list[int]]:
    """The nodes after each tensor that several nodes read, up to the one through which all their results pass."""
    end = len(subgraph.operators)
    readers: dict[int, set[int]] = {}
    for operator in subgraph.operators:
        for index in operator.inputs:
            readers.setdefault(index, set()).add(operator.index)
    for index in subgraph.outputs:
        readers.setdefault(index, set()).add(end)
    heads = [set[int]().union(*(readers.get(i, ()) for i in o.outputs)) or {end} for o in subgraph.operators]
    meeting = [end] * (end + 1)     # of each node: the next one through which all its results pass

    def meet(nodes: set[int]) -> int:
        waiting = set(nodes)
        while len(waiting) > 1:
            waiting.add(meeting[min(waiting)])
            waiting.remove(min(waiting))
        return waiting.pop()

    for node in reversed(range(end)):
        meeting[node] = meet(heads[node])
    regions = []
    for first in (*heads, *(readers.get(i, set()) for i in subgraph.inputs)):
        if len(first) > 1 and meet(first) != end:
            regions.append(_between(first, meet(first), heads))
    return regions


def _between(first: set[int], last: int, heads: list[set[int]]) -> list[int]:
    """The nodes from these on, up to `last`."""
    inside: set[int] = {last}
    waiting = list(first)
    while waiting:
        node = waiting.pop()
        if node not in inside:
            inside.add(node)
            waiting += heads[node]
    return sorted(inside)
