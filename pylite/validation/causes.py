"""The cause of a node's own error in plain words, and its remedy."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.ranking import FIXED_GRIDS
from pylite.validation.weights import GAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.measures import Errors
    from pylite.validation.statistics import Grid
    from pylite.validation.weights import ComparedWeights

NOTABLE_DB = 3.0        # least excess for which a cause is sought: twice the expected noise
SUSPICIOUS_DB = 6.0     # least excess of a diverging node: four times the expected noise
COARSE_DB = 20.0        # a node whose grid is fixed is called coarse if its local SQNR is below
MOST = 0.6              # a fault in at least this share of the channels is a fault of the whole layer
BESIDE_DB = 10.0        # unused levels are not the cause if other noise exceeds theirs by more
USED = 0.75             # levels are wasted if less than this share of the range is used
OPERANDS = 30           # a concatenation's operand loses 5 bits if another one is this many times as large
SPREAD = 100            # one scale does not suit channels if the largest weights are this many times the smallest

@dataclass(frozen=True)
class Cause:
    """name: one of NAMES; detail: the numbers behind it; remedy: what to do."""
    name: str
    detail: str
    remedy: str


REMEDIES = {
    "weight scale": "Convert the model again; if it was edited, compare its weight scales with the float weights.",
    "channel scale": "Convert the model again with per-channel scales taken from the float weights.",
    "bias": "Quantize the bias again: its scale must be the input's scale times that of the weights.",
    "bias scale": "Quantize the bias again: kernels take the input's scale times that of the weights, not the file's.",
    "bias overflow": "Widen the range of the input or of the weights: their product is the step of the bias.",
    "zero point": "Calibrate the result again: its range is wide enough, but the values lie outside it.",
    "range too narrow": "Calibrate with data that resemble these, or with more of them.",
    "range too wide": "Calibrate without outliers (percentiles, moving averages): the levels of unused range are lost.",
    "one scale for all channels": "Convert with per-channel quantization, or equalize the weights across layers.",
    "one scale for all operands": "Split the output, or normalize its parts to similar ranges before they are "
                                  "concatenated, such as boxes to 0 to 1 for scores; calibrating cannot help.",
    "coarse rule": "Keep this node in float: its integer rule fixes the step of the result.",
    "wrong constant": "Convert the model again. Rounding moves a number by no more than half a step: the file is "
                      "damaged, or these numbers are another layer's.",
    "wrong option": "Convert the model again, with this option as the reference has it.",
    "wrong operand": "Let the node read what the reference's reads: an edit or a converter exchanged tensors.",
    "scales differ": "Give operand and result one scale and zero point: this op copies integers as they are.",
    "weights too coarse": "Use more bits or smaller blocks for these weights, or keep the node in float.",
}
CALLED = "called subgraph"      # the noise is that of a node of a subgraph that this one calls
NAMES = (*REMEDIES, CALLED, "unknown")
RANGES = "range too narrow", "range too wide", "zero point", "scales differ"    # they concern the result's readers, too
STALE = "bias scale", "scales differ"       # causes in a node that expects another scale of its input
# Causes that the two graphs show, without running them
SHOWN = ("weight scale", "channel scale", "bias", "bias scale", "bias overflow", "wrong constant", "wrong option",
         "wrong operand", "scales differ")


def find(op: str, errors: Errors, grid: Grid, weights: ComparedWeights | None, excess: float,
         operands: Mapping[str, float], differences: Iterator[tuple[str, str]]) -> Cause | None:
    """The Cause of a node's local error, or None if rounding alone explains the error.

    grid: of the node's result; excess: its noise over that of a good quantization, in dB
    operands: {name: largest magnitude} of the operands that a CONCATENATION joins under one scale
    differences: (name, detail) of Causes that the graphs show, the surest first
    """
    joined = _joined(grid, operands)
    if joined is not None:
        return joined
    if excess < NOTABLE_DB:
        return _by_nature(op, errors, grid, weights)
    scaled = _weights(errors, grid, weights)
    if scaled is not None:
        return scaled
    for name, detail in differences:
        return _cause(name, detail)
    for rule in (_bias, _silent, _range):
        cause = rule(errors, grid, weights)
        if cause is not None and not (cause.name == "range too wide" and excess > _wasted(errors, grid) + BESIDE_DB):
            return cause
    natural = _by_nature(op, errors, grid, weights)
    if natural is not None:
        return natural
    if weights is not None and float(np.median(weights.sqnr_db)) < COARSE_DB:
        return _cause("weights too coarse", f"the weights' SQNR is {np.median(weights.sqnr_db):.0f} dB")
    if excess < SUSPICIOUS_DB:
        return None
    return Cause("unknown", f"{excess:.1f} dB more noise than rounding makes",
                 "Its constants, options and operands could not be told from the reference's: compare its version and "
                 "custom options, or keep it in float.")


def _cause(name: str, detail: str) -> Cause:
    return Cause(name, detail, REMEDIES[name])


def _joined(grid: Grid, operands: Mapping[str, float]) -> Cause | None:
    """Operands of very different magnitudes under one scale."""
    used = {name: magnitude for name, magnitude in operands.items() if magnitude > 0}
    if not grid.step or len(used) < 2:
        return None
    least, most = min(used, key=used.__getitem__), max(used, key=used.__getitem__)
    if used[most] < OPERANDS * used[least]:
        return None
    return _cause("one scale for all operands", f"{most!r} reaches {used[most]:.4g}, and {least!r} {used[least]:.4g}, "
                                                f"which has {used[least] / grid.step:.0f} steps")


def _weights(errors: Errors, grid: Grid, weights: ComparedWeights | None) -> Cause | None:
    """Weights that are a multiple of the reference's, in all channels or in some."""
    if weights is None:
        return None
    off = weights.scaled & (np.maximum(weights.gain, 1 / np.maximum(weights.gain, 1e-9)) > GAIN)
    if not off.any():
        return None
    if off.sum() >= MOST * weights.scaled.sum():
        return _cause("weight scale", f"the weights are {np.median(weights.gain[off]):.3g} times the reference's")
    worst = int(np.argmax(np.where(off, np.abs(np.log(np.maximum(weights.gain, 1e-9))), -1)))
    if off.sum() == 1:
        return _cause("channel scale", f"the weights of channel {worst} are {weights.gain[worst]:.3g} times the "
                                       "reference's")
    return _cause("channel scale", f"the weights of {_channels(off)} differ from the reference's; those of channel "
                                   f"{worst} are {weights.gain[worst]:.3g} times as large")


