"""Clients in Python that load libtensorflowlite_c.so with ctypes: here it uses the Python that runs."""
import ctypes
import importlib
import os
import shutil
import statistics
import subprocess
import sys
import threading
from ctypes import c_char_p, c_float, c_int, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.clib import library_path
from tests.capi.compiling import build
from tests.clib.test_programs import MODELS, one
from tests.tools import resources

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is one of Linux")
F32 = np.float32
SIGNATURES = {
    "TfLiteModelCreateFromFile": (c_void_p, c_char_p), "TfLiteInterpreterCreate": (c_void_p, c_void_p, c_void_p),
    "TfLiteInterpreterAllocateTensors": (c_int, c_void_p), "TfLiteInterpreterInvoke": (c_int, c_void_p),
    "TfLiteInterpreterGetInputTensor": (c_void_p, c_void_p, c_int), "TfLiteTensorData": (c_void_p, c_void_p),
    "TfLiteInterpreterGetOutputTensor": (c_void_p, c_void_p, c_int), "TfLiteTensorByteSize": (c_size_t, c_void_p),
    "TfLiteInterpreterDelete": (None, c_void_p), "TfLiteModelDelete": (None, c_void_p)}


@pytest.fixture(params=[ctypes.CDLL, ctypes.PyDLL], ids=["without the GIL", "with the GIL"])
def library(request):
    return typed(request.param(library_path()))


def typed(found):
    for name, (result, *arguments) in SIGNATURES.items():
        getattr(found, name).restype, getattr(found, name).argtypes = result, arguments
    return found


def run(library, path, start):
    """The output of a model of (2, 3) floats on start, start + 1, ..., written and read in place."""
    model = library.TfLiteModelCreateFromFile(bytes(path))
    interpreter = library.TfLiteInterpreterCreate(model, None)
    library.TfLiteModelDelete(model)
    try:
        assert library.TfLiteInterpreterAllocateTensors(interpreter) == 0
        for i in range(2):
            data = library.TfLiteTensorData(library.TfLiteInterpreterGetInputTensor(interpreter, i))
            np.ctypeslib.as_array((c_float * 6).from_address(data))[:] = np.arange(6) + start
        assert library.TfLiteInterpreterInvoke(interpreter) == 0
        output = library.TfLiteInterpreterGetOutputTensor(interpreter, 0)
        return np.array((c_float * 6).from_address(library.TfLiteTensorData(output)))
    finally:
        library.TfLiteInterpreterDelete(interpreter)


