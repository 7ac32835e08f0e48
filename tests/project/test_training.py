"""The bundled models: reproducible from the stored weights, as accurate as documented."""
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from tests.tools.oneop import assert_equal, run_peer, run_pylite

TRAINING = Path(__file__).resolve().parents[2] / "examples" / "training"


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
def test_files_equal_the_export_of_the_stored_weights(training, name):
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    task, export = training(name), training("export")
    network = task.network()
    ranges = export.load(TRAINING / "weights" / f"{task.NAME}.npz", network)
    assert task.build(network, ranges) == (training("task").MODELS / f"{task.NAME}.tflite").read_bytes()


def test_layers_gradients(training):
    """Gradients of backward() agree with finite differences of forward(), for every kind of layer."""
    nn = training("nn")
    rng = np.random.default_rng(0)
    net = nn.Network([nn.Conv(rng, 2, 3, stride=2), nn.Depthwise(rng, 3, stride=2), nn.Conv(rng, 3, 4, kernel=1),
                      nn.MaxPool()], [nn.Mean(), nn.Dense(rng, 4, 3)], [nn.Dense(rng, 16, 2, relu=True)])
    for p in net.parameters:        # away from the kink of ReLU
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


def test_training_is_reproducible(training, monkeypatch):
    """The same few steps give the same bytes."""
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    digits, export, nn = training("digits"), training("export"), training("nn")
    full = nn.train

    def made():
        net = digits.network()
        monkeypatch.setattr(digits, "train", lambda *args, **options: full(*args, **options | {"steps": 10}))
        digits.fit(net)
        export.halve(net)
        return digits.build(net, export.calibrate(net, digits.calibration()))
    from threadpoolctl import threadpool_limits  # a dependency of scikit-learn
    with threadpool_limits(1):          # as the scripts set before they import numpy
        assert made() == made()


# The accuracies documented in examples/training/README.md, with a small margin.
def test_accuracy_of_digits(training):
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    digits, run = training("digits"), shipped(training, "digits")
    _, _, pictures, labels = digits.data()
    steps = (pictures ^ 0x80).view(np.int8)[..., None]
    assert np.mean([run(x[None])[0].argmax() for x in steps] == labels) >= 0.985


def test_accuracy_of_digit_detector(training, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    detector = training("detector")
    monkeypatch.setattr(detector, "TEST", 60)
    precision, recall = map(float, re.findall(r"(?:precision|recall) ([\d.]+)%",
                                              detector.measure(shipped(training, "digit-detector"))))
    assert precision >= 85 and recall >= 88


def test_accuracy_of_sounds(training, monkeypatch):
    sounds = training("sounds")
    monkeypatch.setattr(sounds, "TEST", 200)
    assert float(sounds.measure(shipped(training, "sounds")).partition("%")[0]) >= 94


@pytest.mark.parametrize("name", TASKS.values())
def test_models_equal_the_reference_kernels(training, name):
    """On noise and on gradients, integers to the last bit."""
    model = (training("task").MODELS / f"{name}.tflite").read_bytes()
    shape = tuple(Interpreter(model_content=model).get_input_details()[0]["shape"])
    rng = np.random.default_rng(0)
    for _ in range(5):
        ramp = np.linspace(*rng.integers(-128, 128, 2), np.prod(shape)).reshape(shape)
        for x in (rng.integers(-128, 128, shape).astype(np.int8), ramp.astype(np.int8)):
            got, want = run_pylite(model, [x], 2), run_peer(model, [x])
            if len(want) == 4:      # boxes; the peer leaves those after the count uninitialized
                got, want = ([y[:, :int(found[3][0])] for y in found[:3]] for found in (got, want))
            assert_equal(got, want, name)


def shipped(training, name):
    task = training("task")
    return task.runner((task.MODELS / f"{name}.tflite").read_bytes())
