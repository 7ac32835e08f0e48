"""Compares a model with tensors that another program has computed, such as PyTorch, ONNX Runtime or ExecuTorch.

    from pylite.validation.golden import compare
    report = compare("model_int8.tflite", "goldens")    # a folder with arrays of the tensors' names
    print(report.ranking[:3])
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.media import models
from pylite.runtime.model import Model
from pylite.validation.analysis import analyse
from pylite.validation.data import Samples
from pylite.validation.golden_arrays import Folder
from pylite.validation.golden_comparison import GoldenComparison
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pylite.ir.graph import Subgraph
    from pylite.validation.report import Report


def compare(model: str | os.PathLike[str], folder: str | os.PathLike[str],
            data: str | os.PathLike[str] | None = None, *, samples: int | None = None,
            mean: Sequence[float] | None = None, std: Sequence[float] | None = None, rate: float | None = None,
            pictures: str | os.PathLike[str] | None = None, threads: int = 1, histograms: bool = False,
            progress: Callable[[int, int], object] | None = None) -> Report:
    """The Report of a model compared with the arrays of a folder, as `pylite.validation.golden_arrays` describes it.

    A tensor's array is found by its name, by part of a fused one ("a;b;c"), then without regard to case and
    punctuation.  It may have its channels first or last.  Integers of the tensor's own type count as its quantized
    values, all others as real numbers.  Single nodes run on the arrays of their inputs.
    data: the samples of the inputs, in the order of the arrays; not needed if the folder has arrays of all inputs.
    The other arguments are those of pylite.validation.compare().
    Raises ComparisonError (a ValueError) if the arrays do not fit the model or the data.
    """
    path = models.named(model)
    opened = Model(path)
    subgraph = opened.graph.subgraphs[0]
    given = None if data is None else Samples(
        os.fspath(data), subgraph, mean, std, samples, metadata=opened.graph.metadata, rate=rate,
        pictures=None if pictures is None else os.fspath(pictures))
    known, count = _opened(os.fspath(folder), subgraph, given, samples)
    comparison = GoldenComparison(opened, known, threads, histograms)
    for number in range(count):
        comparison.add(number, comparison.inputs(number) if given is None else given[number])
        if progress is not None:
            progress(number + 1, count)
    report = analyse(comparison, path, folder)
    for tensor in report.tensors:
        tensor.reference_name = comparison.names[tensor.tensor]
    report.notes += [*(given.notes if given is not None else ()), *comparison.notes()]
    return report


def _opened(path: str, subgraph: Subgraph, data: Samples | None, samples: int | None) -> tuple[Folder, int]:
    """(the arrays of a folder, how many samples to take); data: the samples of the inputs, or None."""
    inputs = [subgraph.tensors[i] for i in subgraph.inputs]
    results = [subgraph.tensors[i] for o in subgraph.operators for i in o.outputs]
    known = Folder(path, [*inputs, *(t for t in results if Grid.of(t) is not None)])
    count = known.count if samples is None else min(samples, known.count)
    if data is not None and len(data) != count:
        raise ComparisonError(f"{data.path} has {len(data)} samples, and {path} {count}; they must be the same ones, "
                              "in the same order (--samples takes the first ones of both)")
    lacking = [t.name for t in inputs if t.index not in known.arrays]
    if data is None and lacking:
        raise ComparisonError(f"{path}: has no array of the input {lacking[0]!r}; pass the samples themselves as "
                              "--data")
    return known, count
