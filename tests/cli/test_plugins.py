"""The command line with plug-ins: `pylite resolver`, and inspect and run with custom ops and delegates."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import cli
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build
from tests.tools import flex_models

PLUGINS = Path(__file__).parents[1] / "capi" / "plugins"
OPS = """
import numpy as np, pylite
pylite.custom_op("Atan")(np.arctan)
"""
DELEGATE = """
import numpy as np, pylite
class MyDelegate(pylite.PythonDelegate):
    def supports(self, node):
        return node.name in ("ABS", "NEG")
    def compile(self, part):
        class Kernel:
            def invoke(self, x, y):
                np.negative(np.abs(x), out=y)
        return Kernel()
"""


@pytest.fixture(autouse=True)
def _nothing_stays_registered():
    yield
    resolver.registered._entries.clear()


@pytest.fixture
def folder(tmp_path):
    m = ModelBuilder()
    x, a, b, c = (m.tensor(n, (3,)) for n in "xabc")
    m.operator("ABS", [x], [a])
    m.operator("NEG", [a], [b])
    m.operator("Atan", [b], [c], custom_options=b"")
    m.inputs([x])
    m.outputs([c])
    (tmp_path / "model.tflite").write_bytes(m.build())
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "mine.py").write_text(DELEGATE)
    np.save(tmp_path / "x.npy", np.array([1, -2, 3], np.float32))
    return tmp_path


def run(folder, command, *arguments):
    return cli.main([command, str(folder / "model.tflite"), *(str(a) for a in arguments)])


def test_resolver(folder, capsys):
    assert run(folder, "resolver", "-o", folder / "made.py") == 0
    spec = importlib.util.spec_from_file_location("made", folder / "made.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with pytest.raises(ValueError, match="no op 'Atan' is registered"):
        made.resolver()
    pylite.custom_op("Atan")(np.arctan)
    ops = made.resolver()
    assert ops.names() == ["ABS", "Atan", "NEG"] and ops.find_op("ABS", 1) and not ops.find_op("ABS", 2)
    i = pylite.Interpreter(str(folder / "model.tflite"), op_resolver=ops)
    i.allocate_tensors()
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    m.operator("EXP", [x], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(ValueError, match="'EXP'"):
        pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    assert run(folder, "resolver") == 0
    assert capsys.readouterr().out == (folder / "made.py").read_text()


def test_resolver_of_several_models(folder, tmp_path, capsys):
    m = ModelBuilder()
    x, y = m.tensor("x", (3,), "int8", scale=1.0), m.tensor("y", (3,), "int8", scale=1.0)
    m.operator("ABS", [x], [y], version=2)
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "two.tflite").write_bytes(m.build())
    assert run(folder, "resolver", tmp_path / "two.tflite") == 0
    assert "add_builtin('ABS', min_version=1, max_version=2)" in capsys.readouterr().out


def test_resolver_names_what_pylite_lacks(tmp_path, capsys):
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    m.operator("ABS", [x], [y], version=99)
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "model.tflite").write_bytes(m.build())
    assert run(tmp_path, "resolver") == 2
    assert "'ABS' version '99'" in capsys.readouterr().err


def test_inspect(folder, capsys):
    assert run(folder, "inspect", "--compat") == 1
    assert run(folder, "inspect", "--compat", "--ops", folder / "ops.py") == 0
    capsys.readouterr()
    plugins = "--ops", folder / "ops.py", "--delegate", f"{folder / 'mine.py'}:MyDelegate"
    assert run(folder, "inspect", "--tensors", *plugins) == 0
    text = capsys.readouterr().out
    assert "node 3 of MyDelegate replaces 2: 0, 1" in text
    assert "replaced by 3" in text and "MyDelegate for 0 1" in text and "python_op.CustomOp" in text
    assert run(folder, "inspect", "--json", *plugins) == 0
    operators = json.loads(capsys.readouterr().out)["subgraphs"][0]["operators"]
    assert [o.get("replaced_by") for o in operators] == [3, 3, None, None]
    assert operators[3]["name"] == "DELEGATE" and operators[3]["replaces"] == [0, 1]


def test_a_delegate_that_fails(folder, capsys):
    """`inspect` and `report` say so, not that it claims nothing, and exit with 1."""
    (folder / "bad.py").write_text("import pylite\nclass Bad(pylite.PythonDelegate):\n"
                                   "    def supports(self, node):\n        raise KeyError('boo')\n")
    for command in "inspect", "report":
        assert run(folder, command, "--ops", folder / "ops.py", "--delegate", f"{folder / 'bad.py'}:Bad") == 1
        text = capsys.readouterr().out
        assert "delegate Bad failed: supports() failed for node 0 ABS: KeyError: 'boo'" in text
        assert "claims none" not in text


def test_bench(folder, capsys):
    plugins = "--ops", folder / "ops.py", "--delegate", f"{folder / 'mine.py'}:MyDelegate"
    assert run(folder, "bench", "--seconds", "0.05", *plugins) == 0
    assert "node 3 of MyDelegate replaces 2: 0, 1" in capsys.readouterr().out
    assert run(folder, "bench", "--seconds", "0.05", "--json", *plugins) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [(n["name"], n.get("delegate"), n.get("replaces")) for n in nodes] == [
        ("DELEGATE", "MyDelegate", [0, 1]), ("Atan", None, None)]


def test_bench_shows_nodes_that_are_evaluated(folder, capsys):
    m = ModelBuilder()
    x, y, at, z = m.tensor("x", (4,)), m.tensor("y", (4,)), m.tensor("at", (4,), "int32"), m.tensor("z", (4,))
    m.operator("UNIQUE", [x], [y, at], idx_out_type="int32")
    m.operator("SIN", [y], [z])
    m.inputs([x])
    m.outputs([z])
    (folder / "model.tflite").write_bytes(m.build())
    assert run(folder, "bench", "--seconds", "0.05", "--json") == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [(n["name"], n["kernels"][0] == "evaluated") for n in nodes] == [("UNIQUE", True), ("SIN", False)]
    assert all(n["seconds"] > 0 for n in nodes)


def test_run(folder, capsys):
    plugins = "--ops", folder / "ops.py", "--delegate", f"{folder / 'mine.py'}:MyDelegate"
    assert run(folder, "run", "--input", folder / "x.npy", "--output", folder / "y.npz", *plugins) == 0
    np.testing.assert_allclose(np.load(folder / "y.npz")["c"], np.arctan([-1, -2, -3]), rtol=1e-6)


@pytest.mark.parametrize(("arguments", "text"), [
    (["--ops", "none.py"], "none.py: no such file"), (["--ops", "none.so:f"], "none.so: cannot open"),
    (["--ops", "none.so:f?sort=value"], "'sort=value' is not an option of a function; write ?kind=KIND"),
    (["--ops", "none.so:f?kind=modern"], "kind must be one of classic"),
    (["--delegate", "{}/mine.py:Nobody"], "has no Nobody"),
    (["--delegate", "none.so?key=value"], "none.so")])
def test_wrong_plugins(folder, capsys, arguments, text):
    assert run(folder, "inspect", *(a.format(folder) for a in arguments)) != 0
    assert text in capsys.readouterr().err


def test_ops_that_fail(folder, capsys):
    (folder / "ops.py").write_text("1 / 0")
    assert run(folder, "inspect", "--ops", folder / "ops.py") == 2
    assert "ops.py: ZeroDivisionError" in capsys.readouterr().err


def test_ops_in_a_library(folder, capsys):
    library = build(Path(__file__).parents[2] / "examples/custom_op_c/atan.c", folder / "libatan.so", "-lm")
    assert run(folder, "run", "--input", folder / "x.npy", "--output", folder / "y.npz", "--ops",
               f"{library}:AtanOpRegistration") == 0
    np.testing.assert_allclose(np.load(folder / "y.npz")["c"], np.arctan([-1, -2, -3]), rtol=1e-6)
    assert run(folder, "inspect", "--ops", library) == 2
    assert "it exports AtanOpRegistration" in capsys.readouterr().err


def test_kinds_of_ops_and_their_names_in_profiles(folder, capsys):
    source = folder / "named.c"
    source.write_text(NAMED)
    library = build(source, folder / "libnamed.so")
    assert run(folder, "bench", "--seconds", "0.01", "--json", "--ops", f"{library}:ByValue?kind=value") == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert "copy of 3 numbers" in [node["name"] for node in nodes]


def test_what_ops_report_to_the_profiler(folder, capsys):
    """context->profiler is the profiler of TensorFlow Lite's kernels: parts of a node, with their calls in a run."""
    library = build(PLUGINS / "profiling.cc", folder / "libprofiling.so", "-std=c++11", "-pthread")
    arguments = "bench", "--seconds", "0.05", "--ops", f"{library}:Profiling"
    assert run(folder, *arguments, "--json") == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [node["node"] for node in nodes if "events" in node] == [2]
    calls = {event["name"]: event["calls"] for event in nodes[-1]["events"]}
    assert calls == {"whole": 1, "inner:0": 1, "inner:1": 1, "inner:2": 1, "with metadata": 1, "added": 1,
                     "of a thread": 1, 80 * "n": 1}
    seconds = {event["name"]: event["seconds"] for event in nodes[-1]["events"]}
    assert seconds["whole"] > seconds["of a thread"] > 0 == seconds["added"]
    assert run(folder, *arguments) == 0
    assert "  inner:2" in capsys.readouterr().out


