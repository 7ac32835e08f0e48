"""The steps that repair a quantized model, each chosen on some samples and kept only if it helps on others."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pylite.validation import weight_rounding
from pylite.validation.calibration import METHODS, Activations
from pylite.validation.counterparts import counterparts
from pylite.validation.equalizing import Equalizer, same
from pylite.validation.judging import Judge, judged
from pylite.validation.matching import match
from pylite.validation.ranges import Ranges
from pylite.validation.requantizing import Numbers, Requantized, Weights
from pylite.validation.resuming import Journal
from pylite.validation.statistics import Grid
from pylite.validation.steps import Proposal, State, Step
from pylite.validation.ties import tied
from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Metric

    Array = NDArray[Any]

T = TypeVar("T")

MIN_GAIN_DB = 0.01      # a change that gains less on the fitted samples is not adopted
BADLY_ROUNDED = 1.2     # weights are replaced if their squared error exceeds that of good rounding by this factor
BIAS_TOLERANCE = 0.01   # relative difference of a bias that its own rounding explains
FAULTY = 1.5, 4.0, 16.0     # limits to try: a range is replaced if its noise exceeds the least possible by this factor
NOTABLE = 0.95          # a range is tried on its own only if it leaves less than this share of the tensor's noise
EQUALIZED = "channels equalized"
EQUALIZED_BY = "min / max"      # the method for ranges of equalized activations, until the next step chooses another
EQUALIZED_DB = 0.25     # least gain of scaled channels in all, because each one is fitted to few samples
MOST_PARTS = 8          # parts into which groups of channels are divided at most: trying one runs all samples
CHECKED = 2             # samples on which a float model with scaled channels must compute what the reference does
ROUNDS = 3              # most repetitions of all steps
AGAIN_DB = 0.1          # least gain of a round after which another one is worth its time


class Repairer:
    """A model under repair.

    fit: the Judge of the samples that steps are chosen on; held: the Judge of the held-out samples
    numbers: the Numbers kept so far; steps: the Steps tried so far
    before, held_value: the SQNR on the held-out samples, in dB, of the original model and of the model with `numbers`
    accuracy: a function from a model to its Metric on the held-out samples, which no step may make worse
    metric: the Metric of the model with `numbers`; journal: the measurements of an interrupted repair
    """

    def __init__(self, model: Model, reference: Model, fit: Sequence[Sequence[Array]],
                 held: Sequence[Sequence[Array]], threads: int,
                 accuracy: Callable[[Model], Metric] | None = None, journal: Journal | None = None) -> None:
        self.journal = Journal() if journal is None else journal
        self._accuracy, self.metric = accuracy, None if accuracy is None else accuracy(model)
        self._model, self._threads = model, threads
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
        self._pairs = pairs
        self._adopt(reference)

    def _adopt(self, reference: Model) -> None:
        """Use `reference`, a float model that computes what the original reference does, from here on."""
        self.reference = reference
        self._ranges = Ranges(self._graph, self._ties)
        self._reals = dict(counterparts(self._model, self._maker, reference, self._matches))
        self._means: dict[int, Array] = {}

    def _observe(self) -> None:
        """Record the values of the reference's activations on the fitted samples."""
        self._ranges.observe(self._model, self.reference, self._matches, self.fit.samples, self._threads)

    def _fitted(self, numbers: Numbers) -> float:
        """The SQNR in dB of the model with `numbers` on the samples that steps are chosen on."""
        return self.journal.number(f"fit {numbers.digest()}", lambda: self.fit.measure(self._maker.model(numbers)))

    def _held(self, numbers: Numbers) -> float:
        """The SQNR in dB of the model with `numbers` on the held-out samples."""
        return self.journal.number(f"held {numbers.digest()}", lambda: self.held.measure(self._maker.model(numbers)))

    def run(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Run all steps, and repeat them while they help, because a step may help only after another.

        Scaled channels change what all other steps can gain.  So all steps run twice, once without scaled channels and
        once with them, and the better result is kept.
        """
        self._observe()
        steps = {"weights from the float model": self._from_float, "ranges with a fault": self._faulty,
                 "a scale for each channel": self._by_channel, "ranges of activations": self._recalibrated,
                 EQUALIZED: self._equalized, "weights rounded together": self._rerounded,
                 "biases by mean error": self._corrected}
        start, number = self._state(), len(steps) * ROUNDS

        def show(done: int) -> None:
            if progress is not None:
                progress(done, 2 * number)
        self._rounds({name: step for name, step in steps.items() if name != EQUALIZED}, show)
        plain = self._state()
        self._restore(start)
        self._rounds(steps, lambda done: show(number + done))
        if self.held_value >= plain.held_value + EQUALIZED_DB and self._value > plain.value and not (
                self.metric is not None and plain.metric is not None and self.metric.worse_than(plain.metric)):
            return
        refused = [step for step in self.steps if step.name == EQUALIZED][:1]
        if refused and refused[0].kept:
            refused = [replace(refused[0], gained_db=self.held_value - plain.held_value, kept=False,
                               fitted_db=self._value - plain.value)]
        self._restore(plain)
        self.steps += refused

    def _rounds(self, steps: Mapping[str, Callable[[], Iterator[Proposal]]], show: Callable[[int], object]) -> None:
        """Run these steps up to ROUNDS times, while they help; stop at EQUALIZED if it scales no channel."""
        reference = self.reference
        for number in range(ROUNDS):
            before = self.held_value
            for place, (name, step) in enumerate(steps.items()):
                self._take(name, step(), number > 0)
                show(number * len(steps) + place + 1)
                if name == EQUALIZED and self.reference is reference:
                    return
            if self.held_value < before + AGAIN_DB:
                return

    def _state(self) -> State:
        return State(self.numbers, list(self.steps), self._value, self.held_value, self.metric, self.reference)

    def _restore(self, state: State) -> None:
        self.numbers, self.steps, self._value, self.held_value, self.metric, reference = state
        self.steps = list(self.steps)
        if reference is not self.reference:
            self._adopt(reference)
            self._observe()

    def _take(self, name: str, proposals: Iterator[Proposal], again: bool) -> None:
        """Adopt the proposal that gains most on the held-out samples, if it also gains on the fitted ones.

        again: the step has been tried before; then it is listed only if a proposal is adopted.
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
            if proposal.reference is not None:
                self._adopt(proposal.reference)
                self._observe()

    def decide(self, step: Step, repaired: Callable[[], Model]) -> None:
        """Set step.kept: it gains on both halves of the samples, and the model repaired() is no less accurate."""
        step.kept = step.gained_db > 0 and step.fitted_db > 0
        if step.kept and self._accuracy is not None and self.metric is not None:
            step.metric = self._accuracy(repaired())
            step.kept = not step.metric.worse_than(self.metric)

    def enter(self, step: Step) -> None:
        """Add a step to the list."""
        self.steps.append(step)
        if step.kept:
            self._value, self.held_value = self._value + step.fitted_db, self.held_value + step.gained_db
            self.metric = step.metric

    def _helping(self, parts: Sequence[Numbers]) -> Proposal:
        """The Proposal of those parts that gain."""
        chosen = self._chosen(parts, lambda chosen: self.numbers.merged(*chosen))
        return Proposal(self.numbers.merged(*chosen) if chosen else self.numbers, len(chosen))

    def _chosen(self, parts: Sequence[T], made: Callable[[list[T]], Numbers], least: int = 1) -> list[T]:
        """The parts that gain, found by bisection: all of them if they gain together, else those of each half.

        made(parts): the Numbers with these parts; least: sets of so few parts are not divided further.
        """
        def tried(parts: Sequence[T], base: list[T], value: float) -> tuple[list[T], float]:
            chosen = [*base, *parts]
            found = self._fitted(made(chosen))
            if found >= value + MIN_GAIN_DB:
                return chosen, found
            if len(parts) <= least:
                return base, value
            base, value = tried(parts[:len(parts) // 2], base, value)
            return tried(parts[len(parts) // 2:], base, value)
        return tried(parts, [], self._value)[0] if parts else []

    def _from_float(self) -> Iterator[Proposal]:
        """Weights and biases of the float model, where those of the file are worse than rounding would make them."""
        parts = []
        for node, counterpart in self._reals.items():
            real, bias = counterpart.weights, counterpart.bias
            own, axis, now = self._maker.weights(node), self._maker.nodes[node].axis, self._maker.bias(node)
            assert own is not None and own.quantization is not None
            part = Numbers()
            if node not in self.numbers.weights:
                weights = Weights.fitted(real, axis, own.dtype, own.quantization.scale.size > 1)
                values, rounding = dequantized(self._model, own), weights.rounded(axis) - real
                if values is not None and _squares(values - real) > BADLY_ROUNDED * _squares(rounding):
                    part = Numbers(weights={node: weights})
            if bias is not None and now is not None and node not in self.numbers.biases and (
                    _squares(bias - now.reshape(-1)) > BIAS_TOLERANCE ** 2 * _squares(bias)):
                part = part.merged(Numbers(biases={node: bias}))
            if part.weights or part.biases:
                parts.append(part)
        yield self._helping(parts)

    def _by_channel(self) -> Iterator[Proposal]:
        """A scale for each channel, where weights of int8 have one for all."""
        parts = []
        for node, op in self._maker.nodes.items():
            tensor, known = self._maker.weights(node), self.numbers.weights.get(node)
            if tensor is None or tensor.dtype != "int8" or tensor.shape[op.axis] < 2:
                continue
            assert tensor.quantization is not None
            if (tensor.quantization if known is None else known).scale.size > 1:
                continue
            real = self._reals[node].weights if node in self._reals else dequantized(self._model, tensor)
            if real is not None:
                parts.append(Numbers(weights={node: Weights.fitted(real, op.axis, "int8", True)}))
        yield self._helping(parts)

    def _equalized(self) -> Iterator[Proposal]:
        """Channels of activations scaled to similar magnitudes, and the weights that write and read them to match."""
        equalizer = Equalizer(self._model, self.reference, self._matches, self._reals, self._ties)
        tensors, few = [index for _, index in self._pairs], self.fit.samples[:CHECKED]
        for method, scales in equalizer.scales(self.fit.samples, self._threads).items():
            good = {k: scale for k, scale in scales.items() if np.ptp(scale)}
            if not same(self.reference, equalizer.scaled(good), tensors, few, self._threads):
                good = {k: scale for k, scale in good.items()
                        if same(self.reference, equalizer.scaled({k: scale}), tensors, few, self._threads)}
            if not good:
                continue
            ranges = Ranges(self._graph, self._ties)
            ranges.observe(self._model, equalizer.scaled(good), self._matches,
                           self.fit.samples, self._threads)

            def made(chosen: list[int], scales: dict[int, Array] = scales, ranges: Ranges = ranges) -> Numbers:
                grids = [Numbers(grids=dict.fromkeys(ranges.groups[key].tensors, ranges.grid(key, EQUALIZED_BY)))
                         for key in ranges.groups if any(key in equalizer.groups[k].tensors for k in chosen)]
                factors = equalizer.factors({k: scales[k] for k in chosen})
                return self.numbers.merged(*grids, *(self._scaled(node, *both) for node, both in factors.items()))
            chosen = self._chosen(list(good), made, 1 + len(good) // MOST_PARTS)
            if chosen:
                yield Proposal(made(chosen), len(chosen), method, equalizer.scaled({k: scales[k] for k in chosen}))

    def _scaled(self, node: int, weights: Array, bias: Array) -> Numbers:
        """Numbers with a node's weights and bias multiplied by the factors `weights` and `bias`."""
        own, known, axis = self._maker.weights(node), self.numbers.weights.get(node), self._maker.nodes[node].axis
        assert own is not None and own.quantization is not None
        real = self._reals[node].weights if known is None else known.values
        many = (own.quantization if known is None else known).scale.size > 1
        found = Numbers(weights={node: Weights.fitted(real * weights, axis, own.dtype, many)})
        now = self.numbers.biases.get(node, self._maker.bias(node))
        return found if now is None else found.merged(Numbers(biases={node: now.reshape(-1) * bias}))

    def _rerounded(self) -> Iterator[Proposal]:
        """Weights rounded so that their errors cancel in the node's results."""
        nodes = {}
        for node, counterpart in self._reals.items():
            own, known = self._maker.weights(node), self.numbers.weights.get(node)
            assert own is not None and own.quantization is not None
            q = own.quantization
            scale, zero = (q.scale.astype(np.float64), int(q.zero_point[0])) if known is None else (
                known.scale, known.zero_point)
            nodes[node] = Weights(counterpart.weights, scale, zero), self._maker.nodes[node].axis, own.dtype
        model = self._maker.model(self.numbers)
        yield self._helping([Numbers(weights={node: weights}) for node, weights in weight_rounding.together(
            model, nodes, self.fit.samples, self._threads)])

    def _grid(self, key: int, grid: tuple[float, int]) -> Numbers:
        """Numbers with `grid`, a (scale, zero point), for the tied tensors of group `key`, constants included."""
        tensors = self._ranges.groups[key].tensors
        constants = {i: dequantized(self._model, self._graph.tensors[i]) for i in tensors
                     if self._graph.tensors[i].data is not None}
        return Numbers(grids=dict.fromkeys(tensors, grid),
                       constants={i: values for i, values in constants.items() if values is not None})

    def _faulty(self) -> Iterator[Proposal]:
        """New ranges for tensors whose present ranges are far from the best."""
        ranges, now = self._ranges, self._ranges.present(self.numbers)
        known: set[tuple[int, ...]] = set()
        for limit in FAULTY:
            faulty = tuple(key for key in ranges.groups if ranges.noise(key, now[key])
                           > limit * ranges.noise(key, ranges.grid(key, "least error")))
            for method in ("least error", "min / max") if faulty not in known else ():
                yield self._helping([self._grid(key, ranges.grid(key, method)) for key in faulty])
            known.add(faulty)

    def _recalibrated(self) -> Iterator[Proposal]:
        """Ranges by the best method for all tensors, refined for single tensors; then the present ranges, refined."""
        groups, start = self._ranges.groups, (self.numbers, self._value, "")
        best = start
        for method in METHODS:
            numbers = self.numbers.merged(*(self._grid(key, self._ranges.grid(key, method)) for key in groups))
            found = self._fitted(numbers)
            if found >= best[1] + MIN_GAIN_DB:
                best = numbers, found, method
        yield self._refined(*best)
        if best is not start:
            yield self._refined(*start)

    def _refined(self, base: Numbers, value: float, common: str) -> Proposal:
        """`base` with other ranges for single tensors where they gain.

        value: the SQNR of `base`; common: the method that its ranges come from.
        """
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
                if found >= value + MIN_GAIN_DB:
                    base, value, chosen[key] = numbers, found, method
        counts = {method: list(chosen.values()).count(method) for method in METHODS}
        return Proposal(base, sum(counts.values()), ", ".join(f"{n} {method}" for method, n in counts.items() if n))

    def _corrected(self) -> Iterator[Proposal]:
        """Biases minus the mean error of each channel, node by node."""
        nodes = {}
        for node in self._maker.nodes:
            index, bias = self._graph.operators[node].outputs[0], self._maker.bias(node)
            if bias is not None and index in self._matches and Grid.of(self._graph.tensors[index]) is not None:
                nodes[node] = index, bias.reshape(-1)
        if nodes and not self._means:
            self._means = self._averages(self.reference, [self._matches[index] for index, _ in nodes.values()])
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


def _squares(values: Array) -> float:
    return float(np.square(values).sum())
