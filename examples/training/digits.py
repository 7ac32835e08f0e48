"""The model `digits`: the digit in an 8x8 picture of handwriting.

Trained on the handwritten digits of scikit-learn: 1797 pictures, of which a random fifth is for the test.
"""
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")      # sums in one order: the same weights every time

from functools import cache

import numpy as np
import task
from export import Exporter
from nn import Conv, Dense, Depthwise, MaxPool, Network, softmax_cross_entropy, train
from sklearn.datasets import load_digits

NAME = "digits"
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@cache
def data():
    """(training pictures, labels, test pictures, labels): uint8 (n, 8, 8), bright ink."""
    digits = load_digits()
    pictures = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(pictures))
    test, rest = order[::5], np.delete(order, np.s_[::5])
    return pictures[rest], digits.target[rest], pictures[test], digits.target[test]


def network():
    rng = np.random.default_rng(1)
    return Network([Conv(rng, 1, 16), Depthwise(rng, 16), Conv(rng, 16, 32, kernel=1), MaxPool(),
                    Depthwise(rng, 32), Conv(rng, 32, 32, kernel=1), MaxPool()],
                   [Dense(rng, 2 * 2 * 32, 10)])


def fit(net):
    rng = np.random.default_rng(2)
    pictures, labels = data()[:2]

    def batches():
        while True:
            pick = rng.integers(0, len(pictures), 64)
            yield real(warped(rng, pictures[pick])), labels[pick]

    def loss(outputs, target):
        value, gradient = softmax_cross_entropy(outputs[0], target)
        return value, [gradient]
    train(net, batches(), loss, steps=6000, report=task.progress)


def warped(rng, pictures, turn=0.15, scale=0.1, shift=0.6):
    """The pictures, each randomly rotated (radians), sheared, stretched and shifted (pixels); bilinear."""
    n, h, w = pictures.shape
    angle, shear = rng.uniform(-turn, turn, (2, n, 1, 1))
    stretch = rng.uniform(1 - scale, 1 + scale, (2, n, 1, 1))
    y0, x0 = rng.uniform(-shift, shift, (2, n, 1, 1))
    y, x = np.mgrid[:h, :w] - np.reshape([h - 1, w - 1], (2, 1, 1)) / 2
    down = (np.cos(angle) * y - np.sin(angle) * x) * stretch[0] + y0 + (h - 1) / 2
    across = (np.sin(angle + shear) * y + np.cos(angle) * x) * stretch[1] + x0 + (w - 1) / 2
    padded = np.pad(pictures, ((0, 0), (1, 2), (1, 2)))
    down, across = np.clip(down, -1, h) + 1, np.clip(across, -1, w) + 1
    i, j = down.astype(int), across.astype(int)
    a, b = down - i, across - j
    k = np.arange(n)[:, None, None]
    return ((1 - a) * ((1 - b) * padded[k, i, j] + b * padded[k, i, j + 1])
            + a * ((1 - b) * padded[k, i + 1, j] + b * padded[k, i + 1, j + 1]))


def real(pictures):
    """Pixels 0..255 -> the network's input: 0..1, (n, 8, 8, 1)."""
    return (pictures[..., None] / 255).astype(np.float32)


def calibration():
    yield real(data()[0])


def build(net, ranges):
    model = Exporter(net, ranges, "pylite digits: 8x8 handwritten digits", "image", (1, 8, 8, 1), 0, 1)
    y = model.probabilities("SOFTMAX", model.heads[0], "probabilities", beta=1.0)
    return model.finish(LABELS, {"probabilities": y})


def measure_float(net):
    _, _, pictures, labels = data()
    return _score(net.forward(real(pictures))[0].argmax(1), labels)


def measure(run):
    _, _, pictures, labels = data()
    steps = (pictures ^ 0x80).view(np.int8)[..., None]
    return _score([run(x[None])[0].argmax() for x in steps], labels)


def _score(found, labels):
    right = int((np.asarray(found) == labels).sum())
    return f"{right} of {len(labels)} test pictures right ({right / len(labels):.2%})"


def samples():
    """Write the first test picture of every digit as .pgm."""
    _, _, pictures, labels = data()
    folder = task.MODELS / "samples"
    folder.mkdir(exist_ok=True)
    for digit, label in enumerate(LABELS):
        picture = pictures[np.flatnonzero(labels == digit)[0]]
        (folder / f"{label}.pgm").write_bytes(b"P5\n8 8\n255\n" + picture.tobytes())


if __name__ == "__main__":
    task.main(sys.modules[__name__])