def test_there_is_no_profiler_elsewhere(folder):
    """Nothing is to be measured there: the pointer is null, and the op does without."""
    library = build(PLUGINS / "profiling.cc", folder / "libprofiling.so", "-std=c++11", "-pthread")
    assert run(folder, "run", "--ops", f"{library}:Profiling", "--input", folder / "x.npy") == 0


NAMED = r"""
#include <stdio.h>
#include "tensorflow/lite/c/common.h"
static TfLiteStatus Prepare(TfLiteContext *c, TfLiteNode *n) {
  const TfLiteTensor *x = &c->tensors[n->inputs->data[0]];
  return c->ResizeTensor(c, &c->tensors[n->outputs->data[0]], TfLiteIntArrayCopy(x->dims));
}
static TfLiteStatus Invoke(TfLiteContext *c, TfLiteNode *n) {
  const TfLiteTensor *x = &c->tensors[n->inputs->data[0]];
  memcpy(c->tensors[n->outputs->data[0]].data.raw, x->data.raw, x->bytes);
  return kTfLiteOk;
}
static const char *Name(const TfLiteContext *c, const TfLiteNode *n) {
  static char name[32];
  snprintf(name, sizeof(name), "copy of %d numbers", (int)c->tensors[n->inputs->data[0]].bytes / 4);
  return name;
}
TfLiteRegistration ByValue(void) {
  TfLiteRegistration r = {0};
  r.prepare = Prepare;
  r.invoke = Invoke;
  r.profiling_string = Name;
  r.custom_name = "Atan";
  return r;
}
"""


