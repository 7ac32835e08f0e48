"""External contexts of custom ops in C: shared by the nodes of an interpreter, refreshed when its threads change."""
import ctypes
from pathlib import Path

import numpy as np
import pytest

import pylite
from tests.capi.chains import X, interpreter, model, run
from tests.capi.compiling import build

REFRESHED, THREADS, SHARED = range(3)


@pytest.fixture
def library(tmp_path):
    return build(Path(__file__).parent / "plugins" / "external.c", tmp_path / "external.so")


def test_refresh_follows_the_number_of_threads(library):
    seen = ctypes.CDLL(library).seen
    i = interpreter(model("Shares", "Shares"), pylite.load_custom_ops(library, ["Shares"], register=False))
    before = seen(REFRESHED)
    assert seen(SHARED) == 1        # the second node found what the first one set
    for count, threads in enumerate((3, 2), 1):
        i._interpreter.SetNumThreads(threads)
        i.allocate_tensors()
        assert (seen(REFRESHED), seen(THREADS)) == (before + count, threads)
        np.testing.assert_array_equal(run(i), np.full_like(X, threads))


def test_contexts_of_one_interpreter_are_not_seen_by_another(library):
    seen = ctypes.CDLL(library).seen
    ops = pylite.load_custom_ops(library, ["Shares"], register=False)
    interpreters = [interpreter(model("Shares"), ops) for _ in range(2)]
    assert seen(SHARED) == 0
    before = seen(REFRESHED)
    interpreters[0]._interpreter.SetNumThreads(4)
    assert seen(REFRESHED) == before + 1


def test_what_a_refresh_reports_is_logged(library, caplog):
    """Its status is ignored, as in tf.lite."""
    i = interpreter(model("Shares"), pylite.load_custom_ops(library, ["Shares"], register=False))
    ctypes.CDLL(library).fail(1)
    i._interpreter.SetNumThreads(2)
    i.allocate_tensors()
    assert "no 2 threads here" in caplog.text
