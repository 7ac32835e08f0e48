"""The model `digit-detector`: handwritten digits and their boxes in a 96x96 picture.

A small SSD: for each of 12x12 cells, a convolutional network computes the probability that a digit is centred there,
and the difference between the digit's box and the cell's anchor.  TFLite_Detection_PostProcess, which is part of the
model, converts these to at most ten boxes.  The training scenes are made here: the digits of scikit-learn, enlarged,
bright on dark, with lines, spots, shading and noise.  Test scenes have only digits that no training scene has.
"""
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")      # sums in one order: the same weights every time

from functools import cache

import numpy as np
import task
from digits import LABELS, data, warped
from export import Exporter
from flatbuffers import flexbuffers
from nn import Conv, Depthwise, Network, train

NAME = "digit-detector"
SIZE, CELLS = 96, 12                # pixels and anchors along a side
ANCHOR = 20                         # pixels
SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
CENTRES = (np.arange(CELLS) + 0.5) * (SIZE / CELLS)
RATE = 6e-3
STEPS, BATCH = 6000, 16
TEST = 300                          # scenes


@cache
def _enlarging(size):
    """(size, 8) matrix that resamples 8 pixels to `size`, bilinear."""
    at = np.clip((np.arange(size) + 0.5) * 8 / size - 0.5, 0, 7)
    return np.clip(1 - np.abs(at[:, None] - np.arange(8)), 0, None).astype(np.float32)


def scene(rng, pictures, labels):
    """(pixels (96, 96) in 0..1, boxes (n, 4) as top, left, bottom, right in pixels, classes)."""
    y, x = np.mgrid[:SIZE, :SIZE] / np.float32(SIZE)
    image = rng.uniform(0, 0.25) + rng.uniform(-0.15, 0.15, 2) @ [y.ravel(), x.ravel()]
    image = image.reshape(SIZE, SIZE).astype(np.float32)
    for _ in range(rng.integers(0, 4)):
        _clutter(rng, image, y, x)
    boxes, classes = [], []
    for _ in range(rng.integers(0, 6)):
        size = rng.integers(15, 31)
        top, left = rng.integers(0, SIZE - size, 2)
        pick = rng.integers(len(pictures))
        rows = _enlarging(int(size))
        digit = rows @ warped(rng, pictures[pick:pick + 1], shift=0.3)[0].astype(np.float32) @ rows.T / 255
        digit = np.clip((digit - 0.5) * rng.uniform(1, 2.5) + 0.5, 0, 1)
        down, across = (np.flatnonzero(digit.max(axis) > 0.3) for axis in (1, 0))
        box = [top + down[0], left + across[0], top + down[-1] + 1, left + across[-1] + 1]
        if any(iou(box, other, margin=2) > 0 for other in boxes):
            continue
        boxes.append(box)
        classes.append(labels[pick])
        window = image[top:top + size, left:left + size]
        window += digit * (rng.uniform(0.65, 1.0) - window)
    image += rng.normal(0, rng.uniform(0.005, 0.05), image.shape)
    return np.clip(image, 0, 1), np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, int)


def _clutter(rng, image, y, x):
    """A line across the picture, or a soft spot."""
    if rng.random() < 0.5:
        angle, shift = rng.uniform(0, np.pi), rng.uniform(0.2, 0.8)
        distance = np.abs((y - shift) * np.cos(angle) + (x - shift) * np.sin(angle))
        mark = np.clip(rng.uniform(0.5, 2) / SIZE - distance, 0, 1 / SIZE) * SIZE
    else:
        distance = np.hypot(y - rng.random(), x - rng.random())
        mark = np.clip(1 - distance / rng.uniform(0.02, 0.12), 0, 1)
    image += mark * rng.uniform(0.2, 0.5)


def iou(a, b, margin=0):
    """Intersection over union of two boxes; `margin` is added around the first."""
    height = min(a[2] + margin, b[2]) - max(a[0] - margin, b[0])
    width = min(a[3] + margin, b[3]) - max(a[1] - margin, b[1])
    if height <= 0 or width <= 0:
        return 0.0
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return height * width / (sum(areas) - height * width)


