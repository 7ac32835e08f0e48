"""Measures samples in chunks, in this process or in several, and survives the loss of one.

A chunk's sums arrive as a whole or not at all, so a process that is killed loses no sample and counts none twice.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import signal
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.validation.measurement import measurer_of_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from pylite.validation.measurement import Measurement, Measurer
    from pylite.validation.partial import Partial

LARGEST_CHUNK = 256     # most samples in a chunk: sums travel between processes once for each chunk
CHUNKS = 8              # chunks for each process, so that all end at about the same time
LOSSES = 3              # losses per process, without a chunk done in between, after which the measurement fails


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


class _Processes:
    """Worker processes, each with a pipe of its own, so that one that is killed while it writes harms no other.

    waiting: the chunks that no process has yet, the next one last.
    """

    def __init__(self, measurement: Measurement, chunks: Sequence[Sequence[int]]) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._measurement = measurement
        self._busy: dict[Connection, tuple[BaseProcess, Sequence[int]]] = {}
        self.waiting = list(reversed(chunks))

    def start(self) -> None:
        """Start a process, and give it the next chunk."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_run_worker, args=(self._measurement, theirs), daemon=True)
        # Ctrl-C is for this process, which kills the others.  They inherit the mask: one that only sets a handler
        # shows a traceback if the signal comes while it starts.
        resource_tracker.ensure_running()       # start() would do so, and unblock the signal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()      # the process has the only other end: when it dies, reading fails
        self._give(ours, process)

    def _give(self, pipe: Connection, process: BaseProcess) -> None:
        """Send the next chunk to a process."""
        self._busy[pipe] = process, self.waiting.pop()
        with contextlib.suppress(OSError):      # a process that is gone is noticed when its answer is read
            pipe.send(self._busy[pipe][1])

    def results(self, most_losses: int) -> Iterator[Partial]:
        """The Partials of all chunks, as they are done.

        Starts a process in place of each that is lost; ComparisonError after so many without a chunk done in between.
        """
        losses = 0
        while self._busy:
            for pipe in wait(list(self._busy)):
                assert isinstance(pipe, Connection)
                process, chunk = self._busy[pipe]
                try:
                    answer = pipe.recv()
                except (EOFError, OSError, UnpicklingError):
                    del self._busy[pipe]
                    self.waiting.append(chunk)
                    losses += 1
                    if losses == most_losses:
                        raise ComparisonError(f"{losses} worker processes were lost in a row, perhaps for lack of "
                                              "memory; use fewer workers") from None
                    self.start()
                    continue
                if isinstance(answer, BaseException):
                    raise answer
                losses = 0
                yield answer
                if self.waiting:
                    self._give(pipe, process)
                else:
                    self._busy.pop(pipe)[0].kill()

    def kill(self) -> None:
        """Kill all processes that have a chunk."""
        for process, _ in self._busy.values():
            process.kill()


def _in_processes(measurement: Measurement, parts: Sequence[Sequence[int]], workers: int) -> Iterator[Partial]:
    """Measure chunks in as many processes."""
    processes = _Processes(measurement, parts)
    try:
        for _ in range(workers):
            processes.start()
        yield from processes.results(LOSSES * workers)
    finally:
        processes.kill()


def _run_worker(measurement: Measurement, pipe: Connection) -> None:
    """A worker process: measure what comes through the pipe, until it is killed."""
    try:
        measurer = measurer_of_worker(measurement)
        while True:
            pipe.send(measurer.measure(pipe.recv()))
    except EOFError:        # the first process is gone
        return
    except Exception as error:
        pipe.send(error)
