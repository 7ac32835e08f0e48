"""The steps that repair a quantized model, in their order: each proposes changes, of which a Repairer keeps the best.

A step is a function that takes the Repairer and yields Proposals.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.validation import weight_rounding
from pylite.validation.calibration import METHODS
from pylite.validation.equalizing import Equalizer, agree
from pylite.validation.ranges import Ranges
from pylite.validation.requantizing import Changes, RealWeights
from pylite.validation.statistics import Grid
from pylite.validation.steps import EQUALIZED, MIN_GAIN_DB, Proposal
from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.repairer import Repairer

    Array = NDArray[Any]

BADLY_ROUNDED = 1.2     # weights are replaced if their squared error exceeds that of good rounding by this factor
BIAS_TOLERANCE = 0.01   # relative difference of a bias that its own rounding explains
FAULTY = 1.5, 4.0, 16.0     # limits to try: a range is replaced if its noise exceeds the least possible by this factor
NOTABLE = 0.95          # a range is tried on its own only if it leaves less than this share of the tensor's noise
EQUALIZED_BY = "min / max"      # the method for ranges of equalized activations, until the next step chooses another
MOST_PARTS = 8          # parts into which groups of channels are divided at most: trying one runs all samples
CHECKED = 2             # samples on which a float model with scaled channels must compute what the reference does


def from_float(repairer: Repairer) -> Iterator[Proposal]:
    """Weights and biases of the float model, in place of weights and biases that are worse than rounded ones."""
    requantizer, changes, parts = repairer.requantizer, repairer.changes, []
    for node, counterpart in repairer.counterparts.items():
        real, bias = counterpart.weights, counterpart.bias
        tensor, axis, now = requantizer.weights(node), requantizer.nodes[node].axis, requantizer.bias(node)
        assert tensor is not None and tensor.quantization is not None
        part = Changes()
        if node not in changes.weights:
            weights = RealWeights.fitted(real, axis, tensor.dtype, tensor.quantization.scale.size > 1)
            values, rounding = dequantized(repairer.model, tensor), weights.rounded(axis) - real
            if values is not None and _squares(values - real) > BADLY_ROUNDED * _squares(rounding):
                part = Changes(weights={node: weights})
        if bias is not None and now is not None and node not in changes.biases and (
                _squares(bias - now.reshape(-1)) > BIAS_TOLERANCE ** 2 * _squares(bias)):
            part = part.merged(Changes(biases={node: bias}))
        if part.weights or part.biases:
            parts.append(part)
    yield repairer.helpful(parts)


def faulty_ranges(repairer: Repairer) -> Iterator[Proposal]:
    """New ranges for tensors whose present ranges are far from the best."""
    ranges, now = repairer.ranges, repairer.ranges.present(repairer.changes)
    known: set[tuple[int, ...]] = set()
    for limit in FAULTY:
        faulty = tuple(key for key in ranges.groups if ranges.noise(key, now[key])
                       > limit * ranges.noise(key, ranges.grid(key, "least error")))
        for method in ("least error", "min / max") if faulty not in known else ():
            yield repairer.helpful([_with_grid(repairer, key, ranges.grid(key, method)) for key in faulty])
        known.add(faulty)


def by_channel(repairer: Repairer) -> Iterator[Proposal]:
    """A scale for each channel, where weights of int8 have one for all."""
    requantizer, floats, parts = repairer.requantizer, repairer.counterparts, []
    for node, op in requantizer.nodes.items():
        tensor, known = requantizer.weights(node), repairer.changes.weights.get(node)
        if tensor is None or tensor.dtype != "int8" or tensor.shape[op.axis] < 2:
            continue
        assert tensor.quantization is not None
        if (tensor.quantization if known is None else known).scale.size > 1:
            continue
        real = floats[node].weights if node in floats else dequantized(repairer.model, tensor)
        if real is not None:
            parts.append(Changes(weights={node: RealWeights.fitted(real, op.axis, "int8", True)}))
    yield repairer.helpful(parts)


def recalibrated(repairer: Repairer) -> Iterator[Proposal]:
    """Ranges by the best method for all tensors, refined for single tensors; then the present ranges, refined."""
    ranges, start = repairer.ranges, (repairer.changes, repairer.fit_db, "")
    best = start
    for method in METHODS:
        changes = repairer.changes.merged(*(_with_grid(repairer, key, ranges.grid(key, method))
                                            for key in ranges.groups))
        fit = repairer.measure_fit(changes)
        if fit >= best[1] + MIN_GAIN_DB:
            best = changes, fit, method
    yield _refined(repairer, *best)
    if best is not start:
        yield _refined(repairer, *start)


def _refined(repairer: Repairer, base: Changes, value: float, common: str) -> Proposal:
    """`base` with other ranges for single tensors where they gain.

    value: the SQNR of `base`; common: the method that its ranges come from.
    """
    ranges, now = repairer.ranges, repairer.ranges.present(base)
    chosen = dict.fromkeys(ranges.groups, common)
    for key in sorted(ranges.groups, key=lambda key: (ranges.promise(key, now[key]), key)):
        tested, least = {now[key]}, ranges.noise(key, now[key])
        for method in METHODS:
            grid = ranges.grid(key, method)
            if grid in tested or ranges.noise(key, grid) > least * NOTABLE:
                continue
            tested.add(grid)
            changes = base.merged(_with_grid(repairer, key, grid))
            fit = repairer.measure_fit(changes)
            if fit >= value + MIN_GAIN_DB:
                base, value, chosen[key] = changes, fit, method
    counts = {method: list(chosen.values()).count(method) for method in METHODS}
    return Proposal(base, sum(counts.values()), ", ".join(f"{n} {method}" for method, n in counts.items() if n))


def _with_grid(repairer: Repairer, key: int, grid: tuple[float, int]) -> Changes:
    """Changes with `grid`, a (scale, zero point), for the tied tensors of group `key`, constants included."""
    tensors = repairer.ranges.groups[key].tensors
    constants = {i: dequantized(repairer.model, repairer.graph.tensors[i]) for i in tensors
                 if repairer.graph.tensors[i].data is not None}
    return Changes(grids=dict.fromkeys(tensors, grid),
                   constants={i: values for i, values in constants.items() if values is not None})


def equalized(repairer: Repairer) -> Iterator[Proposal]:
    """Channels of activations scaled to similar magnitudes, and the weights that write and read them to match."""
    equalizer = Equalizer(repairer.model, repairer.reference, repairer.matches, repairer.counterparts, repairer.ties)
    samples, threads = repairer.fit.samples, repairer.threads

    def is_exact(scales: dict[int, Array]) -> bool:
        """Does the float model with these scales compute what it did, but for rounding?"""
        outputs = [other for _, other in repairer.pairs]
        return agree(repairer.reference, equalizer.scaled(scales), outputs, samples[:CHECKED], threads)
    for method, scales in equalizer.scales(samples, threads).items():
        good = {k: scale for k, scale in scales.items() if np.ptp(scale)}
        if not is_exact(good):
            good = {k: scale for k, scale in good.items() if is_exact({k: scale})}
        if not good:
            continue
        ranges = Ranges(repairer.graph, repairer.ties)
        ranges.observe(repairer.model, equalizer.scaled(good), repairer.matches, samples, threads)

        def made(chosen: list[int], scales: dict[int, Array] = scales, ranges: Ranges = ranges) -> Changes:
            grids = [Changes(grids=dict.fromkeys(ranges.groups[key].tensors, ranges.grid(key, EQUALIZED_BY)))
                     for key in ranges.groups if any(key in equalizer.groups[k].tensors for k in chosen)]
            factors = equalizer.factors({k: scales[k] for k in chosen})
            return repairer.changes.merged(*grids, *(_multiplied(repairer, node, *both)
                                                     for node, both in factors.items()))
        chosen = repairer.choose(list(good), made, 1 + len(good) // MOST_PARTS)
        if chosen:
            yield Proposal(made(chosen), len(chosen), method, equalizer.scaled({k: scales[k] for k in chosen}))


def _multiplied(repairer: Repairer, node: int, weights: Array, bias: Array) -> Changes:
    """Changes with a node's weights and bias multiplied by the factors `weights` and `bias`."""
    requantizer, changes = repairer.requantizer, repairer.changes
    tensor, known, axis = requantizer.weights(node), changes.weights.get(node), requantizer.nodes[node].axis
    assert tensor is not None and tensor.quantization is not None
    real = repairer.counterparts[node].weights if known is None else known.values
    many = (tensor.quantization if known is None else known).scale.size > 1
    multiplied = Changes(weights={node: RealWeights.fitted(real * weights, axis, tensor.dtype, many)})
    now = changes.biases.get(node, requantizer.bias(node))
    return multiplied if now is None else multiplied.merged(Changes(biases={node: now.reshape(-1) * bias}))


