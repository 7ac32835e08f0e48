"""Stored outputs of the peer, for machines without it.

A test module has STORED, its file, and store(), which writes the file with the peer:
`python -m tests.models.test_converted`.
"""
from functools import cache

import numpy as np


def save(path, results):
    """results: {name: list of arrays}; strings are arrays of objects."""
    np.savez_compressed(path, **{f"{name}/{i}": array.astype("S") if array.dtype == object else array
                                 for name, arrays in results.items() for i, array in enumerate(arrays)})


@cache
def load(path):
    """{name: list of arrays}, as given to save()."""
    results = {}
    with np.load(path) as stored:
        for key, array in stored.items():
            name, _, i = key.rpartition("/")
            results.setdefault(name, {})[int(i)] = array.astype(object) if array.dtype.kind == "S" else array
    return {name: [arrays[i] for i in range(len(arrays))] for name, arrays in results.items()}
