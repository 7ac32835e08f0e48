"""The steps that mend a quantized model, each chosen on some samples and kept only if it helps on others."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.calibration import METHODS, Activations, Observed, observed
from pylite.validation.judging import Judge, judged
from pylite.validation.matching import match
from pylite.validation.requantizing import Numbers, Requantized, Weights
from pylite.validation.resuming import Journal
from pylite.validation.statistics import Grid
from pylite.validation.ties import tied
from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator
    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Metric
    from pylite.validation.ties import Tied

    Array = NDArray[Any]

LEAST_DB = 0.01         # gained on the fitted samples: with less, the present numbers stay
WORSE = 1.2             # times the squared error of weights that are rounded well: these are not
ROUNDED = 0.01          # of a bias: differences below are its rounding
FAULTY = 1.5, 4.0, 16.0     # times the least noise of a range, beyond which it is replaced: limits to try
NOTABLE = 0.95          # of a tensor's noise: a range that leaves more is not tried alone
ROUNDS = 3              # of all steps, while they gain
AGAIN_DB = 0.1          # gained in a round: with less there is no other one


@dataclass
class Step:
    """One step: gained_db, fitted_db: on the held-out samples, and on those that it was chosen on; kept: is it in the
    file?  changed: how many nodes or ranges; detail: by which methods; metric: the accuracy of the held-out samples
    with it, None where it was not measured."""
    name: str
    changed: int
    gained_db: float
    fitted_db: float
    kept: bool
    detail: str = ""
    metric: Metric | None = None


@dataclass(frozen=True)
class Proposal:
    """What a step would change: the numbers with it, how many nodes or ranges, and by which methods."""
    numbers: Numbers
    changed: int
    detail: str = ""


class Mender:
    """A model under repair.

    fit, held: Judges, of the samples that steps are chosen on, and of the others; numbers: what was kept so far; steps:
    what was tried; before, held_value: the SQNR on the held-out samples, of the model as it was and with the numbers;
    accuracy: gives the Metric of a model on these samples, which no step may make worse; metric: what it is now;
    journal: what was measured.
    """

    def __init__(self, model: Model, reference: Model, fit: Sequence[Sequence[Array]],
                 held: Sequence[Sequence[Array]], threads: int,
                 accuracy: Callable[[Model], Metric] | None = None, journal: Journal | None = None) -> None:
        self.journal = Journal() if journal is None else journal
        self._accuracy, self.metric = accuracy, None if accuracy is None else accuracy(model)
        self._model, self._reference, self._threads = model, reference, threads
        self._graph, self._other = model.graph.subgraphs[0], reference.graph.subgraphs[0]
        self._maker = Requantized(model)
        self._matches = {i: m.reference for i, m in match(self._graph, self._other).matches.items()
                         if self._other.tensors[m.reference].dtype == "float32"}
        self._ties = tied(model)
        pairs = judged(model, reference, self._matches, self._ties)
        self.fit, self.held = (Judge(reference, pairs, samples, threads) for samples in (fit, held))
        self.numbers, self.steps = Numbers(), list[Step]()
        self._value = self._fitted(self.numbers)
        self.before = self.held_value = self.held.measure(model)
        self._ranges = _Ranges(self._graph, self._ties)
        self._reals = dict(self._counterparts())
        self._means: dict[int, Array] = {}

    def _fitted(self, numbers: Numbers) -> float:
        """The SQNR on the samples that steps are chosen on."""
        return self.journal.number(f"fit {numbers.digest()}", lambda: self.fit.measure(self._maker.model(numbers)))

    def _held(self, numbers: Numbers) -> float:
        """The same on the held-out samples."""
        return self.journal.number(f"held {numbers.digest()}", lambda: self.held.measure(self._maker.model(numbers)))

    def run(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Take all steps, again while they help: one may help only after another."""
        self._ranges.observe(self._model, self._reference, self._matches, self.fit.samples, self._threads)
        steps = {"weights from the float model": self._from_float, "ranges with a fault": self._faulty,
                 "a scale for each channel": self._by_channel, "ranges of activations": self._recalibrated,
                 "biases by mean error": self._corrected}
        for number in range(ROUNDS):
            before = self.held_value
            for place, (name, step) in enumerate(steps.items()):
                self._take(name, step(), number > 0)
                if progress is not None:
                    progress(number * len(steps) + place + 1, ROUNDS * len(steps))
            if self.held_value < before + AGAIN_DB:
                break

    def _take(self, name: str, proposals: Iterator[Proposal], again: bool) -> None:
        """Keep the proposal that helps most on the held-out samples, if one does and helps on the others, too.

        A refused one is listed, unless the step is tried again.
        """
        tried: list[tuple[Proposal, Step]] = []
        for proposal in proposals:
            if proposal.changed and all(proposal.numbers is not other.numbers for other, _ in tried):
                numbers = proposal.numbers
                fitted, held = self._fitted(numbers), self._held(numbers)
                step = Step(name, proposal.changed, held - self.held_value, fitted - self._value, False,
                            proposal.detail)
                self.decide(step, partial(self._maker.model, numbers))
                tried.append((proposal, step))
        if not tried:
            return
        proposal, step = max(tried, key=lambda pair: (pair[1].kept, pair[1].gained_db))
        if step.kept or not again:
            self.enter(step)
        if step.kept:
            self.numbers = proposal.numbers

    def decide(self, step: Step, mended: Callable[[], Model]) -> None:
        """Keep a step that gains on all samples, unless its model, which `mended` makes, has a worse accuracy."""
        step.kept = step.gained_db > 0 and step.fitted_db > 0
        if step.kept and self._accuracy is not None and self.metric is not None:
            step.metric = self._accuracy(mended())
            step.kept = not step.metric.worse_than(self.metric)

    def enter(self, step: Step) -> None:
        """Add a step to the list."""
        self.steps.append(step)
        if step.kept:
            self._value, self.held_value = self._value + step.fitted_db, self.held_value + step.gained_db
            self.metric = step.metric

    def _helping(self, parts: Sequence[Numbers]) -> Proposal:
        """The parts that help: all at once, or else those of either half."""
        def tried(parts: Sequence[Numbers], base: Numbers, value: float) -> tuple[Numbers, float, int]:
            numbers = base.merged(*parts)
            found = self._fitted(numbers)
            if found >= value + LEAST_DB:
                return numbers, found, len(parts)
            if len(parts) < 2:
                return base, value, 0
            base, value, one = tried(parts[:len(parts) // 2], base, value)
            base, value, other = tried(parts[len(parts) // 2:], base, value)
            return base, value, one + other
        numbers, _, changed = tried(parts, self.numbers, self._value) if parts else (self.numbers, 0.0, 0)
        return Proposal(numbers, changed)

    def _counterparts(self) -> Iterator[tuple[int, tuple[Array, Array | None]]]:
        """(node with weights, (the float model's weights, its bias)), where these have the same shapes."""
        tensors, producer = self._other.tensors, {i: o for o in self._other.operators for i in o.outputs}

        def counterpart(operator: Operator) -> Operator | None:
            other = producer.get(self._matches.get(operator.outputs[0], -1))
            if other is not None and other.name != operator.name:       # an activation that is fused here
                other = producer.get(other.inputs[0])
            return other if other is not None and other.name == operator.name else None
        for node, (_, position, bias_position, _) in self._maker.nodes.items():
            other, own = counterpart(self._graph.operators[node]), self._maker.weights(node)
            if other is None or own is None or len(other.inputs) <= position:
                continue
            real, bias = dequantized(self._reference, tensors[other.inputs[position]]), self._maker.bias(node)
            if real is None or real.shape != own.shape:
                continue
            if bias is not None:
                index = other.inputs[bias_position] if len(other.inputs) > bias_position else -1
                found = dequantized(self._reference, tensors[index]) if index >= 0 else np.zeros(bias.size)
                bias = found.reshape(-1) if found is not None and found.size == bias.size else None
            yield node, (real, bias)

    def _from_float(self) -> Iterator[Proposal]:
        """Weights and biases of the float model, where those of the file are not as good as rounding leaves them."""
        parts = []
        for node, (real, bias) in self._reals.items():
            own, axis, now = self._maker.weights(node), self._maker.nodes[node][3], self._maker.bias(node)
            assert own is not None and own.quantization is not None
            part = Numbers()
            if node not in self.numbers.weights:
                weights = Weights.fitted(real, axis, own.dtype, own.quantization.scale.size > 1)
                values = dequantized(self._model, own)
                if values is not None and _squares(values - real) > WORSE * _squares(weights.rounded(axis) - real):
                    part = Numbers(weights={node: weights})
            if bias is not None and now is not None and node not in self.numbers.biases and (
                    _squares(bias - now.reshape(-1)) > ROUNDED ** 2 * _squares(bias)):
                part = part.merged(Numbers(biases={node: bias}))
            if part.weights or part.biases:
                parts.append(part)
        yield self._helping(parts)

    def _by_channel(self) -> Iterator[Proposal]:
        """A scale for each channel, where weights of int8 have one for all."""
        parts = []
        for node, (_, _, _, axis) in self._maker.nodes.items():
            tensor, known = self._maker.weights(node), self.numbers.weights.get(node)
            if tensor is None or tensor.dtype != "int8" or tensor.shape[axis] < 2:
                continue
            assert tensor.quantization is not None
            if (tensor.quantization if known is None else known).scale.size > 1:
                continue
            real = self._reals[node][0] if node in self._reals else dequantized(self._model, tensor)
            if real is not None:
                parts.append(Numbers(weights={node: Weights.fitted(real, axis, "int8", True)}))
        yield self._helping(parts)

    def _grid(self, key: int, grid: tuple[float, int]) -> Numbers:
        """A grid for tied tensors, with the constants among them."""
        tensors = self._ranges.groups[key].tensors
        constants = {i: dequantized(self._model, self._graph.tensors[i]) for i in tensors
                     if self._graph.tensors[i].data is not None}
        return Numbers(grids=dict.fromkeys(tensors, grid),
                       constants={i: values for i, values in constants.items() if values is not None})

    def _faulty(self) -> Iterator[Proposal]:
        """Other ranges only where the present ones are far from the best."""
        ranges, now = self._ranges, self._ranges.present(self.numbers)
        known: set[tuple[int, ...]] = set()
        for limit in FAULTY:
            faulty = tuple(key for key in ranges.groups if ranges.noise(key, now[key])
                           > limit * ranges.noise(key, ranges.grid(key, "least error")))
            for method in ("least error", "min / max") if faulty not in known else ():
                yield self._helping([self._grid(key, ranges.grid(key, method)) for key in faulty])
            known.add(faulty)

    def _recalibrated(self) -> Iterator[Proposal]:
        """Ranges by the method that serves all best, and then others for single tensors where they help; and these
        alone."""
        groups, start = self._ranges.groups, (self.numbers, self._value, "")
        best = start
        for method in METHODS:
            numbers = self.numbers.merged(*(self._grid(key, self._ranges.grid(key, method)) for key in groups))
            found = self._fitted(numbers)
            if found >= best[1] + LEAST_DB:
                best = numbers, found, method
        yield self._refined(*best)
        if best is not start:
            yield self._refined(*start)

    def _refined(self, base: Numbers, value: float, common: str) -> Proposal:
        """Numbers with other ranges where they help; common: the method of their ranges."""
        ranges, now = self._ranges, self._ranges.present(base)
        chosen = dict.fromkeys(ranges.groups, common)
        for key in sorted(ranges.groups, key=lambda key: (ranges.promise(key, now[key]), key)):
            tested, least = {now[key]}, ranges.noise(key, now[key])
            for method in METHODS:
                grid = ranges.grid(key, method)
                if grid in tested or ranges.noise(key, grid) > least * NOTABLE:
                    continue
                tested.add(grid)
                numbers = base.merged(self._grid(key, grid))
                found = self._fitted(numbers)
                if found >= value + LEAST_DB:
                    base, value, chosen[key] = numbers, found, method
        counts = {method: list(chosen.values()).count(method) for method in METHODS}
        return Proposal(base, sum(counts.values()), ", ".join(f"{n} {method}" for method, n in counts.items() if n))

    def _corrected(self) -> Iterator[Proposal]:
        """Biases less the mean error of each channel, from the first node to the last."""
        nodes = {}
        for node in self._maker.nodes:
            index, bias = self._graph.operators[node].outputs[0], self._maker.bias(node)
            if bias is not None and index in self._matches and Grid.of(self._graph.tensors[index]) is not None:
                nodes[node] = index, bias.reshape(-1)
        if nodes and not self._means:
            self._means = self._averages(self._reference, [self._matches[index] for index, _ in nodes.values()])
        numbers, value, changed = self.numbers, self._value, 0
        for node, (index, bias) in nodes.items():
            means = self.journal.array(f"means of {index} {numbers.digest()}",
                                       partial(self._average, numbers, index))
            error = means - self._means[self._matches[index]]
            known = numbers.biases.get(node, bias)
            if error.size != known.size:
                continue
            tried = numbers.merged(Numbers(biases={node: known - error}))
            found = self._fitted(tried)
            if found > value:
                numbers, value, changed = tried, found, changed + 1
        yield Proposal(numbers, changed)

    def _average(self, numbers: Numbers, index: int) -> Array:
        """The means of a tensor's channels with these numbers."""
        return self._averages(self._maker.model(numbers), [index])[index]

    def _averages(self, model: Model, tensors: Sequence[int]) -> dict[int, Array]:
        """{tensor: means of its channels over the fitted samples, as real numbers}"""
        activations, samples = Activations(model, tensors, self._threads), self.fit.samples
        grids = {i: Grid.of(model.graph.subgraphs[0].tensors[i]) for i in tensors}
        found: dict[int, Array] = {}
        for inputs in samples:
            activations.run(inputs)
            for index, grid in grids.items():
                assert grid is not None
                values = grid.real(activations.array(index))
                mean = values.reshape(-1, values.shape[-1]).mean(0, dtype=np.float64)
                found[index] = found.get(index, np.zeros(())) + mean / len(samples)
        return found

    def written(self) -> bytes:
        """The file with the numbers that were kept."""
        return self._maker.written(self.numbers)


class _Ranges:
    """What is known of the grids that can change.  groups: {first tensor: its Tied}."""

    def __init__(self, graph: Any, ties: Sequence[Tied]) -> None:
        self._tensors = graph.tensors
        self.groups = {group.tensors[0]: group for group in ties if not group.fixed}
        self._seen: dict[int, Observed] = {}
        self._fits: dict[tuple[int, str], tuple[float, int]] = {}

    def observe(self, model: Model, reference: Model, matches: Mapping[int, int], samples: Sequence[Sequence[Array]],
                threads: int) -> None:
        """See what the float model's tensors take; groups without any are left out."""
        wanted = {key: [matches[i] for i in group.tensors if i in matches] for key, group in self.groups.items()}
        wanted = {key: others for key, others in wanted.items() if others}
        self.groups = {key: self.groups[key] for key in wanted}
        constants = {key: [values for i in group.tensors if self._tensors[i].data is not None
                           for values in [dequantized(model, self._tensors[i])] if values is not None]
                     for key, group in self.groups.items()}
        self._seen = observed(reference, wanted, samples, threads, constants)

    def present(self, numbers: Numbers) -> dict[int, tuple[float, int]]:
        """{group: its grid}, of the numbers or the file."""
        found = {}
        for key in self.groups:
            grid = Grid.of(self._tensors[key])
            assert grid is not None
            found[key] = numbers.grids.get(key, (grid.step, grid.zero_point))
        return found

    def grid(self, key: int, method: str) -> tuple[float, int]:
        """The grid that a method gives to a group."""
        if (key, method) not in self._fits:
            self._fits[key, method] = self._seen[key].grid(method, self._tensors[key].dtype)
        return self._fits[key, method]

    def noise(self, key: int, grid: tuple[float, int]) -> float:
        """The mean squared error of a group's values on a grid."""
        return self._seen[key].noise(grid, self._tensors[key].dtype)

    def promise(self, key: int, grid: tuple[float, int]) -> float:
        """The part of a group's noise that the best range leaves: the less, the more another one may help."""
        noise = self.noise(key, grid)
        return min(self.noise(key, self.grid(key, method)) for method in METHODS) / noise if noise else 1.0


def _squares(values: Array) -> float:
    return float(np.square(values).sum())
