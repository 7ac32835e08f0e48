"""Repairs a quantized model: the same graph, with weights, ranges and biases that lose less of the float model.

    from pylite.validation.repair import repair
    found = repair("model_int8.tflite", "model_float.tflite", "samples.npz")
    open("repaired.tflite", "wb").write(found.contents)
"""
from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from pylite.display import text_table
from pylite.errors import ComparisonError, counted
from pylite.media import models
from pylite.runtime.model import Model
from pylite.validation.accuracy_report import finite
from pylite.validation.called import parts_of
from pylite.validation.data import Samples, source_of
from pylite.validation.evidence import Settings
from pylite.validation.floating import keep_in_float
from pylite.validation.printed import Printed
from pylite.validation.repair_steps import STEPS
from pylite.validation.repairer import Repairer
from pylite.validation.resuming import Journal
from pylite.validation.scoring import scored
from pylite.validation.sources import Source
from pylite.validation.steps import Step
from pylite.validation.widening import quantized, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from numpy.typing import ArrayLike

    from pylite.display.text_table import Table
    from pylite.ir.graph import Subgraph
    from pylite.validation.accuracy_report import Metric
    from pylite.validation.data import Numbers

VERSION = 1
SAMPLES = 64            # unless told, spread evenly over the data


@dataclass
class Figures:
    """The accuracy of the held-out samples: the name of its metric, and the Metric before and after."""
    metric: str
    before: Metric | None
    after: Metric | None


@dataclass(repr=False)
class Repair(Printed):
    """A repaired model.

    before_db, after_db: the SQNR of the outputs (their mean, if there are several) on the held-out samples
    fitted, held_out: numbers of samples; steps: all that were tried, in order; in_float: nodes that now run in float
    notes: assumptions; contents: the .tflite file; accuracy: None if it was not measured
    """
    model: str
    reference: str
    fitted: int
    held_out: int
    before_db: float
    after_db: float
    steps: list[Step]
    in_float: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    contents: bytes = field(default=b"", repr=False)
    accuracy: Figures | None = None

    def to_dict(self) -> dict[str, Any]:
        """`repair` in docs/validation.schema.json."""
        fields = asdict(self)
        del fields["contents"]
        return {"version": VERSION, **finite(fields)}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def lines(self, table: Table = text_table.table) -> list[str]:
        """The result as text.  table: makes the lines of tables."""
        def figure(metric: Metric | None) -> tuple[str, ...]:
            return () if self.accuracy is None else ("" if metric is None else str(metric),)
        a = self.accuracy
        rows = [("the model as it is", f"{self.before_db:.1f} dB", "", "", *figure(a.before if a else None))]
        value, more = self.before_db, () if a is None else (a.metric,)
        for step in self.steps:
            name = f"{step.name} ({step.changed}{': ' if step.detail else ''}{step.detail})"
            rows.append((name, f"{value + step.gained_db:.1f} dB", f"{step.gained_db:+.1f} dB",
                         "" if step.kept else "not kept", *figure(step.metric)))
            value += step.gained_db if step.kept else 0.0
        rows.append(("repaired", f"{self.after_db:.1f} dB", f"{self.after_db - self.before_db:+.1f} dB", "",
                     *figure(a.after if a else None)))
        return [f"{os.path.basename(self.model)} against {os.path.basename(self.reference)}: fitted on "
                f"{counted(self.fitted, 'sample')}, measured on {self.held_out} others",
                *table(("step", "SQNR", "gained", "", *more), rows, ("SQNR", "gained", *more)),
                *(f"note: {note}" for note in self.notes)]


