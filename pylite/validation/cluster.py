"""Measures samples on a Dask cluster: the same sums as processes of this machine make.

If a worker is lost, the scheduler gives its chunks to others; it returns each chunk's sums once.
"""
from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.validation.measurement import measurer_of_worker
from pylite.validation.workers import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pylite.validation.measurement import Measurement, Measurer
    from pylite.validation.partial import Partial

TIMEOUT = 30        # seconds until the scheduler has answered
_mine = threading.local()       # of each thread of a worker: (pickled Measurement, its Measurer)


def measured(measurement: Measurement, numbers: Sequence[int], scheduler: str) -> Iterator[Partial]:
    """The Partials of these samples, as chunks are done by the workers of a scheduler, "tcp://host:port".

    Workers have pylite and find the models and the data by the same paths.  Raises ComparisonError if distributed is
    not installed, the scheduler is not found, or workers keep dying.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError:
        raise ComparisonError("--dask takes the package distributed: pip install 'pylite-runtime[dask]'") from None
    try:
        client = Client(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise ComparisonError(f"--dask {scheduler}: no scheduler answers there ({error})") from None
    with client:
        wanted = pickle.dumps(measurement)
        threads = max(1, sum(client.nthreads().values()))
        futures = [client.submit(measure, wanted, list(chunk), pure=False) for chunk in chunks(numbers, threads)]
        try:
            for future, partial in as_completed(futures, with_results=True):
                yield partial
                future.release()
        except KilledWorker as error:
            raise ComparisonError(f"--dask {scheduler}: workers are lost again and again, perhaps for lack of memory "
                                  f"({error})") from None
        finally:
            client.cancel(futures)


def measure(wanted: bytes, numbers: Sequence[int]) -> Partial:
    """The sums of these samples, in a worker, whose threads each make the Measurer of a pickled Measurement once."""
    if getattr(_mine, "measurement", None) != wanted:
        _mine.measurer, _mine.measurement = measurer_of_worker(pickle.loads(wanted)), wanted
    measurer: Measurer = _mine.measurer
    return measurer.measure(numbers)
