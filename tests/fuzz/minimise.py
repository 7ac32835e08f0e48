"""Makes the model of a case that fails smaller, as long as it fails in the same way."""
from pathlib import Path

import numpy as np

from pylite.schema.writer import write
from tests.fuzz import mutate
from tests.fuzz.runner import fault

FOUND = Path(__file__).parent / "found"     # models that once failed; tests/fuzz/test_fuzz.py runs them


def minimise(seed, number, fails):
    """(bytes of the smallest model that was found, mutations left); fails(bytes) -> does it fail in the same way?"""
    rng, history = np.random.default_rng([seed, number]), []
    origin, content = mutate.model(rng, history)
    *steps, end = history

    def made(some):
        record = mutate.replayed(origin, [*some, end], rng)
        return mutate.finished(record, origin, rng)
    steps = without(steps, lambda some: fails(made(some)))
    content, record = made(steps), mutate.replayed(origin, steps, rng)
    try:
        plain = write(record)
    except Exception:       # the file that is written then is the seed, damaged
        return content, steps
    if fails(plain):
        content = plain
        reduce(record, fails)
        content = write(record)
    return content, steps


def without(items, fails):
    """The items of a list that are needed for a failure; fails(list)."""
    at = len(items)
    while at:
        at -= 1
        rest = items[:at] + items[at + 1:]
        if fails(rest):
            items = rest
    return items


def reduce(record, fails):
    """Remove operators, outputs, signatures, metadata and contents of buffers from a model while it fails."""
    def tried(owner, name, smaller):
        before = getattr(owner, name)
        setattr(owner, name, smaller)
        try:
            failed = fails(write(record))
        except Exception:       # it cannot be written
            failed = False
        if not failed:
            setattr(owner, name, before)
        return failed
    for name in ("signature_defs", "metadata", "metadata_buffer", "description"):
        if getattr(record, name) is not None:
            tried(record, name, None)
    for subgraph in record.subgraphs or []:
        for name in ("operators", "outputs"):
            items = list(getattr(subgraph, name) or ())
            kind = type(getattr(subgraph, name))
            if items:
                without(items, lambda rest, o=subgraph, n=name, k=kind: tried(o, n, k(rest)))


def store(seed, number):
    """Minimise a case and store its model in FOUND; returns its path, or None where the case does not fail."""
    _, content = mutate.model(np.random.default_rng([seed, number]))
    first = fault(seed, number, content)
    if first is None:
        return None
    small, _ = minimise(seed, number, lambda model: fault(seed, number, model) == first)
    path = FOUND / f"{seed}-{number}.tflite"
    FOUND.mkdir(exist_ok=True)
    path.write_bytes(small)
    return path
