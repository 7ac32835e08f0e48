"""Differential tests of one-op models: pylite on every ISA level and thread count against the reference kernels.

A test is a function (m: ModelBuilder, rng, dtype) -> list of input arrays that fills a one-op model; `@differential`
makes a pytest test of it.  `python -m tests.tools.oneop` stores the results of some cases, for machines without the
peer.
"""
import functools
import importlib
import os
import pkgutil
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from pylite._core import simd
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

STORED = Path(__file__).parents[1] / "ops" / "stored"
STORED_CASES = 3        # of each test and dtype
THREADS = (1, 2, 4)


def run_peer(model, inputs, runs=1):
    """Outputs of the reference kernels (BUILTIN_REF) of all `runs` runs, in sequence."""
    litert = peer()
    interpreter = litert.Interpreter(model_content=model,
                                     experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    return _run(interpreter, inputs, runs)


def run_pylite(model, inputs, threads=1, runs=1, **options):
    """Outputs of pylite on the ISA level in use."""
    return _run(Interpreter(model_content=model, num_threads=threads, **options), inputs, runs)


def _run(interpreter, inputs, runs):
    interpreter.allocate_tensors()
    outputs = []
    for _ in range(runs):
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outputs += [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    return outputs


def assert_equal(got, want, label, tolerance=1e-5):
    """Integers must be equal, floats within `tolerance` of the largest magnitude."""
    assert len(got) == len(want), label
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        where = f"{label}, output {i}"
        assert g.dtype == w.dtype and g.shape == w.shape, f"{where}: {g.dtype}{g.shape} != {w.dtype}{w.shape}"
        if g.dtype.kind in "fc":
            g, w = np.asarray(g, np.complex128 if g.dtype.kind == "c" else np.float64), w
            finite = np.isfinite(w)
            np.testing.assert_array_equal(g[~finite], w[~finite], err_msg=where)
            top = np.abs(w[finite]).max(initial=0)
            off = np.abs(g[finite] - w[finite]).max(initial=0)
            assert off <= tolerance * max(top, 1e-30), f"{where}: off by {off}, largest value {top}"
        else:
            np.testing.assert_array_equal(g, w, err_msg=where)


def check(model, inputs, want, label, tolerance=1e-5, runs=1):
    """Run on every ISA level and thread count; all must give `want`, and the same bits for every thread count."""
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            first = None
            for threads in THREADS:
                got = run_pylite(model, inputs, threads, runs)
                assert_equal(got, want, f"{label}, ISA level {isa_level}, {threads} threads", tolerance)
                if first is None:
                    first = got
                for a, b in zip(first, got, strict=True):
                    same = a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
                    assert same, f"{label}: {threads} threads give other bits"
    finally:
        simd.use(chosen)
    guarded = run_pylite(model, inputs, runs=runs, guard_bands=True)
    assert_equal(guarded, want, f"{label}, with guard bands", tolerance)


def draw(function, dtype, case):
    """Case number `case` of a test: (model bytes, inputs), equal on all machines; PYLITE_CASES: text for other ones."""
    seed = zlib.crc32(f"{function.__name__} {dtype} {case}{os.environ.get('PYLITE_CASES', '')}".encode())
    builder = ModelBuilder()
    inputs = function(builder, np.random.default_rng(seed), dtype)
    return builder.build(), [np.asarray(x) for x in inputs]


def differential(*dtypes, count=20, tolerance=1e-5, reference=None, runs=1):
    """Make a pytest test of a function that draws one-op models.

    count: cases per dtype against the live peer.  reference: (inputs, model) -> outputs where the peer's reference
    kernels are wrong or missing; None takes the peer.  runs: how often to invoke, for ops that have a state.
    """
    def decorate(function):
        @pytest.mark.parametrize("dtype", dtypes)
        @pytest.mark.parametrize("source", ["stored", "peer"])
        def test(source, dtype):
            if source == "stored":
                cases = load_stored(function, dtype)
                assert cases, f"no stored results for {function.__name__} {dtype}: run python -m tests.tools.oneop"
                for case, (model, inputs, want) in enumerate(cases):
                    check(model, inputs, want, f"{function.__name__} {dtype} stored case {case}", tolerance, runs)
                return
            if reference is None:
                peer()
            for case in range(count):
                model, inputs = draw(function, dtype, case)
                want = reference(inputs, model) if reference else run_peer(model, inputs, runs)
                check(model, inputs, want, f"{function.__name__} {dtype} case {case}", tolerance, runs)
        functools.update_wrapper(test, function, assigned=("__module__", "__name__", "__doc__"))
        del test.__wrapped__
        test.drawn = (function, dtypes, reference, runs)
        return test
    return decorate


def _path(function):
    return STORED / f"{function.__module__.rsplit('.', 1)[-1]}.npz"


@functools.cache
def stored_file(path):
    return dict(np.load(path)) if path.exists() else {}


def load_stored(function, dtype):
    """The stored cases of a test: [(model bytes, inputs, outputs)]."""
    data = stored_file(_path(function))
    cases = []
    for case in range(STORED_CASES):
        key = f"{function.__name__}/{dtype}/{case}"
        if key + "/model" not in data:
            break
        arrays = [[], []]
        for kind, into in zip(("x", "y"), arrays, strict=True):
            while f"{key}/{kind}{len(into)}" in data:
                array = data[f"{key}/{kind}{len(into)}"]
                into.append(array.astype(object) if array.dtype.kind == "S" else array)     # strings
        cases.append((data[key + "/model"].tobytes(), *arrays))
    return cases


def record(module):
    """Store the reference results of every differential test in `module`; returns the number of cases."""
    data = {}
    for test in vars(module).values():
        if not hasattr(test, "drawn"):
            continue
        function, dtypes, reference, runs = test.drawn
        for dtype in dtypes:
            for case in range(STORED_CASES):
                model, inputs = draw(function, dtype, case)
                want = reference(inputs, model) if reference else run_peer(model, inputs, runs)
                key = f"{function.__name__}/{dtype}/{case}"
                data[key + "/model"] = np.frombuffer(model, np.uint8)
                for kind, arrays in (("x", inputs), ("y", want)):
                    for i, array in enumerate(arrays):
                        data[f"{key}/{kind}{i}"] = array.astype("S") if array.dtype == object else array
    if data:
        STORED.mkdir(exist_ok=True)
        np.savez_compressed(STORED / f"{module.__name__.rsplit('.', 1)[-1]}.npz", **data)
    return len({k.rsplit("/", 1)[0] for k in data})


def main(wanted):
    """Record the modules named (all of tests.ops by default)."""
    folder = Path(__file__).parents[1] / "ops"
    for info in pkgutil.iter_modules([str(folder)]):
        if info.name.startswith("test_") and (not wanted or info.name in wanted):
            count = record(importlib.import_module(f"tests.ops.{info.name}"))
            sys.stdout.write(f"{info.name}: {count} cases\n")


if __name__ == "__main__":
    main(sys.argv[1:])
