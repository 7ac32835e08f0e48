"""Compares a quantized model with its float reference, tensor by tensor, and says which node is wrong and why.

    from pylite import validation
    report = validation.compare("model_int8.tflite", "model_float.tflite", "samples.npz")
    print(report.ranking[:3], report.by_node(report.ranking[0]).cause)
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError, shortened
from pylite.media import models
from pylite.runtime.model import Model
from pylite.validation.accuracy_report import TASKS, Accuracy
from pylite.validation.comparison import Comparison
from pylite.validation.evidence import Settings
from pylite.validation.measurement import Measurement
from pylite.validation.measuring import report_in_memory, report_of, report_of_sums
from pylite.validation.partial import Partial, identity
from pylite.validation.report import Report, TensorReport
from pylite.validation.sources import Source
from pylite.validation.widening import quantized, reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from numpy.typing import ArrayLike

    from pylite.validation.data import Numbers

    Labelled = Sequence[tuple[Any, Any]]

__all__ = ["TASKS", "Accuracy", "Report", "Settings", "TensorReport", "accuracy", "compare", "merge"]


def __dir__() -> list[str]:
    """The public names, for completion in a shell."""
    return [*__all__]


def compare(model: str | os.PathLike[str], reference: str | os.PathLike[str],
            data: str | os.PathLike[str] | Iterable[Sequence[ArrayLike]], *, samples: int | None = None,
            mean: Numbers | None = None, std: Numbers | None = None,
            local_samples: int | None = None, threads: int = 1, workers: int = 1, shard: tuple[int, int] = (1, 1),
            save: str | os.PathLike[str] | None = None, histograms: bool = False, tensors: int | None = None,
            rate: float | None = None, pictures: str | os.PathLike[str] | None = None, accuracy: Settings | None = None,
            dask: str | None = None, prepare: Callable[[], object] | None = None,
            progress: Callable[[int, int], object] | None = None,
            metric: str | Callable[..., Any] | None = None, precision: str | None = None) -> Report:
    """Compare a quantized model with its float reference, tensor by tensor; returns a Report.

    model, reference: paths of .tflite files, or names of bundled models such as "digits".  If the reference is
    quantized, the real numbers that its constants represent are used.
    data: a path (docs/validation-data.md lists the kinds), or an iterable of samples, each a sequence with an array of
    real numbers for each input.
    samples: use the first N samples; None: all.
    mean, std: for pictures, one number or one per channel; pixels become (pixel - mean) / std.
    local_samples: measure single nodes on the first N samples; None: all.  0 skips that and ranks the nodes by their
    cumulative error, which takes less than half the time.
    threads: threads of one run.
    metric: a function metric(outputs, labels) or metric(outputs, labels, reference), or its name "module:function",
    which returns one number for the outputs of all samples (docs/validation-data.md).  Samples in memory must then be a
    sequence, and have no labels; accuracy() takes pairs of samples and labels.
    precision: "float16" computes the model as Interpreter(precision="float16") does; the reference stays in float32 and
    may be the same file, whose integers then stay integers.  CPUs that lack float16 emulate it.
    histograms: count the values of each tensor, its reference and its error, for TensorReport.histograms.

    Only if `data` is a path:
    workers: the number of processes.  The Report does not depend on it, to the last bit.
    shard: (i, n) measures part i of n of the samples.
    save: a file that keeps the sums, for merge() or to continue later.
    tensors: compare tensors on the first N samples only.
    rate: the sample rate of the model's sound input, in Hz.
    pictures: the folder of COCO's pictures.
    accuracy: Settings, to measure the accuracy of both models as well; the data need labels.
    dask: the address of a Dask scheduler; its workers then share the samples and must find the files by the same paths.
    prepare: called first in each process of `workers` and `dask`, for instance to register custom ops: a function of a
    module, or a functools.partial of one.
    progress: called with the number of samples done, and of all samples.

    Raises ComparisonError (a ValueError) if the models or the data do not fit each other.
    """
    _check_workers(workers)
    if precision not in (None, "float32", "float16"):
        raise ComparisonError(f"precision must be 'float16' or 'float32', not {precision!r}")
    model, reference = models.named(model), models.named(reference)
    if metric is not None:
        accuracy = replace(accuracy or Settings(), metric=metric)
    if isinstance(data, (str, os.PathLike)) or metric is not None:
        source = os.fspath(data) if isinstance(data, (str, os.PathLike)) else _unlabelled(data, workers, save, dask)
        measurement = Measurement(model, reference, source, samples, mean, std, local_samples=local_samples,
                                  threads=threads, histograms=histograms, tensors=tensors, rate=rate,
                                  pictures=_path(pictures), accuracy=accuracy, prepare=prepare, precision=precision)
        return report_of(measurement, workers, shard, save, progress, dask)
    if not hasattr(data, "__iter__"):
        kind = "None" if data is None else f"of type {type(data).__name__}"
        raise ComparisonError(f"the data is {kind}; expected a file, a folder, or samples: lists with an array for "
                              "each input")
    opened = Model(model)
    opened.half = precision == "float16"
    comparison = Comparison(opened, reference_of(reference, model, precision), threads, histograms,
                            alone=local_samples != 0, origins=True)
    return report_in_memory(comparison, model, reference, data, samples, local_samples, threads)


def accuracy(model: str | os.PathLike[str], data: str | os.PathLike[str] | Labelled,
             reference: str | os.PathLike[str] | None = None, *, task: str | None = None,
             labels: str | os.PathLike[str] | None = None, label_offset: int | None = None, output: str | None = None,
             samples: int | None = None, mean: Numbers | None = None, std: Numbers | None = None,
             rate: float | None = None, pictures: str | os.PathLike[str] | None = None, threads: int = 1,
             workers: int = 1, shard: tuple[int, int] = (1, 1), save: str | os.PathLike[str] | None = None,
             dask: str | None = None, prepare: Callable[[], object] | None = None,
             progress: Callable[[int, int], object] | None = None,
             metric: str | Callable[..., Any] | None = None) -> Accuracy:
    """The Accuracy of a model, and of a reference if there is one, on labelled data.

    data: a path (docs/validation-data.md lists the kinds), or a sequence of (sample, label).  A sample is an array of
    real numbers, or a list with one for each input; a label is a class, numbers, a mask or None.
    task: one of `TASKS`; by default found from the outputs and labels.
    labels: a file with the names of the classes (default: the model's), or "sorted": the data's labels in alphabetical
    order.
    label_offset: added to labels that are numbers.
    output: the name of the output that counts.
    The other arguments are those of compare().

    Raises ComparisonError (a ValueError) if the models and the data do not fit each other, or the task is ambiguous.
    """
    _check_workers(workers)
    settings = Settings(task, _path(labels), label_offset, output, metric)
    source: str | Source
    if isinstance(data, (str, os.PathLike)):
        source = os.fspath(data)
    else:
        _check_alone(workers, save, dask)
        source = _source(data)
    reference = None if reference is None else models.named(reference)
    measurement = Measurement(models.named(model), reference, source, samples, mean, std, threads=threads, tensors=0,
                              rate=rate, pictures=_path(pictures), accuracy=settings, prepare=prepare)
    report = report_of(measurement, workers, shard, save, progress, dask)
    assert report.accuracy is not None
    return report.accuracy


def merge(model: str | os.PathLike[str], reference: str | os.PathLike[str] | None,
          files: Sequence[str | os.PathLike[str]]) -> Report:
    """The Report of the sums in files that `save` wrote for parts of the samples, perhaps on other machines.

    Without samples no node can be tried: `regained` is empty, and the verdict is based on the nodes' noise.
    reference: None if there was none.  Raises ComparisonError if they belong to other models, or overlap.
    """
    model, reference = models.named(model), None if reference is None else models.named(reference)
    total = Partial.load(files[0])
    for file in files[1:]:
        total.merge(Partial.load(file))
    settings, opened = total.header["settings"], [Model(path) for path in (model, reference) if path is not None]
    if total.header != identity(opened, total.header["samples"], settings):
        raise ComparisonError(f"{files[0]}: holds sums of other models than {model} and {reference}")
    precision = settings.get("precision")
    opened[0].half = precision == "float16"
    comparison = None if reference is None or settings["tensors"] == 0 else Comparison(
        opened[0], reference_of(reference, model, precision), histograms=settings["histograms"],
        alone=settings["local_samples"] != 0, origins=True)
    graph = opened[0].graph.subgraphs[0]
    return report_of_sums(comparison, total, model, reference, [graph.tensors[i] for i in graph.inputs])


def swapped(model: str | os.PathLike[str], reference: str | os.PathLike[str]) -> bool:
    """Is only the reference quantized?"""
    own, other = (any(map(quantized, Model(models.named(path)).graph.subgraphs[0].tensors))
                  for path in (model, reference))
    return other and not own


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _source(data: Labelled) -> Source:
    @lru_cache(1)       # sample and label are asked for one after the other
    def item(i: int) -> Any:
        pair = data[i]
        if not hasattr(pair, "__getitem__") or (hasattr(pair, "__len__") and len(pair) < 2):
            raise ComparisonError(f"sample {i} is {shortened(repr(pair))}; expected a pair (sample, label)")
        return pair

    def get(i: int) -> Sequence[ArrayLike]:
        sample = item(i)[0]
        return sample if isinstance(sample, (list, tuple)) else [sample]
    return Source(len(data), get, lambda i: f"sample {i}", lambda i: item(i)[1])


def _unlabelled(data: Iterable[Any], workers: int, save: str | os.PathLike[str] | None, dask: str | None) -> Source:
    _check_alone(workers, save, dask)
    if not hasattr(data, "__len__"):
        raise ComparisonError(f"a metric needs samples from a file, a folder or a sequence, not from a "
                              f"{type(data).__name__}; pass list(...) of it")
    return _source([(sample, None) for sample in data])


def _check_alone(workers: int, save: str | os.PathLike[str] | None, dask: str | None) -> None:
    if workers > 1 or save is not None or dask is not None:
        raise ComparisonError("several workers, and files of sums, need data given by its path, not as a sequence")


def _check_workers(workers: int) -> None:
    if type(workers) is not int or workers < 1:
        raise ComparisonError(f"workers is {workers!r}; expected a number of processes, at least 1")
