"""The models and helpers of benchmarks/; measured figures are not tested."""
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema import load

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script of benchmarks/."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load_script(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module
    return load_script


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_scripts_import(script, name):
    if name == "keras_models":
        pytest.importorskip("tensorflow", reason="it needs TensorFlow, of 600 MB")
    script(name)


def test_models_have_the_documented_sizes(script):
    models = script("_models")
    assert len(load(models.embedding()).subgraphs[0].operators) == 65
    interpreter = Interpreter(model_content=models.chain(20))
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_medians(script):
    calls = []
    assert script("_common").median_seconds(lambda: calls.append(1), budget=0, least=3) >= 0 and len(calls) == 4


def test_rows_of_the_page_are_kept(script):
    """With --only, rows that are not named keep both sides of the page, and named ones LiteRT's."""
    arm_table = script("arm_table")
    race = object.__new__(arm_table.Race)
    race.kept, race.rows = {}, {}
    cells = " | ".join(f"{i}.50 / {i + 1}.25 (0.90)" for i in range(1, 7))
    page = (f"| int8 | a | b | c | d | e | f |\n| one | {cells} |\n| two | {cells} |\n"
            "| **geometric mean** | **1.00** | **1.00** | **1.00** | **1.00** | **1.00** | **1.00** |\n\n"
            f"Start, in millions\n| one | 1.00 / 1.00 (1.00) | 1.00 / 1.00 (1.00) |\n")
    assert race.keep(page, ["one"]).startswith("Start, in millions\n| one")
    assert {(which, name) for _, which, name in race.kept} == {("litert", "one"), ("pylite", "two"), ("litert", "two")}
    assert race.rows == {"two": f"| two | {cells} |"}
    assert race.kept["cortex-a76", "litert", "two"] == {"invoke": 6.25e6, "cycles": 7.25e6}
    assert race.kept["cortex-a53", "pylite", "two"] == {"invoke": 1.5e6, "cycles": 2.5e6}


def test_the_means_of_models_on_arm_are_those_of_the_tables(script):
    arm_table = script("arm_table")
    tables = arm_table.between(arm_table.TABLES, arm_table.BEGIN, arm_table.END)
    lines = list(arm_table.means(tables))
    assert len(lines) == 2 + len(arm_table.CLASSES)
    assert "\n".join(lines) + "\n" == arm_table.between(arm_table.PAGE, *arm_table.MEANS)


def test_what_binds_a_board(script):
    """Threads divide cycles and stalls; DRAM's bandwidth is a limit that they share."""
    arm_board = script("arm_board")
    board = arm_board.Board("board", "cortex-a53", 1.0, 12.8, 5.53 / 12.8, second=10, third=0, dram=100)
    windows = np.zeros((2, arm_board.COUNTERS))
    windows[:, arm_board.INSTRUCTIONS] = 50_000
    milliseconds, shares = arm_board.predict(board, 100_000, windows)
    assert milliseconds == pytest.approx(0.1) and shares["core"] == 1
    windows[:, arm_board.DATA] = 2000, 0, 300       # a window stalls for 20,000 and 30,000 cycles
    milliseconds, shares = arm_board.predict(board, 100_000, windows)
    assert milliseconds == pytest.approx(0.2) and shares["L2"] == pytest.approx(0.2)
    assert shares["DRAM latency"] == pytest.approx(0.3)
    assert arm_board.predict(board, 100_000, windows, 4)[0] == pytest.approx(0.05)
    windows[0, arm_board.WRITTEN] = 5530            # as many lines take 64 us of 5.53 GB/s, and 300 more
    milliseconds, shares = arm_board.predict(board, 100_000, windows, 4)
    assert milliseconds == pytest.approx(0.064 * 5830 / 5530 + 0.025)
    assert shares["DRAM bandwidth"] == pytest.approx(1 - 0.025 / milliseconds)