def targets(boxes, classes):
    """The targets of the heads: (class of each cell, -1 for none, -2 to ignore; encoded boxes (cells, cells, 4))."""
    wanted = np.full((CELLS, CELLS), -1)
    encoded = np.zeros((CELLS, CELLS, 4), np.float32)
    for (top, left, bottom, right), digit in zip(boxes, classes, strict=True):
        middle = (top + bottom) / 2, (left + right) / 2
        size = bottom - top, right - left
        far = np.maximum(np.abs(CENTRES[:, None] - middle[0]), np.abs(CENTRES - middle[1]))
        wanted[far < max(size) / 2] = -2
        near = (far < max(5, min(size) / 4)) | (far == far.min())
        wanted[near] = digit
        encoded[near] = np.stack(np.broadcast_arrays(
            (middle[0] - CENTRES[:, None]) / ANCHOR * SCALES["y_scale"],
            (middle[1] - CENTRES) / ANCHOR * SCALES["x_scale"],
            np.log(size[0] / ANCHOR) * SCALES["h_scale"], np.log(size[1] / ANCHOR) * SCALES["w_scale"]), -1)[near]
    return wanted, encoded


def network():
    rng = np.random.default_rng(1)
    net = Network([Conv(rng, 1, 16, stride=2), Conv(rng, 16, 24, stride=2),
                   Conv(rng, 24, 40, stride=2),
                   Depthwise(rng, 40), Conv(rng, 40, 64, kernel=1), Depthwise(rng, 64), Conv(rng, 64, 64, kernel=1),
                   Depthwise(rng, 64), Conv(rng, 64, 64, kernel=1)],
                  [Conv(rng, 64, 4, kernel=1, relu=False)],
                  [Conv(rng, 64, 10, kernel=1, relu=False)])
    net.heads[1][0].parameters[1][:] = -4       # initially, no digit anywhere
    return net


def loss(outputs, target):
    """Cross entropy of the classes and smooth L1 of the boxes, per digit in the batch."""
    boxes, logits = outputs
    wanted, encoded = target
    one_hot = wanted[..., None] == np.arange(10)
    p = 1 / (1 + np.exp(-logits.clip(-30, 30)))
    counts = (wanted != -2)[..., None]
    found = wanted >= 0
    digits = max(found.sum(), 1)
    off = np.where(found[..., None], boxes - encoded, 0)
    size = np.abs(off)
    value = (-np.log(np.where(one_hot, p, 1 - p) + 1e-7) * counts).sum()
    value += 0.3 * np.where(size < 1, off * off / 2, size - 0.5).sum()
    return value / digits, [(0.3 * np.clip(off, -1, 1) / digits).astype(np.float32),
                            ((p - one_hot) * counts / digits).astype(np.float32)]


def fit(net):
    rng = np.random.default_rng(2)
    pictures, labels = data()[:2]

    def batches():
        while True:
            scenes = [scene(rng, pictures, labels) for _ in range(BATCH)]
            wanted, encoded = zip(*(targets(b, c) for _, b, c in scenes), strict=True)
            yield np.stack([s[0] for s in scenes])[..., None], (np.stack(wanted), np.stack(encoded))
    train(net, batches(), loss, STEPS, rate=RATE, longest=5.0, report=task.progress)


def calibration():
    rng = np.random.default_rng(3)
    yield np.stack([scene(rng, *data()[:2])[0] for _ in range(200)])[..., None]