def test_flex_ops(tmp_path, registered, capsys, monkeypatch):
    path = tmp_path / "erf.tflite"
    path.write_bytes(flex_models.model("Erf", [np.zeros(3, np.float32)], [((3,), "float32")]))
    assert cli.main(["inspect", str(path), "--compat"]) == 1
    assert "pylite.flex.register() before the interpreter is created, or pass --ops flex" in capsys.readouterr().out
    assert cli.main(["inspect", str(path), "--compat", "--ops", "flex"]) == 0
    assert cli.main(["run", str(path), "--zeros", "--ops", "flex"]) == 0
    capsys.readouterr()
    np.savez(tmp_path / "data.npz", np.arange(24, dtype=np.float32).reshape(8, 3) / 16)
    data = ["--data", str(tmp_path / "data.npz"), "--ops", "flex"]
    validate = ["validate", str(path), *data]
    monkeypatch.chdir(tmp_path)
    for arguments in (["--record", "r.npz"], ["--check", "r.npz"], ["--nan"], ["--isolate", "0"],
                      ["--reference", str(path)], ["--reference", str(path), "--workers", "2"],
                      ["--reference", str(path), "--shard", "1/2", "--save", "s.npz"]):
        assert cli.main([*validate, *arguments]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert cli.main(["compile", str(path), "--ops", "flex", "--cache-dir", str(tmp_path / "plans")]) == 1
    assert "it has no plan, since" in capsys.readouterr().err


IDLE = """
import pylite
class Idle(pylite.PythonDelegate):
    def supports(self, node):
        return False
"""


def test_a_delegate_that_claims_nothing_is_noted(tmp_path, capsys):
    (tmp_path / "idle.py").write_text(IDLE)
    note, delegate = "Idle claims none of the 10 nodes", ["--delegate", f"{tmp_path / 'idle.py'}:Idle"]
    assert cli.main(["run", "digits", "--input", "seven", *delegate]) == 0
    assert f"note: {note}" in capsys.readouterr().err
    for command in (["inspect", "digits"], ["bench", "digits", "--seconds", "0.02"]):
        assert cli.main([*command, *delegate]) == 0
        assert note in capsys.readouterr().out
        assert cli.main(command) == 0
        assert "claims none" not in capsys.readouterr().out


def write_halved(folder):
    """m.tflite in the folder: one custom op, Halved."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 3)), m.tensor("y", (1, 3))
    m.operator("Halved", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    (folder / "m.tflite").write_bytes(m.build())


def test_an_unresolved_op_is_reported_with_the_option(tmp_path, capsys):
    write_halved(tmp_path)
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--zeros"]) == 1
    assert " ".join(capsys.readouterr().err.split()) == (
        "pylite run: Encountered unresolved custom op: Halved (node 0). Load it with --ops FILE.py or --ops "
        "LIBRARY.so:FUNCTION; in Python, register it with pylite.custom_op('Halved'), load it with "
        "pylite.load_custom_ops() if it is in C, or convert the model without it")
    assert cli.main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "missing: Encountered unresolved custom op: Halved (node 0). Load it with --ops" in capsys.readouterr().out
    (tmp_path / "noop.py").write_text("")
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--zeros", "--ops", str(tmp_path / "noop.py")]) == 2
    assert "noop.py: registered no op; write @pylite.custom_op" in " ".join(capsys.readouterr().err.split())


def test_an_op_that_returns_its_result_is_not_told_of_random_numbers(tmp_path, capsys):
    write_halved(tmp_path)
    (tmp_path / "ops.py").write_text('import pylite\npylite.custom_op("Halved")(lambda x, y: x / 2)\n')
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--random", "1", "--ops", str(tmp_path / "ops.py")]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "it returned ndarray; results must be written into the output arrays" in error and "--zeros" not in error


def test_ops_of_validate_are_in_each_process(tmp_path):
    """--ops FILE.py with --workers: the processes know the op, and all of them the same model."""
    write_halved(tmp_path)
    (tmp_path / "ops.py").write_text(OPS.replace('"Atan")(np.arctan)',
                                                 '"Halved")(lambda x, y: np.divide(x, 2, out=y))'))
    np.savez(tmp_path / "data.npz", np.random.default_rng(0).random((8, 3), np.float32))
    found = []
    for workers in "12":
        done = subprocess.run(
            [sys.executable, "-m", "pylite", "validate", "m.tflite", "--reference", "m.tflite", "--data", "data.npz",
             "--ops", "ops.py", "--workers", workers, "--json"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["bench", "compile", "inspect", "report", "resolver", "run", "validate"])
def test_each_command_with_a_model_takes_ops(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert "--ops WHAT" in capsys.readouterr().out
