"""Custom ops in C get the same calls as in tflite-runtime, which loads the same library (ai-edge-litert cannot)."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capi.compiling import build, compiler
from tests.capi.test_custom_ops import chain

PLUGINS = Path(__file__).parent / "plugins"
SCRIPT = """
import ctypes, gc, json, os, sys
import numpy as np

runtime, library, *models = sys.argv[1:]
if runtime == "pylite":
    import pylite
    pylite.load_custom_ops(library, "RegisterTest", "registerer")
    make = pylite.Interpreter
else:
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)        # the library needs its symbols
    from tflite_runtime import interpreter as peer
    register = ctypes.CDLL(library)._Z12RegisterTestPN6tflite17MutableOpResolverE
    register.argtypes = [ctypes.c_void_p]
    def make(path):
        return peer.InterpreterWithCustomOps(
            model_path=path, custom_op_registerers=[register],
            experimental_op_resolver_type=peer.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)

take = ctypes.CDLL(library).take_trace
take.restype = ctypes.c_char_p


def run(i, first):
    x = np.arange(1, 5, dtype=np.float32)
    x[0] = first
    index = i.get_input_details()[0]["index"]
    i.set_tensor(index, np.resize(x, i.get_input_details()[0]["shape"]))
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"]).tolist()


def life(path):
    results = []
    try:
        i = make(path)
        i.allocate_tensors()
        results = [run(i, 3), run(i, 3), run(i, 2)]
        i.allocate_tensors()
        index = i.get_input_details()[0]["index"]
        shape = i.get_input_details()[0]["shape"]
        i.resize_tensor_input(index, shape)
        i.allocate_tensors()
        results.append(run(i, 2))
        i.resize_tensor_input(index, [2 * shape[0], *shape[1:]])
        i.allocate_tensors()
        results.append(run(i, 1))
        results.append(run(i, 4))
    except RuntimeError:
        results.append("failed")
    try:
        del i
    except NameError:
        pass
    gc.collect()
    return results


print(json.dumps([[life(path), take().decode().splitlines()] for path in models]))
"""


def lives(runtime, *arguments):
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT, runtime, *map(str, arguments)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_traces_equal_the_peers(tmp_path):
    pytest.importorskip("tflite_runtime", reason="tflite-runtime is not installed")
    compiler()
    library = build(PLUGINS / "registering.cc", tmp_path / "ops.so", "-x", "c", str(PLUGINS / "ops.c"), "-x", "c++")
    chains = ["ab", "+a+b+", "aT", "TP", "R+a", "aD+b", "D", "aDaDb", "ap", "av"]
    paths = [tmp_path / f"{i}.tflite" for i in range(len(chains))]
    for path, letters in zip(paths, chains, strict=True):
        path.write_bytes(chain(letters, (4,)))
    ours, theirs = lives("pylite", library, *paths), lives("peer", library, *paths)
    for letters, mine, other in zip(chains, ours, theirs, strict=True):
        assert mine[1] == other[1], letters
        assert mine[0] == other[0] or "P" in letters, letters   # only pylite fills persistent memory with zeros
