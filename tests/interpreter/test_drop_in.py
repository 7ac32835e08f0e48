"""Drop-in replacement: programs that import tflite_runtime, ai_edge_litert or tf.lite run unchanged."""
import array
import importlib
import importlib.machinery
import importlib.metadata
import os
import re
import rlcompleter
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import shim
from pylite.schema.builder import ModelBuilder
from tests.tools import small_models
from tests.tools.resources import peer

PROGRAM = """
import sys
import numpy as np
{imports}
interpreter = {cls}(model_path=sys.argv[1], num_threads=2)
interpreter.allocate_tensors()
i, o = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
interpreter.set_tensor(i["index"], np.arange(6, dtype=i["dtype"]).reshape(i["shape"]))
interpreter.invoke()
print(interpreter.get_tensor(o["index"]).tolist(), sys.argv[2:], type(interpreter).__module__)
"""
ANSWER = "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] ['--flag', 'x'] pylite.interpreter"
IMPORTS = {
    "tflite_runtime": [("import tflite_runtime.interpreter as tflite", "tflite.Interpreter"),
                       ("from tflite_runtime.interpreter import Interpreter, load_delegate", "Interpreter")],
    "ai_edge_litert": [("from ai_edge_litert.interpreter import Interpreter, OpResolverType", "Interpreter"),
                       ("from ai_edge_litert import interpreter as tfl", "tfl.Interpreter")],
    "tensorflow": [("import tensorflow as tf", "tf.lite.Interpreter"),
                   ("import tensorflow.lite as tflite", "tflite.Interpreter"),
                   ("from tensorflow import lite as tflite", "tflite.Interpreter"),
                   ("from tensorflow.lite.python.interpreter import Interpreter, load_delegate", "Interpreter")],
}
# Public modules and their public names.
PUBLIC = {
    "interpreter": "Delegate Interpreter InterpreterWithCustomOps OpResolverType SignatureRunner load_delegate",
    "compiled_model": "CompiledModel CpuKernelMode CpuOptions Environment EnvironmentOptions GpuOptions "
                      "HardwareAccelerator IntelOpenVinoOptions Options QualcommOptions TensorBuffer",
    "cpu_kernel_mode": "CpuKernelMode",
    "cpu_options": "CpuKernelMode CpuOptions",
    "environment": "Environment EnvironmentOptions",
    "hardware_accelerator": "HardwareAccelerator",
    "options": "CpuKernelMode CpuOptions GpuOptions HardwareAccelerator IntelOpenVinoOptions Options QualcommOptions",
    "tensor_buffer": "TensorBuffer",
    "typing": "CustomNode DelegateGraph DelegatePart NodeInfo OpDetails OpNode QuantizationParameters SignatureList "
              "SparsityParameters TensorDetails "
              "TensorInfo",
}
CASES = [(name, *case) for name, cases in IMPORTS.items() for case in cases]


@pytest.fixture
def model(tmp_path):
    m = ModelBuilder()
    x = m.tensor("x", (2, 3))
    shape = m.constant("shape", np.array([3, 2], np.int32))
    y = m.tensor("y", (3, 2))
    m.operator("RESHAPE", [x, shape], [y], new_shape=(3, 2))
    m.inputs([x])
    m.outputs([y])
    path = tmp_path / "m.tflite"
    path.write_bytes(m.build())
    return path


def run(*arguments, **environment):
    """The output of a new Python process with this one's search path."""
    home = Path(pylite.__file__).parents[1]     # also the working directory: in the checkout, "" would find the sources
    path = os.pathsep.join([*environment.pop("before", []), str(home)])
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=home,
                          env={**os.environ, "PYTHONPATH": path, **environment})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(("name", "imports", "cls"), CASES)
def test_run_a_program(name, imports, cls, model, tmp_path):
    program = tmp_path / "client.py"
    program.write_text(PROGRAM.format(imports=imports, cls=cls))
    assert run("-m", "pylite.shim", "--as", name, program, model, "--flag", "x") == ANSWER


@pytest.mark.parametrize(("name", "imports", "cls"), CASES)
def test_install_as(name, imports, cls, model):
    program = f"import pylite; pylite.install_as({name!r})\n" + PROGRAM.format(imports=imports, cls=cls)
    assert run("-c", program, model, "--flag", "x") == ANSWER


def test_by_environment(model, tmp_path):
    folders = run("-m", "pylite.shim", "--path").split(os.pathsep)
    assert folders == shim.paths("tflite_runtime", "ai_edge_litert")
    program = PROGRAM.format(imports="import tflite_runtime.interpreter as tflite", cls="tflite.Interpreter")
    assert run("-c", program, model, "--flag", "x", before=folders) == ANSWER


