"""What to measure: the models, data and settings of a measurement, and the object that measures samples."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pylite.runtime.model import Model
from pylite.validation import origins
from pylite.validation.comparison import Comparison
from pylite.validation.data import Samples, listed
from pylite.validation.matching import check_inputs
from pylite.validation.partial import TALLY, Partial, identity
from pylite.validation.scoring import Scorer
from pylite.validation.statistics import Grid
from pylite.validation.tally import Tally
from pylite.validation.widening import reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pylite.validation.data import Numbers
    from pylite.validation.evidence import Settings
    from pylite.validation.partial import Sums
    from pylite.validation.sources import Source


@dataclass(frozen=True)
class Measurement:
    """The models, data and settings to measure; each process makes a Measurer from it.

    The attributes are the arguments of `pylite.validation.compare` and `accuracy`.
    """
    model: str
    reference: str | None
    data: str | Source
    samples: int | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    local_samples: int | None = None
    threads: int = 1
    histograms: bool = False
    tensors: int | None = None
    rate: float | None = None
    pictures: str | None = None
    accuracy: Settings | None = None
    prepare: Callable[[], object] | None = None
    precision: str | None = None

    def settings(self) -> dict[str, object]:
        """The settings that change the sums, for identity()."""
        return {"mean": listed(self.mean), "std": listed(self.std),
                "local_samples": self.local_samples, "histograms": self.histograms, "tensors": self.tensors,
                "rate": self.rate, **({"precision": self.precision} if self.precision else {})}


class Measurer:
    """The models and samples of a Measurement, ready to measure."""

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement
        paths = [path for path in (measurement.model, measurement.reference) if path is not None]
        models = [Model(path) for path in paths]
        models[0].half = measurement.precision == "float16"
        if len(models) == 2:
            check_inputs(*(model.graph.subgraphs[0] for model in models))
        self.comparison = None if measurement.reference is None or measurement.tensors == 0 else Comparison(
            models[0], reference_of(measurement.reference, measurement.model, measurement.precision),
            measurement.threads, measurement.histograms,
            alone=measurement.local_samples != 0, origins=True)
        self._shown = sys.maxsize if measurement.local_samples is None else measurement.local_samples
        metadata = {name: data for model in reversed(models) for name, data in model.graph.metadata.items()}
        self.samples = Samples(measurement.data, models[0].graph.subgraphs[0], measurement.mean, measurement.std,
                               measurement.samples, metadata=metadata, rate=measurement.rate,
                               pictures=measurement.pictures)
        self.scorer, facts = None, {}
        if measurement.accuracy is not None:
            self.scorer = Scorer(models, self.samples, measurement.accuracy, measurement.threads)
            facts = {"accuracy": {**measurement.accuracy.to_dict(), **self.scorer.facts}}
        self._grids = [Grid.of(models[0].graph.subgraphs[0].tensors[i]) for i in models[0].graph.subgraphs[0].inputs]
        self.header = identity(models, len(self.samples), measurement.settings() | facts)

    def measure(self, numbers: Sequence[int]) -> Partial:
        """The sums of the samples with these numbers."""
        tally, shapes = Tally(), list[list[int]]()
        if self.comparison is not None:
            self.comparison.clear()
        for number in numbers:
            arrays = self.samples[number]
            shapes = [list(array.shape) for array in arrays]
            for position, (array, grid) in enumerate(zip(arrays, self._grids, strict=True)):
                tally.counts["saturated", position] += grid is not None and grid.saturates(array)
            if self.comparison is not None and number < (self.measurement.tensors or sys.maxsize):
                self.comparison.add(arrays, number < self._shown, number < origins.SAMPLES)
            if self.scorer is not None:
                self.scorer.add(tally, number, arrays)
        sums: dict[str, Sums] = {} if self.comparison is None else dict(self.comparison.sums())
        return Partial(self.header, shapes, numbers, {**sums, TALLY: tally})


def measurer_of_worker(measurement: Measurement) -> Measurer:
    """The Measurer of a worker process, which gets only the Measurement."""
    if measurement.prepare is not None:
        measurement.prepare()
    return Measurer(measurement)
