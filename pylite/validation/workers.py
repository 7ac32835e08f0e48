"""Measures samples in chunks, in this process or in several, and survives the loss of one.

A chunk's sums arrive as a whole or not at all, so a process that is killed loses no sample and counts none twice.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
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
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from pylite.validation.data import Numbers
    from pylite.validation.partial import Sums
    from pylite.validation.scoring import Settings
    from pylite.validation.sources import Source

LARGEST_CHUNK = 256     # most samples in a chunk: sums travel between processes once for each chunk
CHUNKS = 8              # chunks for each process, so that all end at about the same time
LOSSES = 3              # losses per process, without a chunk done in between, after which the measurement fails


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


def measured(measurer: Measurer, numbers: Sequence[int], workers: int = 1) -> Iterator[Partial]:
    """The Partials of these samples, each as soon as its chunk is done.  ComparisonError if processes keep dying."""
    parts = chunks(numbers, workers)
    if workers > 1 and len(parts) > 1:
        return _in_processes(measurer.measurement, parts, min(workers, len(parts)))
    return (measurer.measure(chunk) for chunk in parts)


def chunks(numbers: Sequence[int], workers: int) -> list[Sequence[int]]:
    """The samples, divided into chunks that `workers` processes take in turn."""
    size = min(LARGEST_CHUNK, max(1, len(numbers) // (workers * CHUNKS)))
    return [numbers[i:i + size] for i in range(0, len(numbers), size)]


def _in_processes(measurement: Measurement, waiting: list[Sequence[int]], workers: int) -> Iterator[Partial]:
    """Measure chunks; each process has a pipe of its own, so one that is killed while it writes harms no other."""
    context = multiprocessing.get_context("spawn")
    busy: dict[Connection, tuple[BaseProcess, Sequence[int]]] = {}
    losses = 0

    def begin() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(measurement, theirs), daemon=True)
        # Ctrl-C is for this process, which kills the others.  They inherit the mask: one that only sets a handler
        # shows a traceback if the signal comes while it starts.
        resource_tracker.ensure_running()       # start() would do so, and unblock the signal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()      # the process has the only other end: when it dies, reading fails
        busy[ours] = process, ()

    def give(pipe: Connection) -> None:
        busy[pipe] = busy[pipe][0], waiting.pop()
        with contextlib.suppress(OSError):      # a process that is gone is noticed when its answer is read
            pipe.send(busy[pipe][1])

    try:
        waiting.reverse()
        for _ in range(workers):
            begin()
            give(next(reversed(busy)))
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                process, chunk = busy[pipe]
                try:
                    answer = pipe.recv()
                except (EOFError, OSError, UnpicklingError):
                    del busy[pipe]
                    waiting.append(chunk)
                    losses += 1
                    if losses == LOSSES * workers:
                        raise ComparisonError(f"{losses} worker processes were lost in a row, perhaps for lack of "
                                              "memory; use fewer workers") from None
                    begin()
                    pipe = next(reversed(busy))
                else:
                    if isinstance(answer, BaseException):
                        raise answer
                    losses = 0
                    yield answer
                if waiting:
                    give(pipe)
                else:
                    busy.pop(pipe)[0].kill()
    finally:
        for process, _ in busy.values():
            process.kill()


def _serve(measurement: Measurement, pipe: Connection) -> None:
    """A worker process: measure what comes through the pipe, until it is killed."""
    try:
        measurer = measurer_of_worker(measurement)
        while True:
            pipe.send(measurer.measure(pipe.recv()))
    except EOFError:        # the first process is gone
        return
    except Exception as error:
        pipe.send(error)