def build(net, ranges):
    model = Exporter(net, ranges, "pylite digit-detector: handwritten digits in a 96x96 picture", "image",
                     (1, SIZE, SIZE, 1), 0, 1, limit=10)
    boxes, classes = (model.reshape(head, (1, CELLS * CELLS, width))
                      for head, width in zip(model.heads, (4, 10), strict=True))
    classes = model.probabilities("LOGISTIC", classes, "scores")
    inputs = [model.operator("DEQUANTIZE", [x], model.tensors[x][0], dtype="float32", version=2)
              for x in (boxes, classes)]
    inputs.append(model.builder.constant("anchors", anchors()))
    shapes = {"boxes": (1, 10, 4), "classes": (1, 10), "scores": (1, 10), "count": (1,)}
    outputs = {f"detection_{name}": model.tensor(f"detection_{name}", shape, dtype="float32")
               for name, shape in shapes.items()}
    options = SCALES | {"max_detections": 10, "max_classes_per_detection": 1, "detections_per_class": 10,
                        "use_regular_nms": False, "nms_score_threshold": 0.1, "nms_iou_threshold": 0.4,
                        "num_classes": 10}
    model.builder.operator("TFLite_Detection_PostProcess", inputs, list(outputs.values()),
                           custom_options=bytes(flexbuffers.Dumps(options)))
    return model.finish(LABELS, outputs)


def anchors():
    """(cells, 4): middle (y, x), height, width, as fractions of the picture."""
    y, x = np.meshgrid(CENTRES, CENTRES, indexing="ij")
    size = np.full(CELLS * CELLS, ANCHOR)
    return (np.stack([y.ravel(), x.ravel(), size, size], 1) / SIZE).astype(np.float32)


def decoded(boxes, logits):
    """TFLite_Detection_PostProcess for the float network: [(score, class, box in pixels)], best first."""
    at = anchors() * SIZE
    steps = boxes.reshape(-1, 4) / list(SCALES.values())
    middle, size = at[:, :2] + steps[:, :2] * ANCHOR, np.exp(steps[:, 2:]) * ANCHOR / 2
    corners = np.concatenate([middle - size, middle + size], 1)
    scores = 1 / (1 + np.exp(-logits.reshape(-1, 10).clip(-30, 30)))
    kept = []
    for i in np.argsort(-scores.max(1), kind="stable"):
        if scores[i].max() >= 0.1 and len(kept) < 10 and all(iou(corners[i], k[2]) <= 0.4 for k in kept):
            kept.append((scores[i].max(), int(scores[i].argmax()), corners[i]))
    return kept


def measure_float(net):
    return _score(lambda image: decoded(*net.forward(image[None, ..., None])))


def measure(run):
    def detect(image):
        steps = (np.rint(image * 255) - 128).astype(np.int8)
        boxes, classes, scores, count = (y[0] for y in run(steps[None, ..., None]))
        return [(scores[i], int(classes[i]), boxes[i] * SIZE) for i in range(int(count))]
    return _score(detect)


def _score(detect, least=0.5):
    """Precision and recall at the score `least`; a box is right if its IoU is at least 0.5 and its digit is right."""
    rng = np.random.default_rng(4)
    hits = placed = digits = detections = 0
    for _ in range(TEST):
        image, boxes, classes = scene(rng, *data()[2:])
        left = dict(enumerate(zip(boxes, classes, strict=True)))
        digits += len(left)
        for score, digit, box in detect(image):
            if score < least:
                continue
            detections += 1
            best = max(left, key=lambda k: iou(box, left[k][0]), default=None)
            if best is not None and iou(box, left[best][0]) >= 0.5:
                placed += 1
                hits += left.pop(best)[1] == digit
    return (f"{detections} boxes for {digits} digits in {TEST} new scenes; precision {hits / detections:.1%}, "
            f"recall {hits / digits:.1%}; {placed / digits:.1%} found if the digit is not asked")


def samples():
    """Write a test scene to the examples as .pgm."""
    rng = np.random.default_rng(8)
    pictures, labels = data()[2:]
    while len((found := scene(rng, pictures, labels))[1]) < 4:
        pass
    folder = task.HERE.parent / "raspberry_pi" / "samples"
    folder.mkdir(exist_ok=True)
    header = f"P5\n{SIZE} {SIZE}\n255\n".encode()
    (folder / "scene.pgm").write_bytes(header + np.rint(found[0] * 255).astype(np.uint8).tobytes())


if __name__ == "__main__":
    task.main(sys.modules[__name__])
