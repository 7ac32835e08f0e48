"""Ranks nodes by how much worse they are than rounding alone would make them.

A node's local error is compared with the one that a good quantization of the same node would have: rounding to as many
levels over just the range that the reference takes, and weights rounded to as many.  So a node with few levels to
spare by nature, such as a softmax, ranks behind a node whose range is eight times too wide, though its SQNR is lower.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.measures import TINY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.measures import Errors
    from pylite.validation.statistics import Grid
    from pylite.validation.weights import ComparedWeights

FLOOR_DB = -60.0    # the excess of a node without noise
MOST = 1e20         # the largest ratio of noise to expected noise
PRIOR = 30          # ideal values that are added to each channel; see excess_db()
# Ops whose integer rule fixes the grid of the result, or makes it the operand's: no other could have been chosen.
FIXED_GRIDS = ("SOFTMAX", "LOGISTIC", "TANH", "LOG_SOFTMAX", "L2_NORMALIZATION")
SHARED_GRIDS = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR")


def causes_first(order: Sequence[int], blamed: Callable[[int], Sequence[int]]) -> list[int]:
    """The nodes in this order, except that each follows the nodes to blame for its noise, directly or indirectly.

    blamed(node): the nodes to blame for the noise of `node`.
    """
    placed: dict[int, None] = {}

    def place(node: int) -> None:
        if node not in placed:
            for other in blamed(node):
                place(other)
            placed[node] = None
    for node in order:
        place(node)
    return list(placed)


def excess_db(op: str, errors: Errors, grid: Grid, weights: ComparedWeights | None, data_power: float,
              inherited: float = 0.0) -> float:
    """The node's noise over its expected noise, in decibels; FLOOR_DB if there is no noise.

    The ratios of the channels are averaged as root mean squares, so that one bad channel in a hundred still counts.
    PRIOR ideal values are added to each channel, so that one bad value does not count.
    data_power: the mean square of the activations that the weights multiply; inherited: noise over signal of the
    node's operands, if both models run from their inputs.
    """
    if not errors.count.sum() or not errors.noise.max(initial=0) > 0:
        return FLOOR_DB
    expected = expected_noise(op, errors, grid, weights, data_power) + inherited * errors.mean(errors.signal)
    expected = np.maximum(expected, TINY)
    ratios = (errors.noise / expected * errors.count + PRIOR) / (errors.count + PRIOR)
    ratios = np.minimum(ratios, MOST)       # its square is finite, and so is the result
    return max(FLOOR_DB, float(5 * np.log10(max(np.mean(ratios * ratios), TINY))))


def expected_noise(op: str, errors: Errors, grid: Grid, weights: ComparedWeights | None,
                   data_power: float) -> NDArray[Any]:
    """The mean squared error of a good quantization of the node, by channel."""
    ideal = grid.step * grid.step / 12 if op in FIXED_GRIDS + SHARED_GRIDS and grid.step else errors.ideal_noise(grid)
    noise = np.full(errors.noise.shape, ideal)
    if weights is None or weights.noise.size != noise.size:
        return noise
    return noise + weights.noise * weights.fan_in * data_power
