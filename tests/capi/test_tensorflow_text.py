"""An existing binary: the ops of tensorflow-text register, and its whitespace tokenizer runs."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capi.compiling import ENVIRONMENT, compiler

FRAMEWORK = "libtensorflow_framework.so.2"
SCRIPT = """
import ctypes, importlib.machinery, importlib.util, json, sys
import numpy as np
from flatbuffers import flexbuffers
import pylite
from pylite.schema.builder import ModelBuilder

framework, folder = sys.argv[1:]
ctypes.CDLL(framework, ctypes.RTLD_GLOBAL)
ops = pylite.load_custom_ops(folder + "/libpybinds_library_common.so", [
    "AddByteSplit", "AddByteSplitByOffsets", "AddFastBertNormalize", "AddFastSentencepieceDetokenize",
    "AddFastSentencepieceTokenize", "AddFastWordpieceDetokenize", "AddFastWordpieceTokenize", "AddNgramsStringJoin",
    "AddRaggedTensorToTensor", "AddRoundRobinGenerateMasks", "AddRoundRobinTrim", "AddSentenceFragmenterV2",
    "AddUtf8Binarize", "AddWhitespaceTokenize"], "registerer")
name = "pywrap_whitespace_tokenizer_config_builder"
loader = importlib.machinery.ExtensionFileLoader(name, f"{folder}/{name}.so")
builder = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
loader.exec_module(builder)

m = ModelBuilder()
text = m.tensor("text", (1,), "string")
config = m.constant("config", np.array(builder.build_whitespace_tokenizer_config(), object))
tokens = m.tensor("tokens", (1,), "string")
others = [m.tensor(name, (1,), dtype) for name, dtype in (("splits", "int64"), ("starts", "int32"), ("ends", "int32"))]
m.operator("TFText>WhitespaceTokenizeWithOffsetsV2", [text, config], [tokens, *others],
           custom_options=bytes(flexbuffers.Dumps({})))
m.inputs([text])
m.outputs([tokens, *others])
i = pylite.Interpreter(model_content=m.build())
results = []
for texts in (["everything not saved will be lost.", "Sad\\u2639"], ["a"], ["b  c", "", "d"]):
    i.resize_tensor_input(text, [len(texts)])
    i.allocate_tensors()
    i.set_tensor(text, np.array([t.encode() for t in texts], object))
    i.invoke()
    results.append([[t.decode() for t in i.get_tensor(tokens)], *(i.get_tensor(t).tolist() for t in others)])
print(json.dumps([[op.name for op in ops], results]))
"""


def folder_of(package):
    spec = importlib.util.find_spec(package)
    return None if spec is None else Path(next(iter(spec.submodule_search_locations)))


def framework(tmp_path):
    """TensorFlow's library, or an empty one of the same name: the ops only need it to exist."""
    tensorflow = folder_of("tensorflow")
    if tensorflow is not None and (tensorflow / FRAMEWORK).exists():
        return tensorflow / FRAMEWORK
    (tmp_path / "empty.c").write_text("")
    subprocess.run([compiler(), "-shared", "-fPIC", f"-Wl,-soname,{FRAMEWORK}", "empty.c", "-o", FRAMEWORK],
                   cwd=tmp_path, check=True, env=ENVIRONMENT)
    return tmp_path / FRAMEWORK


def pybinds():
    """The folder of tensorflow-text's libraries; skips the test without them."""
    text = folder_of("tensorflow_text")
    if text is None or not (text / "core/pybinds/libpybinds_library_common.so").exists():
        pytest.skip("tensorflow-text is not installed")
    return text / "core/pybinds"


def test_whitespace_tokenizer(tmp_path):
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT, framework(tmp_path), pybinds()],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, results = json.loads(done.stdout.splitlines()[-1])
    assert len(names) == 14 and "TFText>WhitespaceTokenizeWithOffsetsV2" in names
    assert results == EXPECTED


REGISTRARS = """
registrar = importlib.machinery.ExtensionFileLoader("tflite_registrar", folder + "/tflite_registrar.so")
registrar_module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tflite_registrar", registrar))
registrar.exec_module(registrar_module)
ops = [op for op in registrar_module.SELECT_TFTEXT_OPS] if hasattr(registrar_module, "SELECT_TFTEXT_OPS") else [
    getattr(registrar_module, name) for name in dir(registrar_module) if name.startswith("Add")]
make = lambda **kwargs: pylite.InterpreterWithCustomOps(custom_op_registerers=ops, **kwargs)
"""


def test_its_own_registrars(tmp_path):
    """tflite_registrar's functions, which pybind11 wraps, are what tf.lite.InterpreterWithCustomOps takes."""
    head, tail = SCRIPT.split("ops = pylite.load_custom_ops(", 1)
    script = head + REGISTRARS + tail.split('"registerer")\n', 1)[1].replace(
        "pylite.Interpreter(", "make(").replace("op.name for op in ops", "op.__name__ for op in ops")
    done = subprocess.run([sys.executable, "-P", "-c", script, framework(tmp_path), pybinds()],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, results = json.loads(done.stdout.splitlines()[-1])
    assert len(names) >= 14 and "AddWhitespaceTokenize" in names
    assert results == EXPECTED


EXPECTED = [
    [["everything", "not", "saved", "will", "be", "lost.", "Sad\u2639"], [0, 6, 7], [0, 11, 15, 21, 26, 29, 0],
         [10, 14, 20, 25, 28, 34, 6]],
    [["a"], [0, 1], [0], [1]],
    [["b", "c", "d"], [0, 2, 2, 3], [0, 3, 0], [1, 4, 1]]]