def _bias(errors: Errors, grid: Grid, weights: ComparedWeights | None) -> Cause | None:
    if weights is None or weights.bias is None or weights.reference_bias is None or (
            weights.bias.shape != weights.reference_bias.shape):
        return None
    difference = np.abs(weights.bias - weights.reference_bias)
    allowed = np.maximum(grid.step / 2, 0.02 * np.abs(weights.reference_bias).max(initial=0))
    if not (difference > allowed).any():
        return None
    worst = int(difference.argmax())
    if weights.bias_ends[worst]:
        return _cause("bias overflow", f"the bias of channel {worst} has saturated at the limit of its type")
    return _cause("bias", f"the bias of channel {worst} is {weights.bias[worst]:.4g}, and the reference's "
                          f"{weights.reference_bias[worst]:.4g}")


def _silent(errors: Errors, grid: Grid, weights: ComparedWeights | None) -> Cause | None:
    """A reference that is 0 throughout, which says nothing about the range."""
    if errors.signal.any():
        return None
    return Cause("unknown", "the reference is 0 throughout, and the model's values are not",
                 "Look at the reference first: with these samples it computes nothing here, or its file holds nothing.")


def _range(errors: Errors, grid: Grid, weights: ComparedWeights | None) -> Cause | None:
    """A range that the values exceed, or that they do not fill."""
    if not grid.step:
        return None
    low, high = errors.needed()
    missing = max(0.0, grid.lowest - low, 0.0) + max(0.0, high - grid.highest)
    lost = errors.mean(errors.low) + errors.mean(errors.high)
    ends = f"{low:.4g} to {high:.4g} needed, {grid.lowest:.4g} to {grid.highest:.4g} represented"
    if missing > 2 * grid.step and lost > 0:
        if high - low <= 1.05 * (grid.highest - grid.lowest):
            return _cause("zero point", f"{lost:.2%} of the values saturate although the range is wide enough: {ends}")
        return _cause("range too narrow", f"{lost:.2%} of the values saturate: {ends}")
    if errors.range_used(grid) < USED:
        return _cause("range too wide", f"{errors.range_used(grid):.0%} of the range is used: {ends}")
    return None


def _wasted(errors: Errors, grid: Grid) -> float:
    """The noise that unused levels add, in decibels."""
    return -20 * math.log10(max(errors.range_used(grid), 1e-9))


def _by_nature(op: str, errors: Errors, grid: Grid, weights: ComparedWeights | None) -> Cause | None:
    """Errors inherent in the scheme of this model's quantization."""
    if weights is not None and weights.scales == 1 and weights.spread > SPREAD:
        return _cause("one scale for all channels",
                      f"the largest channel of the weights is {weights.spread:.0f} times the smallest")
    if op in FIXED_GRIDS and grid.step and errors.sqnr_db < COARSE_DB:
        return _cause("coarse rule", f"{op} has a step of {grid.step:.3g} by rule, and the SQNR is "
                                     f"{errors.sqnr_db:.0f} dB")
    return None


def _channels(chosen: NDArray[Any]) -> str:
    indices = np.flatnonzero(chosen).tolist()
    if len(indices) == 1:
        return f"channel {indices[0]}"
    return f"{len(indices)} channels ({', '.join(map(str, indices[:5]))}{', ...' if len(indices) > 5 else ''})"
