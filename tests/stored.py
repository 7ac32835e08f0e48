"""The peer's outputs in small files beside the tests: they mean something without the peer, too.

A test module has STORED, its file, and store(), which makes it anew with the peer: `python -m tests.test_converted`.
"""
from functools import cache

import numpy as np


def save(path, results):
    """results: {name: list of arrays}; strings are arrays of objects."""
    np.savez_compressed(path, **{f"{name}/{i}": array.astype("S") if array.dtype == object else array
                                 for name, arrays in results.items() for i, array in enumerate(arrays)})


@cache
def load(path):
    """What save() was given."""
    results = {}
    with np.load(path) as stored:
        for key, array in stored.items():
            name, _, i = key.rpartition("/")
            results.setdefault(name, {})[int(i)] = array.astype(object) if array.dtype.kind == "S" else array
    return {name: [arrays[i] for i in range(len(arrays))] for name, arrays in results.items()}
