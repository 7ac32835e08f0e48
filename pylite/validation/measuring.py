"""Measures samples as a Measurement says, in this process or with the help of others, and reports their sums."""
from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.runtime.model import Model
from pylite.validation import nonfinite, origins, trials
from pylite.validation.analysis import analyse
from pylite.validation.data import sample_of
from pylite.validation.measurement import Measurement, Measurer
from pylite.validation.metric import check_importable
from pylite.validation.partial import TALLY, Partial
from pylite.validation.report import Report
from pylite.validation.scoring import finish
from pylite.validation.statistics import Grid
from pylite.validation.tally import Tally
from pylite.validation.verdict import OUTSIDE, SWAPPED
from pylite.validation.widening import quantized
from pylite.validation.workers import measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from pylite.ir.graph import Tensor
    from pylite.validation.comparison import Comparison

SATURATED = 0.01        # a note says so if a larger share of the samples is outside the range of an input
STORED = ("float16", "int4")        # types of constants in few bits, which nodes may read through DEQUANTIZE
SAVE_SECONDS = 10       # interval at which sums are saved


def report_of(measurement: Measurement, workers: int, shard: tuple[int, int], save: str | os.PathLike[str] | None,
              progress: Callable[[int, int], object] | None, dask: str | None) -> Report:
    """The Report of a Measurement.  The other arguments are those of pylite.validation.compare()."""
    function = _metric(measurement, workers > 1 or save is not None or dask is not None)
    measurer = Measurer(measurement)
    part, parts = shard
    count = len(measurer.samples)
    if not 1 <= part <= parts <= count:
        raise ComparisonError(f"shard {part}/{parts} of {count} samples: there is no such part; expected 1/N to N/N, "
                              "with N up to the number of samples")
    numbers = range(count * (part - 1) // parts, count * part // parts)
    total = _kept(save, measurer, numbers)
    missing = [i for i in numbers if total is None or i not in total.done]
    partials = measured(measurer, missing, workers) if dask is None else _on_cluster(measurement, missing, dask)
    total = _summed(partials, total, save, None if progress is None else lambda done: progress(done, len(numbers)))
    report = report_of_sums(measurer.comparison, total, measurement.model, measurement.reference,
                            measurer.samples.tensors, function)
    if measurer.comparison is not None:
        first = [measurer.samples[i] for i in numbers[:trials.SAMPLES]]
        report.regained = trials.regained(measurer.comparison, report, first, measurement.threads)
        report.notes += nonfinite.notes(measurer.comparison, lambda: (measurer.samples[i] for i in numbers),
                                        lambda i: measurer.samples.source.where(numbers[i]))
    if report.accuracy is None:     # otherwise it has these lines
        report.notes = [*measurer.samples.notes, *report.notes]
    return report


def _metric(measurement: Measurement, elsewhere: bool) -> Callable[..., Any] | None:
    """The metric that was given as a function; elsewhere: do other processes need it, too?"""
    given = None if measurement.accuracy is None else measurement.accuracy.metric
    if given is not None and elsewhere:
        check_importable(given)
    return None if isinstance(given, str) else given


def _summed(partials: Iterable[Partial], total: Partial | None, save: str | os.PathLike[str] | None,
            progress: Callable[[int], object] | None) -> Partial:
    """All sums added to `total`; they are saved every SAVE_SECONDS, at the end and at Ctrl-C."""
    saved, whole = time.monotonic(), True
    try:
        for partial in partials:
            whole = False       # an interrupt within the next lines would leave sums of half a chunk
            if total is None:
                total = partial
            else:
                total.merge(partial)
            whole = True
            if save is not None and time.monotonic() - saved > SAVE_SECONDS:
                total.save(save)
                saved = time.monotonic()
            if progress is not None:
                progress(len(total.done))
    finally:
        if save is not None and total is not None and whole:
            total.save(save)
    assert total is not None
    return total


def _on_cluster(measurement: Measurement, numbers: Sequence[int], scheduler: str) -> Iterable[Partial]:
    from pylite.validation import cluster  # which few need
    return cluster.measured(measurement, numbers, scheduler)


def _kept(save: str | os.PathLike[str] | None, measurer: Measurer, numbers: range) -> Partial | None:
    """The sums that an earlier run has saved, or None."""
    if save is None or not os.path.exists(save):
        return None
    kept = Partial.load(save)
    if kept.header != measurer.header or not kept.done <= set(numbers):
        raise ComparisonError(f"{save}: holds sums of other models, data, settings or samples; remove it to start over")
    return kept


def report_in_memory(comparison: Comparison, model: str, reference: str, data: Iterable[Sequence[ArrayLike]],
                     samples: int | None, local_samples: int | None, threads: int) -> Report:
    """The Report of an iterable of samples.  model, reference: the names of the two for the Report; the other arguments
    are those of pylite.validation.compare()."""
    inputs = [comparison.subgraph.tensors[i] for i in comparison.subgraph.inputs]

    def taken() -> Iterator[list[NDArray[Any]]]:
        for number, arrays in enumerate(islice(data, samples)):
            yield sample_of(arrays, inputs, number)
    outside, first = Counter[int](), []
    for number, arrays in enumerate(taken()):
        first += [arrays] if number < trials.SAMPLES else []
        outside.update(_outside(inputs, arrays))
        comparison.add(arrays, local_samples is None or number < local_samples, number < origins.SAMPLES)
    if not comparison.samples:
        raise ComparisonError("there are no samples")
    report = analyse(comparison, model, reference)
    report.notes += [*_outside_notes(inputs, outside, comparison.samples), *_kinds(comparison, reference)]
    report.regained = trials.regained(comparison, report, first, threads)
    if isinstance(data, Sequence):      # it can be read again
        report.notes += nonfinite.notes(comparison, taken, "sample {}".format)
    return report


def report_of_sums(comparison: Comparison | None, total: Partial, model: str | os.PathLike[str],
                   reference: str | os.PathLike[str] | None, inputs: Sequence[Tensor],
                   metric: Callable[..., Any] | None = None) -> Report:
    """The Report of the sums of all samples.

    comparison: to hold the sums, or None if only accuracy was measured; inputs: the model's input tensors; metric: the
    user's own, if it was given as a function
    """
    settings, tally = total.header["settings"], total.sums.pop(TALLY)
    assert isinstance(tally, Tally)
    limit = settings["tensors"]
    compared = sum(limit is None or i < limit for i in total.done)
    accuracy = finish(settings["accuracy"], tally, len(total.done), metric) if "accuracy" in settings else None
    if comparison is None or not compared:
        report = Report.of_accuracy(os.fspath(model), None if reference is None else os.fspath(reference),
                                    len(total.done), accuracy)
    else:
        if not comparison.grids:
            comparison.prepare([np.zeros(shape, np.float32) for shape in total.shapes])
        comparison.take({name: sums for name, sums in total.sums.items() if not isinstance(sums, Tally)}, compared)
        report = analyse(comparison, model, reference or "", accuracy)
    (report.accuracy or report).notes += _outside_notes(inputs, _saturated(tally, len(inputs)), len(total.done))
    if comparison is not None and compared:
        report.notes += _kinds(comparison, reference)
    return report


def _kinds(comparison: Comparison, reference: str | os.PathLike[str] | None) -> Iterator[str]:
    """A line unless the model is quantized and the reference is not."""
    subgraphs = comparison.model.graph.subgraphs
    if reference is None:
        return
    other = any(map(quantized, Model(reference).graph.subgraphs[0].tensors))
    if any(quantized(t) or t.dtype in STORED for graph in subgraphs for t in graph.tensors):
        if other and not comparison.model.half:
            yield ("the reference is quantized, too, and is computed in real numbers: errors that both models share do "
                   "not count")
    elif other:
        yield SWAPPED
    else:
        yield "the model has no quantized tensors; this compares two models of real numbers"


def _saturated(tally: Tally, count: int) -> dict[int, int]:
    """For each of `count` inputs: how many samples it does not fit."""
    return {position: tally.counts["saturated", position] for position in range(count)}


def _outside(inputs: Sequence[Tensor], arrays: Sequence[NDArray[Any]]) -> list[int]:
    """The positions of the inputs that one sample does not fit."""
    grids = enumerate(map(Grid.of, inputs))
    return [position for position, grid in grids if grid is not None and grid.saturates(arrays[position])]


def _outside_notes(inputs: Sequence[Tensor], outside: Mapping[int, float], samples: int) -> Iterator[str]:
    """A line for each input that the samples often do not fit.  outside: how many do not, by position."""
    for position, tensor in enumerate(inputs):
        share = outside[position] / samples
        grid = Grid.of(tensor)
        if share > SATURATED and grid is not None:
            yield (f"input {tensor.name!r}: in {share:.1%} of the samples, {OUTSIDE} "
                   f"{grid.lowest:.4g} to {grid.highest:.4g}, what it can represent; are they real numbers, as the "
                   "float model takes them? (--mean and --std normalize pictures only)")