def test_a_client_on_several_threads(library, tmp_path):
    path, found = tmp_path / "m.tflite", {}
    path.write_bytes(MODELS["delegates"])
    threads = [threading.Thread(target=lambda k=k: found.update({k: run(library, path, k)})) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert found[k].tolist() == [2 * (k + i) for i in range(6)]


def test_another_library_has_global_functions(tmp_path):
    """As pymicro_wakeword opens its own: calls within pylite's library reached those."""
    dump = subprocess.run(["nm", "-D", "--defined-only", library_path()], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in dump.stdout.splitlines() if " TfLite" in line]
    source, model = tmp_path / "other.c", tmp_path / "m.tflite"
    source.write_text("void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
    model.write_bytes(MODELS["delegates"])
    other = build(source, tmp_path / "other.so")
    code = (f"import ctypes; ctypes.CDLL({other!r}, ctypes.RTLD_GLOBAL)\n"
            "from tests.clib import test_clients as t\n"
            f"library = t.typed(ctypes.CDLL(t.library_path())); t.run(library, {os.fsencode(model)!r}, 1)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_custom_ops_of_python(library, tmp_path, registered):
    @pylite.custom_op("Sum")
    def op(a, b, out):
        out[...] = a + b

    path = tmp_path / "m.tflite"
    path.write_bytes(one("Sum", 2, custom_options=b"").build())
    assert run(library, path, 1).tolist() == [2, 4, 6, 8, 10, 12]


def test_an_exception_is_reported(library, tmp_path, registered, capfd):
    @pylite.custom_op("Sum")
    def op(a, b, out):
        raise KeyError("nothing to add")

    path = tmp_path / "m.tflite"
    path.write_bytes(one("Sum", 2, custom_options=b"").build())
    with pytest.raises(AssertionError):
        run(library, path, 1)
    assert "ERROR: node 0 Sum failed: KeyError: 'nothing to add'" in capfd.readouterr().err


def replaced(package, tmp_path, monkeypatch):
    """The package `package` with pylite's library in place of its own, and otherwise as it is."""
    resources.tool(package)
    original = importlib.import_module(package)
    home = Path(original.__file__).parent
    copy = tmp_path / package
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "lib" / "libtensorflowlite_c.so").unlink()
    (copy / "lib" / "libtensorflowlite_c.so").symlink_to(library_path())
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    return original, importlib.import_module(package)


def speechlike(seconds=3):
    """Bytes of 16-bit sound at 16 kHz: a hum with changing formants, and noise."""
    t = np.arange(16000 * seconds) / 16000
    random = np.random.default_rng(0)
    wave = sum(np.sin(2 * np.pi * f * t * (1 + 0.1 * np.sin(3 * t))) for f in (120, 700, 1900)) * np.sin(5 * t)
    return (3000 * wave + 300 * random.standard_normal(t.size)).astype("<i2").tobytes()


def by_interpreter(word, features):
    """The probabilities of a microWakeWord model by pylite.Interpreter, in the client's arithmetic."""
    interpreter = pylite.Interpreter(word.model_path)
    interpreter.allocate_tensors()
    given, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    (scale, zero_point), (out_scale, out_zero_point) = given["quantization"], result["quantization"]
    window, found = [], []
    for i in range(word.stride, len(features) + 1, word.stride):
        values = np.concatenate(features[i - word.stride:i], axis=1) / np.float32(scale) + zero_point
        interpreter.set_tensor(given["index"], np.round(values).astype(given["dtype"]).reshape(given["shape"]))
        interpreter.invoke()
        value = interpreter.get_tensor(result["index"]).astype(F32) - out_zero_point
        window = [*window, (value * F32(out_scale)).item()][-word.sliding_window_size:]
        found.append(statistics.mean(window) if len(window) == word.sliding_window_size else 0.0)
    return found


def pymicro_wakeword(tmp_path, monkeypatch):
    """Exactly what pylite.Interpreter computes; its own library rounds otherwise than the reference kernels."""
    def scores(module):
        found = {}
        for name in module.Model:
            word, features = module.MicroWakeWord.from_builtin(name), module.MicroWakeWordFeatures()
            given = list(features.process_streaming(speechlike()))
            found[name.value] = [word.process_streaming_prob(x) for x in given]
            if module is ours:
                assert found[name.value][word.stride - 1::word.stride] == by_interpreter(word, given)
            word.close()
        return found

    theirs, ours = replaced("pymicro_wakeword", tmp_path, monkeypatch)
    expected, found = scores(theirs), scores(ours)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=0.05)


def pyopen_wakeword(tmp_path, monkeypatch):
    def scores(module):
        features, found = module.OpenWakeWordFeatures.from_builtin(), {}
        embeddings = list(features.process_streaming(speechlike()))
        for name in module.Model:
            word = module.OpenWakeWord.from_builtin(name)
            found[name.value] = [p for e in embeddings for p in word.process_streaming(e)]
            word.close()
        features.close()
        return found

    theirs, ours = replaced("pyopen_wakeword", tmp_path, monkeypatch)
    expected, found = scores(theirs), scores(ours)
    assert found.keys() == expected.keys() and all(map(len, expected.values()))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


@pytest.mark.parametrize("client", [pymicro_wakeword, pyopen_wakeword])
def test_clients_that_have_a_library_of_their_own(client, tmp_path):
    """In a process of its own: their library calls functions of any TensorFlow Lite that is loaded with global symbols.

    The host of plug-ins is, after tests of plug-ins in the same process, and its tensors have another layout.
    """
    resources.tool(client.__name__)
    code = ("import pathlib, pytest; from tests.clib import test_clients\n"
            f"test_clients.{client.__name__}(pathlib.Path({str(tmp_path)!r}), pytest.MonkeyPatch())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
