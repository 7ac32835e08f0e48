"""A quantized model under repair: it takes the proposals of each step that help, and repeats the steps while they do.

Proposals are chosen on one half of the samples, and kept only if they also help on the other, the held-out samples.
"""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pylite.validation.activations import channel_means
from pylite.validation.counterparts import counterparts
from pylite.validation.judging import Judge, judged
from pylite.validation.matching import match
from pylite.validation.ranges import Ranges
from pylite.validation.requantizing import Changes, Requantizer
from pylite.validation.resuming import Journal
from pylite.validation.steps import EQUALIZED, MIN_GAIN_DB, Proposal, State, Step
from pylite.validation.ties import tied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Metric

    Array = NDArray[Any]
    StepFunction = Callable[["Repairer"], Iterator[Proposal]]

T = TypeVar("T")

EQUALIZED_DB = 0.25     # least gain of scaled channels in all, because each one is fitted to few samples
ROUNDS = 3              # most repetitions of all steps
AGAIN_DB = 0.1          # least gain of a round after which another one is worth its time


class Repairer:
    """A model under repair.

    fit, held: the Judges of the samples that steps are chosen on, and of the held-out samples
    changes: the Changes kept so far; steps: the Steps tried so far
    fit_db, held_db: the SQNR of the model with `changes` on the two sets of samples; before_db: that of the original
    model on the held-out samples
    metric: the Metric of the model with `changes`, None without `accuracy`; journal: the measurements so far

    For the steps: model, graph: the original, and its main subgraph; reference: the float model, whose channels may be
    scaled; matches: {tensor: the reference's}; pairs: as judged() returns; ties: all Tied tensors; ranges: the Ranges
    that can change; counterparts: {node: its Counterpart in `reference`}; requantizer: applies Changes to the model
    """

    def __init__(self, model: Model, reference: Model, fit: Sequence[Sequence[Array]],
                 held: Sequence[Sequence[Array]], threads: int,
                 accuracy: Callable[[Model], Metric] | None = None, journal: Journal | None = None) -> None:
        """fit, held: samples, each with an array for each input; threads: of one run; accuracy: a function from a model
        to its Metric on the held-out samples, which no step may make worse; journal: of an interrupted repair."""
        self.model, self.threads = model, threads
        self.journal = Journal() if journal is None else journal
        self._accuracy, self.metric = accuracy, None if accuracy is None else accuracy(model)
        self.requantizer, self.ties = Requantizer(model), tied(model)
        self.graph, floats = model.graph.subgraphs[0], reference.graph.subgraphs[0]
        self.matches = {i: m.reference for i, m in match(self.graph, floats).matches.items()
                        if floats.tensors[m.reference].dtype == "float32"}
        self.pairs = judged(model, reference, self.matches, self.ties)
        self.fit, self.held = (Judge(reference, self.pairs, samples, threads) for samples in (fit, held))
        self.changes, self.steps = Changes(), list[Step]()
        self.fit_db = self.measure_fit(self.changes)
        self.before_db = self.held_db = self.held.measure(model)
        self._adopt(reference)

    def _adopt(self, reference: Model) -> None:
        """Use `reference`, a float model that computes what the original reference does, from here on."""
        self.reference = reference
        self.ranges = Ranges(self.graph, self.ties)
        self.counterparts = dict(counterparts(self.model, self.requantizer, reference, self.matches))
        self._reference_means: dict[int, Array] = {}

    def _observe(self) -> None:
        """Record the values of the reference's activations on the fitted samples."""
        self.ranges.observe(self.model, self.reference, self.matches, self.fit.samples, self.threads)

    def measure_fit(self, changes: Changes) -> float:
        """The SQNR in dB of the model with `changes` on the samples that steps are chosen on."""
        return self.journal.number(f"fit {changes.digest()}", lambda: self.fit.measure(self.requantizer.model(changes)))

    def measure_held(self, changes: Changes) -> float:
        """The SQNR in dB of the model with `changes` on the held-out samples."""
        return self.journal.number(f"held {changes.digest()}",
                                   lambda: self.held.measure(self.requantizer.model(changes)))

    def means(self, changes: Changes, tensor: int) -> Array:
        """The mean of each channel of a tensor over the fitted samples, in the model with `changes`."""
        return self.journal.array(f"means of {tensor} {changes.digest()}", lambda: channel_means(
            self.requantizer.model(changes), [tensor], self.fit.samples, self.threads)[tensor])

    def reference_means(self, tensors: Sequence[int]) -> Mapping[int, Array]:
        """{tensor of the reference: the mean of each channel over the fitted samples}, at least of these tensors."""
        missing = [i for i in tensors if i not in self._reference_means]
        if missing:
            self._reference_means |= channel_means(self.reference, missing, self.fit.samples, self.threads)
        return self._reference_means

    def run(self, steps: Mapping[str, StepFunction], progress: Callable[[int, int], object] | None = None) -> None:
        """Run all steps, and repeat them while they help, because a step may help only after another.

        Scaled channels change what all other steps can gain.  So all steps run twice, once without EQUALIZED and once
        with it, and the better result is kept.
        progress: called with the number of steps done, and of all steps.
        """
        self._observe()
        start, count = self._state(), len(steps) * ROUNDS

        def show(done: int) -> None:
            if progress is not None:
                progress(done, 2 * count)
        self._rounds({name: step for name, step in steps.items() if name != EQUALIZED}, show)
        plain = self._state()
        self._restore(start)
        self._rounds(steps, lambda done: show(count + done))
        gained_db, fitted_db = self.held_db - plain.held_db, self.fit_db - plain.fit_db
        if gained_db >= EQUALIZED_DB and fitted_db > 0 and not (
                self.metric is not None and plain.metric is not None and self.metric.worse_than(plain.metric)):
            return
        refused = [step for step in self.steps if step.name == EQUALIZED][:1]
        if refused and refused[0].kept:
            refused = [replace(refused[0], gained_db=gained_db, kept=False, fitted_db=fitted_db)]
        self._restore(plain)
        self.steps += refused

    def _rounds(self, steps: Mapping[str, StepFunction], show: Callable[[int], object]) -> None:
        """Run these steps up to ROUNDS times, while they help; stop at EQUALIZED if it scales no channel."""
        reference = self.reference
        for number in range(ROUNDS):
            before = self.held_db
            for place, (name, step) in enumerate(steps.items()):
                self._take(name, step(self), number > 0)
                show(number * len(steps) + place + 1)
                if name == EQUALIZED and self.reference is reference:
                    return
            if self.held_db < before + AGAIN_DB:
                return

    def _state(self) -> State:
        return State(self.changes, list(self.steps), self.fit_db, self.held_db, self.metric, self.reference)

    def _restore(self, state: State) -> None:
        self.changes, self.steps, self.fit_db, self.held_db, self.metric, reference = state
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
            if proposal.changed and all(proposal.changes is not other.changes for other, _ in tried):
                changes = proposal.changes
                fitted, held = self.measure_fit(changes), self.measure_held(changes)
                step = Step(name, proposal.changed, held - self.held_db, fitted - self.fit_db, False, proposal.detail)
                self.decide(step, partial(self.requantizer.model, changes))
                tried.append((proposal, step))
        if not tried:
            return
        proposal, step = max(tried, key=lambda pair: (pair[1].kept, pair[1].gained_db))
        if step.kept or not again:
            self.enter(step)
        if step.kept:
            self.changes = proposal.changes
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
            self.fit_db, self.held_db = self.fit_db + step.fitted_db, self.held_db + step.gained_db
            self.metric = step.metric

    def helpful(self, parts: Sequence[Changes]) -> Proposal:
        """The Proposal of those parts that gain."""
        chosen = self.choose(parts, lambda chosen: self.changes.merged(*chosen))
        return Proposal(self.changes.merged(*chosen) if chosen else self.changes, len(chosen))

    def choose(self, parts: Sequence[T], made: Callable[[list[T]], Changes], least: int = 1) -> list[T]:
        """The parts that gain, found by bisection: all if they gain together, else the gaining parts of each half.

        made(parts): the Changes with these parts; least: sets of so few parts are not divided further.
        """
        def tried(parts: Sequence[T], base: list[T], value: float) -> tuple[list[T], float]:
            chosen = [*base, *parts]
            fit = self.measure_fit(made(chosen))
            if fit >= value + MIN_GAIN_DB:
                return chosen, fit
            if len(parts) <= least:
                return base, value
            base, value = tried(parts[:len(parts) // 2], base, value)
            return tried(parts[len(parts) // 2:], base, value)
        return tried(parts, [], self.fit_db)[0] if parts else []

    def written(self) -> bytes:
        """The file with the changes that were kept."""
        return self.requantizer.written(self.changes)