def test_run_a_module_and_its_children(model, tmp_path):
    (tmp_path / "client.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n")
    program = PROGRAM.format(imports="import tflite_runtime.interpreter as tflite", cls="tflite.Interpreter")
    assert run("-m", "pylite.shim", "-m", "client", "-c", program, model, "--flag", "x",
               before=[str(tmp_path)]) == ANSWER


@pytest.mark.parametrize("name", ["nomod", "json.nomod", "xml"])
def test_a_module_that_cannot_be_run_gets_a_sentence(name):
    done = subprocess.run([sys.executable, "-m", "pylite.shim", "-m", name], capture_output=True, text=True)
    assert done.returncode == 2 and f"there is no module {name!r} that can be run" in done.stderr
    assert "Traceback" not in done.stderr


def test_versions_are_those_of_the_interface():
    """Programs compare them; pylite's own would look like one of the earliest releases."""
    found = run("-c", "import pylite; pylite.install_as('tensorflow', 'ai_edge_litert', 'tflite_runtime')\n"
                "import tensorflow, ai_edge_litert, tflite_runtime\n"
                "print(tensorflow.__version__, ai_edge_litert.__version__, tflite_runtime.__version__)\n"
                "print(tensorflow.__git_version__, tflite_runtime.__git_version__)")
    assert found.split() == ["2.21.0", "2.3.0", "2.21.0", "v2.21.0", "v2.21.0"]
    found = run("-c", "import ctypes; from pylite import clib; library = ctypes.CDLL(clib.library_path())\n"
                "library.TfLiteVersion.restype = ctypes.c_char_p; print(library.TfLiteVersion().decode())")
    assert found == "2.21.0"


def test_a_program_for_tensorflow_is_told_the_option(tmp_path):
    """With its own traceback, as the program may have meant all of TensorFlow."""
    (tmp_path / "program.py").write_text("import sys; sys.modules[sys.argv[1]] = None; __import__(sys.argv[1])")
    for name, chosen, told in (("tensorflow", [], "--as tflite_runtime --as ai_edge_litert --as tensorflow"),
                               ("tflite_support", ["--as", "tensorflow"], "--as tensorflow --as tflite_support")):
        done = subprocess.run([sys.executable, "-m", "pylite.shim", *chosen, tmp_path / "program.py", name],
                              capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1 and "line 1, in <module>" in done.stderr
        assert f"python -m pylite.shim {told} {tmp_path / 'program.py'}" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/stdin")
def test_a_program_in_a_pipe_runs():
    """As `python /dev/stdin`, and `<(...)` of a shell: it can be read only once."""
    program = ("import sys, pickle, tflite_runtime.interpreter as t\nclass A: pass\n"
               "print(t.__name__, __name__, __file__, sys.argv, type(pickle.loads(pickle.dumps(A()))) is A)")
    done = subprocess.run([sys.executable, "-m", "pylite.shim", "/dev/stdin", "x"], input=program, text=True,
                          capture_output=True, check=True)
    assert done.stdout == "pylite.interpreter __main__ /dev/stdin ['/dev/stdin', 'x'] True\n"


@pytest.mark.parametrize("statement", ["import tensorflow.keras", "from tensorflow.keras.models import load_model"])
def test_modules_that_the_stand_in_for_tensorflow_lacks_are_named(statement):
    code = (f"import pylite; pylite.install_as('tensorflow')\ntry: {statement}\n"
            "except ModuleNotFoundError as error: print(error.name, error)\nimport tensorflow.lite.python.interpreter")
    assert run("-c", code) == ("tensorflow.keras No module named 'tensorflow.keras': pylite's stand-in for tensorflow "
                               "has only tensorflow.lite")


def test_what_the_stand_in_for_tensorflow_lacks_is_named():
    code = ("import pylite; pylite.install_as('tensorflow'); import tensorflow as tf\n"
            "lite = tf.lite\n"
            "for name in 'lite.experimental.x', 'lite.TFLiteConverter', 'tf.nn':\n"
            "    try: eval(name)\n"
            "    except AttributeError as error: print(error)")
    lines = run("-c", code).splitlines()
    assert [("stand-in for tensorflow" in line) for line in lines] == [True] * 3


def test_the_analyzer_prints_the_graph(model):
    code = ("import sys, pylite; pylite.install_as('tensorflow'); import tensorflow as tf\n"
            "analyze = tf.lite.experimental.Analyzer.analyze\n"
            "analyze(model_path=sys.argv[1], gpu_compatibility=True)\n"
            "analyze(model_content=open(sys.argv[1], 'rb').read())\n"
            "try: analyze()\nexcept ValueError as error: print(error)")
    text = run("-c", code, model)
    assert text.count("RESHAPE") >= 2 and text.count("m.tflite") == 1
    assert text.endswith("takes either model_path or model_content")


def test_a_program_of_the_task_library():
    program = """
from tflite_support.task import core, processor
from tflite_support.task.vision import ImageClassifier, ImageClassifierOptions, TensorImage
import tflite_support.task.audio, tflite_support
from pylite.media import models
def name(result: processor.ClassificationResult): return result.classifications[0].categories[0].category_name
options = ImageClassifierOptions(core.BaseOptions(str(models.path("digits"))),
                                 processor.ClassificationOptions(max_results=1))
print(name(ImageClassifier.create_from_options(options).classify(TensorImage.create_from_file(models.sample("seven")))))
try: from tflite_support import metadata
except ImportError as error: print(type(error).__name__)
try: tflite_support.metadata
except AttributeError as error: print(error)
"""
    said, imported, missing = run("-c", "import pylite; pylite.install_as('tflite_support')\n" + program).splitlines()
    assert (said, imported) == ("seven", "ImportError") and "only tflite_support.task" in missing


def test_the_module_is_the_same():
    check = "import pylite, pylite.interpreter, sys; pylite.install_as(); import tflite_runtime.interpreter as t, " \
            "ai_edge_litert.interpreter as l; print(t is l is pylite.interpreter)"
    assert run("-c", check) == "True"


def test_other_modules_of_the_package_stay_those_of_the_package(tmp_path):
    """As ai_edge_litert.tools, which its users import beside the interpreter."""
    package = tmp_path / "site" / "ai_edge_litert"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "interpreter.py").write_text("raise ImportError")
    (package / "tools.py").write_text("answer = 42")
    code = ("import ai_edge_litert.interpreter, ai_edge_litert.tools, pylite.interpreter;"
            "print(ai_edge_litert.interpreter is pylite.interpreter, ai_edge_litert.tools.answer)")
    (tmp_path / "program.py").write_text(code)
    arguments = "-P", "-m", "pylite.shim", tmp_path / "program.py"      # the package itself may be installed
    assert run(*arguments, before=[str(tmp_path / "site")]) == "True 42"


