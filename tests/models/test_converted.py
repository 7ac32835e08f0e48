"""Models of TensorFlow's converter (tests/models/converted/make.py): control flow, state, strings, recurrent layers.

`python -m tests.models.test_converted` stores the peer's outputs again.
"""
from pathlib import Path

import numpy as np
import pytest

import pylite
from tests.tools import stored
from tests.tools.resources import peer

FOLDER = Path(__file__).parent / "converted"
STORED = FOLDER / "outputs.npz"
RUNS = 4


def sizes(rng, shape):
    return [int(rng.integers(1, 6)) if n is None else n for n in shape]


def floats(*shape):
    return lambda rng: rng.standard_normal(sizes(rng, shape)).astype("f4")


def integers(low, high, *shape):
    return lambda rng: rng.integers(low, high, sizes(rng, shape)).astype("i4")


def text(rng):
    return rng.choice(np.array([b"the", b"cat", b"sat", b"on", b""], object), int(rng.integers(2, 6)))


def image(rng):
    return rng.random((1, int(rng.integers(2, 6)), int(rng.integers(2, 6)), 2)).astype("f4")


def boxes(rng):
    corner = rng.random((8, 2))
    return np.concatenate([corner, corner + rng.random((8, 2))], 1).astype("f4")


def integer_sequence(rng):
    return rng.integers(-128, 128, (1, 7, 4)).astype("i1")


def keys(rng):
    return rng.integers(0, 5, int(rng.integers(1, 6)))


def sequence(rng):
    return rng.standard_normal((1, 7, 4)).astype("f4")


# The inputs of each model by name, and functions that draw them.
INPUTS = {
    "collatz": {"n": integers(1, 30)},
    "branches": {"x": floats(None, 4), "which": lambda rng: rng.integers(0, 2).astype(bool)},
    "tensor_array": {"x": floats(6, 3)}, "mapped": {"x": floats(5, 2)}, "scanned": {"x": floats(5, 2)},
    "masked": {"x": floats(None, 3)}, "counted": {"x": integers(0, 4, None), "n": integers(1, 5)},
    "resized": {"image": image, "size": integers(3, 9, 2)},
    "suppressed": {"boxes": boxes, "scores": lambda rng: rng.random(8).astype("f4")},
    "words": {"x": text, "which": integers(0, 2, 2)}, "counter": {"x": floats(3)}, "vocabulary": {"x": text},
    "names": {"x": keys},
} | {name: {"keras": sequence} for name in ("lstm", "lstm_dynamic", "gru", "both_ways", "rnn")} | {
    "lstm_integer": {"input": integer_sequence}}


def draw(inputs, interpreter, rng):
    """Values of the interpreter's inputs: an entry of `inputs` applies to names that contain its key as a word."""
    drawn = {key: np.asarray(make(rng)) for key, make in inputs.items()}
    names = [detail["name"].split(":")[0].split("_") for detail in interpreter.get_input_details()]
    return [next(value for key, value in drawn.items() if key in words) for words in names]


def feed(interpreter, values):
    details = interpreter.get_input_details()
    for detail, value in zip(details, values, strict=True):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], value)


def run(interpreter, values):
    feed(interpreter, values)
    interpreter.invoke()
    results = []
    for detail in interpreter.get_output_details():
        try:
            results.append(interpreter.get_tensor(detail["index"]))
        except ValueError:
            assert 0 in detail["shape"]             # the peer cannot return tensors without elements
            results.append(np.empty(detail["shape"], object if detail["dtype"] is np.bytes_ else detail["dtype"]))
    return results


def other(litert, path):
    kinds = litert.OpResolverType
    try:
        return litert.Interpreter(str(path), experimental_op_resolver_type=kinds.BUILTIN_REF)
    except ValueError:          # hash tables are not among the reference kernels
        return litert.Interpreter(str(path), experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def runs(interpreter, name):
    """The outputs of all runs on drawn inputs, in sequence."""
    rng, results = np.random.default_rng(0), []
    for _ in range(RUNS):
        results += run(interpreter, draw(INPUTS[name], interpreter, rng))
    return results


@pytest.mark.parametrize("source", ["stored", "peer"])
@pytest.mark.parametrize("options", [{}, {"guard_bands": True}, {"num_threads": 2}])
@pytest.mark.parametrize("name", INPUTS)
def test_converted(name, options, source):
    path = FOLDER / f"{name}.tflite"
    wanted = stored.load(STORED)[name] if source == "stored" else runs(other(peer(), path), name)
    for got, want in zip(runs(pylite.Interpreter(path, **options), name), wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(got, want)


def store():
    """Store the peer's outputs."""
    stored.save(STORED, {name: runs(other(peer(), FOLDER / f"{name}.tflite"), name) for name in INPUTS})


def test_every_model_has_inputs():
    assert {path.stem for path in FOLDER.glob("*.tflite")} == set(INPUTS)


def test_signatures_share_a_variable():
    interpreter = pylite.Interpreter(FOLDER / "counter.tflite")
    add, reset = interpreter.get_signature_runner("add"), interpreter.get_signature_runner("reset")
    one = np.array([1, 2, 3], np.float32)
    assert add(x=one)["total"].tolist() == [1, 2, 3]
    assert add(x=one)["total"].tolist() == [2, 4, 6]
    assert reset()["before"].tolist() == [2, 4, 6]
    assert add(x=one)["total"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(("name", "x", "found"), [
    ("vocabulary", np.array(["cat", "dog", "the"]), [2, -1, 1]), ("names", np.array([3, 9]), [b"sat", b"?"])])
def test_hash_tables(name, x, found):
    results = pylite.Interpreter(FOLDER / f"{name}.tflite").get_signature_runner("find")(x=x)
    assert results["found"].tolist() == found and results["size"] == 3


if __name__ == "__main__":
    store()
