"""The project's own models: they are what the stored weights give, and do as well as their card says."""
import importlib
import sys
from pathlib import Path

import numpy as np
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


TASKS = {"digits": "digits", "detector": "digit-detector", "sounds": "sounds"}     # script -> model


@pytest.mark.parametrize("name", TASKS)
def test_file_is_what_weights_give(training, name):
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    task, export = training(name), training("export")
    network = task.network()
    ranges = export.load(TRAINING / "weights" / f"{task.NAME}.npz", network)
    assert task.build(network, ranges) == (training("task").MODELS / f"{task.NAME}.tflite").read_bytes()


def test_layers_gradients(training):
    """What backward says agrees with differences of forward, for every kind of layer."""
    nn = training("nn")
    rng = np.random.default_rng(0)
    net = nn.Network([nn.Conv(rng, 2, 3, stride=2), nn.Depthwise(rng, 3, stride=2), nn.Conv(rng, 3, 4, kernel=1),
                      nn.MaxPool()], [nn.Mean(), nn.Dense(rng, 4, 3)], [nn.Dense(rng, 16, 2, relu=True)])
    for p in net.parameters:        # away from the corners of ReLU
        p += np.float32(0.1)
    x = rng.normal(size=(3, 9, 13, 2)).astype(np.float32)
    weights = [rng.normal(size=y.shape) for y in net.forward(x)]

    def value():
        return sum((w * y).sum() for w, y in zip(weights, net.forward(x), strict=True))
    value()
    net.backward([w.astype(np.float32) for w in weights])
    for layer in net.layers:
        for p, g in zip(layer.parameters, layer.gradients, strict=True):
            way = np.sign(g)
            p += np.float32(1e-3) * way
            high = value()
            p -= np.float32(2e-3) * way
            low = value()
            p += np.float32(1e-3) * way
            assert (high - low) / 2e-3 == pytest.approx(np.abs(g).sum(), rel=0.03), type(layer).__name__


def test_training_repeats(training, monkeypatch):
    """The same few steps give the same bytes."""
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    digits, export, nn = training("digits"), training("export"), training("nn")
    full = nn.train

    def made():
        net = digits.network()
        monkeypatch.setattr(digits, "train", lambda *args, **options: full(*args, **options | {"steps": 30}))
        digits.fit(net)
        export.halve(net)
        return digits.build(net, export.calibrate(net, digits.calibration()))
    assert made() == made()