MODULES = {"compiled_model": "CompiledModel", "tensor_buffer": "TensorBuffer", "environment": "Environment",
           "options": "Options", "cpu_options": "CpuOptions", "cpu_kernel_mode": "CpuKernelMode",
           "hardware_accelerator": "HardwareAccelerator", "gpu_options": "GpuOptions",
           "qualcomm_options": "QualcommOptions", "intel_openvino_options": "IntelOpenVinoOptions"}


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_litert_are_those_of_pylite(module):
    code = "import pylite; pylite.install_as(); from ai_edge_litert.{} import {} as found; print(found.__module__)"
    assert run("-P", "-c", code.format(module, MODULES[module])).startswith("pylite.")


def test_a_program_of_litert(model):
    program = """
import sys
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
with CompiledModel.from_file(sys.argv[1], HardwareAccelerator.CPU) as model:
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(np.arange(6, dtype=np.float32).reshape(2, 3))
    model.run_by_index(0, inputs, outputs)
    print(outputs[0].read(6, np.float32).tolist(), type(model).__module__)
"""
    assert run("-P", "-c", "import pylite; pylite.install_as()\n" + program, model) == \
        "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] pylite.compiled_model"


def test_litert_does_not_run_in_its_place(tmp_path):
    """Neither modules that pylite lacks, nor libraries of an installed LiteRT."""
    package = tmp_path / "ai_edge_litert"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemError")
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    (package / f"_pywrap_runtime{suffix}").write_bytes(b"no library: importing it would fail")
    code = """
import pylite; pylite.install_as()
try: import ai_edge_litert.runtime
except ModuleNotFoundError as e: print(e)
from ai_edge_litert import _pywrap_runtime
try: _pywrap_runtime.Run
except ImportError as e: print(e)
print(hasattr(_pywrap_runtime, "__file__"))
"""
    missing, library, plain = run("-P", "-c", code, before=[str(tmp_path)]).splitlines()
    assert missing.startswith("No module named 'ai_edge_litert.runtime': pylite has no such module")
    assert library.startswith("ai_edge_litert._pywrap_runtime.Run would run LiteRT instead of pylite")
    assert "pylite stands in for ai_edge_litert here" in missing and "install_as" in library
    assert plain == "False"


def test_an_imported_package_is_replaced(tmp_path):
    (tmp_path / "tflite_runtime").mkdir()
    (tmp_path / "tflite_runtime" / "__init__.py").write_text("other = 1\n")
    (tmp_path / "tflite_runtime" / "interpreter.py").write_text("class Interpreter: pass\n")
    check = "import tflite_runtime.interpreter as old; import pylite; pylite.install_as('tflite_runtime'); " \
            "import tflite_runtime.interpreter as new; print(old is not new, new.__name__)"
    assert run("-c", check, before=[str(tmp_path)]) == "True pylite.interpreter"


