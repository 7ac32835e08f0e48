"""The bundled models against stored outputs of the reference kernels, for machines without the peer.

`python -m tests.models.test_whole_models` stores them again, with the peer.
"""
import pathlib

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.media import models

STORED = pathlib.Path(__file__).with_name("whole_models.npz")
RUNS = 3


def outputs(interpreter, seed):
    """The outputs for seeded noise, by position."""
    interpreter.allocate_tensors()
    rng = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        span = np.iinfo(detail["dtype"])
        interpreter.set_tensor(detail["index"], rng.integers(span.min, span.max, detail["shape"], detail["dtype"],
                                                             endpoint=True))
    interpreter.invoke()
    found = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    if len(found) == 4:     # a detector: boxes, classes, scores, and their count
        found[:3] = [array[:, :int(found[3][0])] for array in found[:3]]
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", models.names())
def test_outputs_equal_the_reference(name, threads):
    with np.load(STORED) as stored:
        for seed in range(RUNS):
            got = outputs(Interpreter(models.path(name), num_threads=threads), seed)
            for i, array in enumerate(got):
                want = stored[f"{name} {seed} {i}"]
                assert array.dtype == want.dtype
                if array.dtype.kind == "f":
                    assert np.abs(array - want).max() <= 1e-5 * max(1e-30, np.abs(want).max())
                else:
                    assert np.array_equal(array, want)
            assert f"{name} {seed} {len(got)}" not in stored


def store():
    from ai_edge_litert.interpreter import Interpreter as Peer
    from ai_edge_litert.interpreter import OpResolverType
    found = {}
    for name in models.names():
        for seed in range(RUNS):
            peer = Peer(str(models.path(name)), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
            found |= {f"{name} {seed} {i}": array for i, array in enumerate(outputs(peer, seed))}
    np.savez_compressed(STORED, **found)


if __name__ == "__main__":
    store()