def repair(model: str | os.PathLike[str], reference: str | os.PathLike[str],
           data: str | os.PathLike[str] | Sequence[Sequence[ArrayLike]], *, samples: int | None = None,
           mean: Numbers | None = None, std: Numbers | None = None, rate: float | None = None,
           pictures: str | os.PathLike[str] | None = None, threads: int = 1, allow_float: bool = False,
           target: float | None = None, accuracy: Settings | None = None,
           metric: str | Callable[..., Any] | None = None, state: str | os.PathLike[str] | None = None,
           progress: Callable[[int, int], object] | None = None) -> Repair:
    """Repair a quantized model: the same graph with less error against its float reference; returns a Repair.

    Weights and biases are taken from the float model, weights get a scale for each channel where the op allows it,
    ranges are calibrated again, channels are scaled across layers where that helps, weights are rounded so that their
    errors cancel, and biases are corrected by the mean error of each channel.  Every second sample decides whether a
    step is kept; steps are chosen on the others.  Inputs keep their scale and zero point.  The same arguments give the
    same file.

    samples: use the first N samples (default: SAMPLES, spread evenly over the data).
    allow_float: as the last step, run nodes in float: the smallest set that brings the SQNR to `target` (in decibels),
    or, without a target, each node that gains 1 dB.
    accuracy, metric: also measure the accuracy on the held-out samples, by labels or by a function of your own, and
    keep no step that lowers it.  Samples in memory have no labels.
    state: a file that keeps measurements, so that the same call continues after an interruption.  It is started again
    if the models, the samples, the versions of pylite and numpy, the CPU or `threads` differ, or if it is damaged.
    progress: called with the number of steps done, and of all steps.
    The other arguments are those of pylite.validation.compare().
    Raises ComparisonError (a ValueError) if the models or the data do not fit, or the model has no quantized tensors.
    """
    model, reference = models.named(model), models.named(reference)
    original, other = Model(model), widened(reference)
    graph = original.graph.subgraphs[0]
    if not any(map(quantized, graph.tensors)):
        raise ComparisonError(f"{model}: has no quantized tensors, so there is nothing to repair; are the model and "
                              f"the reference swapped?")
    source = source_of(data, [graph.tensors[i] for i in graph.inputs])
    taken = Samples(source, graph, mean, std, samples, rate=rate,
                    metadata={**other.graph.metadata, **original.graph.metadata},
                    pictures=None if pictures is None else os.fspath(pictures))
    notes = [*taken.notes, *_untouched(graph)]
    count = len(taken) if samples is not None or isinstance(source, Source) else min(SAMPLES, len(taken))
    fit, held = _halves(len(taken), count)
    if metric is not None:
        accuracy = replace(accuracy or Settings(), metric=metric)
    measured = None if accuracy is None else _Measured(taken, held, accuracy, threads, other)
    halves = [taken[i] for i in fit], [taken[i] for i in held]
    journal = Journal.of(state, original, other, *halves, threads)
    notes += [] if journal.note is None else [journal.note]
    with journal:
        repairer = Repairer(original, other, *halves, threads, measured, journal)
        before = repairer.metric
        repairer.run(STEPS, progress)
        contents, in_float = repairer.written(), list[int]()
        found_in_float = keep_in_float(repairer, repairer.reference, target, progress) if allow_float else None
        if found_in_float is not None:
            step, contents, in_float = found_in_float
            repairer.enter(step)
    notes += _unchanged(repairer.steps)
    figures = None if measured is None else Figures(measured.name, before, repairer.metric)
    return Repair(model, reference, fitted=len(fit), held_out=len(held), before_db=repairer.before_db,
                  after_db=repairer.held_db, steps=repairer.steps, in_float=in_float, notes=notes, contents=contents,
                  accuracy=figures)


def _untouched(graph: Subgraph) -> Iterator[str]:
    """A line for each node that calls a subgraph."""
    for operator in graph.operators:
        if parts_of(operator):
            yield (f"the subgraphs that node {operator.index} ({operator.name}) calls stay as they are: a repair "
                   "changes the main subgraph only")


def _unchanged(steps: Sequence[Step]) -> list[str]:
    """A note if no step was kept."""
    return [] if any(step.kept for step in steps) else [
        "no step helped on the held-out samples, so the repaired model is the model as it is"]


class _Measured:
    """A function from a model to its Metric on some of the samples.  name: the metric's, after the first call."""

    def __init__(self, samples: Samples, numbers: Sequence[int], settings: Settings, threads: int,
                 reference: Model) -> None:
        self._arguments = samples, numbers, settings, threads, reference
        self.name = ""

    def __call__(self, model: Model) -> Metric:
        accuracy = scored(model, *self._arguments)
        self.name = accuracy.main
        return accuracy.metrics[accuracy.main]


def _halves(available: int, count: int) -> tuple[list[int], list[int]]:
    """(numbers of the samples on which steps are chosen, of the held-out samples): `count` in all, spread evenly."""
    if count < 2:
        raise ComparisonError(f"a repair needs at least two samples, one to choose steps and one to judge them; there "
                              f"are {count}")
    numbers = [i * available // count for i in range(count)]
    return numbers[::2], numbers[1::2]
