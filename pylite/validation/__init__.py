"""Compares a quantized model with its float reference, tensor by tensor, and says which node is wrong and why.

    from pylite import validation
    report = validation.compare("model_int8.tflite", "model_float.tflite", "samples.npz")
    print(report.ranking[:3], report.by_node(report.ranking[0]).cause)
"""
from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.runtime.model import Model
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.data import Samples, fitted
from pylite.validation.report import Report, TensorReport
from pylite.validation.widening import widened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["Report", "TensorReport", "compare"]


def compare(model: str | os.PathLike[str], reference: str | os.PathLike[str],
            data: str | os.PathLike[str] | Iterable[Sequence[ArrayLike]], *, samples: int | None = None,
            mean: Sequence[float] | None = None, std: Sequence[float] | None = None,
            local_samples: int | None = None, threads: int = 1) -> Report:
    """The Report of a quantized model beside its reference, on samples.

    model, reference: paths of .tflite files; a reference that is quantized is compared as the real numbers that its
    constants represent.  data: a path, as `pylite.validation.data` lists them, or an iterable of samples: sequences
    with an array of real numbers for each input.  samples, local_samples: take, or measure single nodes by, that many
    of the first samples at most.  mean, std: of pixels.  threads: for one run of a model.
    Raises ComparisonError (a ValueError) where the two, or the data, do not fit.
    """
    comparison = Comparison(Model(model), widened(reference), threads)
    taken: Any
    if isinstance(data, (str, os.PathLike)):
        taken = Samples(data, comparison.subgraph, mean, std, samples)
    else:
        tensors = [comparison.subgraph.tensors[i] for i in comparison.subgraph.inputs]
        taken = islice(([fitted(*pair) for pair in zip(arrays, tensors, strict=True)] for arrays in data), samples)
    for number, arrays in enumerate(taken):
        comparison.add(arrays, local_samples is None or number < local_samples)
    if not comparison.samples:
        raise ComparisonError("there are no samples")
    return analyse(comparison, model, reference)
