"""The check of imports in Cython files finds imports that point up."""
import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / ".ci" / "layers.py"


@pytest.fixture(scope="module")
def layers():
    spec = importlib.util.spec_from_file_location("layers", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("file", "line", "above"), [
    ("kernels/conv.pyx", "from pylite.ops.filter_layout import arranged", "ops.filter_layout"),
    ("kernels/conv.pyx", "    from pylite.ir import graph", "ir"),
    ("kernels/conv.pyx", "import pylite.runtime.model", "runtime.model"),
    ("kernels/conv.pyx", "from pylite import runtime, errors", "runtime"),
    ("run/program.pyx", "from pylite._core.kernels.tasks cimport (\n    Task,\n    Tasks,\n)", "_core.kernels.tasks"),
    ("graph/calls.pyx", "from pylite._core.run cimport kernel", "_core.run"),
    ("simd.pxd", "from pylite._core.graph.calls cimport Call", "_core.graph.calls")])
def test_imports_that_point_up_are_found(layers, file, line, above):
    fault, = layers.faults(Path("pylite/_core", file), f"import numpy as np\n{line}\n")
    assert f"imports pylite.{above}, which is above" in fault


@pytest.mark.parametrize("line", [
    "from pylite import errors", "from pylite._core.run.kernel cimport Kernel", "from pylite._core import simd",
    "from pylite._core.kernels.tasks cimport padded", "# from pylite.ops import wide", "from numpy import empty"])
def test_imports_that_point_down_are_not(layers, line):
    assert layers.faults(Path("pylite/_core/kernels/conv.pyx"), line) == []


def test_all_files_pass(layers):
    assert layers.main() == 0