def rounded_together(repairer: Repairer) -> Iterator[Proposal]:
    """Weights rounded so that their errors cancel in the node's results."""
    requantizer, nodes = repairer.requantizer, {}
    for node, counterpart in repairer.counterparts.items():
        tensor, known = requantizer.weights(node), repairer.changes.weights.get(node)
        assert tensor is not None and tensor.quantization is not None
        q = tensor.quantization
        scale, zero = (q.scale.astype(np.float64), int(q.zero_point[0])) if known is None else (
            known.scale, known.zero_point)
        nodes[node] = RealWeights(counterpart.weights, scale, zero), requantizer.nodes[node].axis, tensor.dtype
    model = requantizer.model(repairer.changes)
    yield repairer.helpful([Changes(weights={node: weights}) for node, weights in weight_rounding.round_together(
        model, nodes, repairer.fit.samples, repairer.threads)])


def corrected_biases(repairer: Repairer) -> Iterator[Proposal]:
    """Biases minus the mean error of each channel, node by node."""
    requantizer, nodes = repairer.requantizer, {}
    for node in requantizer.nodes:
        index, bias = repairer.graph.operators[node].outputs[0], requantizer.bias(node)
        if bias is not None and index in repairer.matches and Grid.of(repairer.graph.tensors[index]) is not None:
            nodes[node] = index, bias.reshape(-1)
    expected = repairer.reference_means([repairer.matches[index] for index, _ in nodes.values()])
    changes, value, changed = repairer.changes, repairer.fit_db, 0
    for node, (index, bias) in nodes.items():
        error = repairer.means(changes, index) - expected[repairer.matches[index]]
        known = changes.biases.get(node, bias)
        if error.size != known.size:
            continue
        tried = changes.merged(Changes(biases={node: known - error}))
        fit = repairer.measure_fit(tried)
        if fit > value:
            changes, value, changed = tried, fit, changed + 1
    yield Proposal(changes, changed)


def _squares(values: Array) -> float:
    return float(np.square(values).sum())


STEPS: dict[str, Callable[[Repairer], Iterator[Proposal]]] = {
    "weights from the float model": from_float, "ranges with a fault": faulty_ranges,
    "a scale for each channel": by_channel, "ranges of activations": recalibrated, EQUALIZED: equalized,
    "weights rounded together": rounded_together, "biases by mean error": corrected_biases}