def test_the_replacement_of_tensorflow_has_only_lite():
    check = "import pylite; pylite.install_as('tensorflow.lite'); import tensorflow as tf\n" \
            "try: tf.constant(1)\nexcept AttributeError as e: print(e)"
    assert "only tensorflow.lite" in run("-c", check)


def test_other_names_are_refused():
    with pytest.raises(ValueError, match="numpy"):
        pylite.install_as("numpy")


def test_importing_pylite_replaces_nothing():
    assert run("-c", "import pylite.interpreter, sys; print("
               "{m.partition('.')[0] for m in sys.modules if 'tflite' in m or 'litert' in m})") == "{'pylite'}"


def test_public_names_are_imported_on_demand():
    assert run("-c", "import sys, pylite; print('numpy' in sys.modules, pylite.Interpreter.__name__)") == \
        "False Interpreter"
    for name in pylite.__all__:
        assert getattr(pylite, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = pylite.nothing


def test_dir_lists_only_public_names():
    assert dir(pylite) == sorted([*pylite.__all__, *pylite._MODULES])
    assert all(getattr(pylite, name) is not None for name in dir(pylite))
    shown = rlcompleter.Completer({"pylite": pylite}).attr_matches("pylite.")
    assert {name.removeprefix("pylite.").rstrip("()") for name in shown} == {*dir(pylite)} - {"__version__"}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_public_modules_have_their_names(module, names):
    public = importlib.import_module(f"pylite.{module}")
    assert set(names.split()) <= set(public.__all__)
    for name in public.__all__:
        assert getattr(public, name) is not None


def test_names_in_documents_and_examples_exist():
    root = Path(__file__).parents[2]
    files = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.py")]
    named = set(re.findall(r"(?<![\w/-])pylite(?:\.[A-Za-z]\w*)+", "\n".join(file.read_text() for file in files)))
    assert len(named) > 20
    for name in named:
        found, path = pylite, "pylite"
        for part in name.split(".")[1:]:
            path += f".{part}"
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)


def test_versions_agree():
    assert pylite.get_version() == pylite.__version__ == importlib.metadata.version("pylite-runtime")


def test_every_name_is_listed_before_it_is_used():
    """Programs that stand in for another package copy what dir() lists."""
    code = ("import pylite.interpreter as m; names = {name: getattr(m, name) for name in dir(m)}; "
            "print(set(m.__all__) <= set(names))")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("module", [lambda: pylite.interpreter, peer], ids=["pylite", "peer"])
def test_a_tensor_without_dimensions_is_read_as_a_number(module):
    m = ModelBuilder()
    x, y = m.tensor("x", ()), m.tensor("y", ())
    m.operator("NEG", [x], [y])
    m.signature("main", {"x": x}, {"y": y})
    m.inputs([x])
    m.outputs([y])
    interpreter = module().Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array(3, np.float32))
    interpreter.invoke()
    for _ in range(3):      # further reads take another path
        assert type(interpreter.get_tensor(y)) is np.float32 and interpreter.get_tensor(y) == -3
    assert type(interpreter.get_signature_runner("main")(x=np.array(2, np.float32))["y"]) is np.float32



@pytest.mark.parametrize("module", [lambda: pylite, peer], ids=["pylite", "litert"])
def test_constants_can_be_read_before_memory_is_allocated(module):
    """Programs that only want a model's weights read them so, of models with unknown ops too."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
    w = m.constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    m.operator("Mystery", [x, w], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    m.subgraph("other")
    v = m.constant("v", np.array([3], np.int32))
    m.inputs([])
    m.outputs([v])
    interpreter = module().Interpreter(model_content=m.build())
    assert interpreter.get_tensor(w).tolist() == interpreter.tensor(w)().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert interpreter.get_tensor(v, 1).tolist() == [3]
    for index in x, y:
        with pytest.raises(ValueError, match="Tensor data is null"):
            interpreter.get_tensor(index)
    interpreter.resize_tensor_input(x, [1, 3])
    assert interpreter.get_tensor(w)[1].tolist() == [3, 4, 5]


def words(content):
    return np.frombuffer(content + bytes(-len(content) % 4), "<u4")


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda b: array.array("B", b), words])
def test_the_content_may_be_any_buffer(kind):
    content = kind(small_models.reshape())
    interpreter = pylite.interpreter.Interpreter(model_content=content)
    assert interpreter._model_content is content
    interpreter.allocate_tensors()
