"""The project's own models: they are what the stored weights give, and do as well as their card says."""
import importlib
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).resolve().parents[1] / "examples" / "training"


@pytest.fixture
def training(monkeypatch):
    """Imports a module of examples/training."""
    monkeypatch.syspath_prepend(str(TRAINING))
    yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) and Path(module.__file__).parent == TRAINING:
            del sys.modules[name]


TASKS = ["digits"]


@pytest.mark.parametrize("name", TASKS)
def test_file_is_what_weights_give(training, name):
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    task, export = training(name), training("export")
    network = task.network()
    ranges = export.load(TRAINING / "weights" / f"{name}.npz", network)
    assert task.build(network, ranges) == (training("task").MODELS / f"{name}.tflite").read_bytes()
