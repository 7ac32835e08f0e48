"""Compares a quantized model with its float reference, tensor by tensor, and says which node is wrong and why.

    from pylite import validation
    report = validation.compare("model_int8.tflite", "model_float.tflite", "samples.npz")
    print(report.ranking[:3], report.by_node(report.ranking[0]).cause)
"""
from __future__ import annotations

import os
import time
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.runtime.model import Model
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.data import fitted
from pylite.validation.partial import Partial, identity
from pylite.validation.report import Report, TensorReport
from pylite.validation.widening import widened
from pylite.validation.workers import Measurer, Task, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike

__all__ = ["Report", "TensorReport", "compare", "merge"]
SAVE_SECONDS = 10       # between two times that sums are saved


def compare(model: str | os.PathLike[str], reference: str | os.PathLike[str],
            data: str | os.PathLike[str] | Iterable[Sequence[ArrayLike]], *, samples: int | None = None,
            mean: Sequence[float] | None = None, std: Sequence[float] | None = None,
            local_samples: int | None = None, threads: int = 1, workers: int = 1, shard: tuple[int, int] = (1, 1),
            save: str | os.PathLike[str] | None = None, histograms: bool = False,
            progress: Callable[[int, int], object] | None = None) -> Report:
    """The Report of a quantized model beside its reference, on samples.

    model, reference: paths of .tflite files; a reference that is quantized is compared as the real numbers that its
    constants represent.  data: a path, as `pylite.validation.data` lists them, or an iterable of samples: sequences
    with an array of real numbers for each input.  samples, local_samples: take, or measure single nodes by, that many
    of the first samples at most.  mean, std: of pixels.  threads: for one run of a model.
    histograms: count the values of each tensor, of its reference and of the error, for TensorReport.histograms.

    For paths alone: workers: processes; the Report is the same to the last bit for any number.  shard: (i, n) measures
    the i-th of n parts of the samples.  save: a file for the sums, which `merge` takes; what it holds already is not
    measured again.  progress: called with the numbers of samples done and in all.
    Raises ComparisonError (a ValueError) where the two, or the data, do not fit.
    """
    if isinstance(data, (str, os.PathLike)):
        task = Task(os.fspath(model), os.fspath(reference), os.fspath(data), samples, mean, std, local_samples, threads,
                    histograms)
        return _compared(task, workers, shard, save, progress)
    comparison = Comparison(Model(model), widened(reference), threads, histograms)
    tensors = [comparison.subgraph.tensors[i] for i in comparison.subgraph.inputs]
    for number, arrays in enumerate(islice(data, samples)):
        taken = [fitted(*pair) for pair in zip(arrays, tensors, strict=True)]
        comparison.add(taken, local_samples is None or number < local_samples)
    if not comparison.samples:
        raise ComparisonError("there are no samples")
    return analyse(comparison, model, reference)


def _compared(task: Task, workers: int, shard: tuple[int, int], save: str | os.PathLike[str] | None,
              progress: Callable[[int, int], object] | None) -> Report:
    measurer = Measurer(task)
    part, parts = shard
    count = len(measurer.samples)
    if not 1 <= part <= parts <= count:
        raise ComparisonError(f"shard {part}/{parts} of {count} samples: there is no such part")
    numbers = range(count * (part - 1) // parts, count * part // parts)
    total = _kept(save, measurer, numbers)
    missing = [i for i in numbers if total is None or i not in total.done]
    saved = time.monotonic()
    for partial in measured(measurer, missing, workers):
        if total is None:
            total = partial
        else:
            total.merge(partial)
        if save is not None and time.monotonic() - saved > SAVE_SECONDS:
            total.save(save)
            saved = time.monotonic()
        if progress is not None:
            progress(len(total.done), len(numbers))
    assert total is not None
    if save is not None:
        total.save(save)
    return _report(measurer.comparison, total, task.model, task.reference)


def _kept(save: str | os.PathLike[str] | None, measurer: Measurer, numbers: range) -> Partial | None:
    """The sums that an earlier run has saved, or None."""
    if save is None or not os.path.exists(save):
        return None
    kept = Partial.load(save)
    if kept.header != measurer.header or not kept.done <= set(numbers):
        raise ComparisonError(f"{save}: holds sums of other models, data, settings or samples; remove it to begin anew")
    return kept


def merge(model: str | os.PathLike[str], reference: str | os.PathLike[str],
          files: Sequence[str | os.PathLike[str]]) -> Report:
    """The Report of the sums in files that `compare` saved, for parts of the samples, perhaps on other machines.

    Raises ComparisonError where they are of other models, or overlap.
    """
    comparison = Comparison(Model(model), widened(reference))
    total = Partial.load(files[0])
    for file in files[1:]:
        total.merge(Partial.load(file))
    if total.header != identity(comparison, total.header["samples"], total.header["settings"]):
        raise ComparisonError(f"{files[0]}: holds sums of other models than {model} and {reference}")
    return _report(comparison, total, model, reference)


def _report(comparison: Comparison, total: Partial, model: str | os.PathLike[str],
            reference: str | os.PathLike[str]) -> Report:
    if not comparison.grids:
        comparison.prepare([np.zeros(shape, np.float32) for shape in total.shapes])
    comparison.take(total.sums, len(total.done))
    return analyse(comparison, model, reference)
